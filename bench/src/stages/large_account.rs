//! What pollers of an account with very many senders cost another user who reads.

use anyhow::Result;
use system_tests::{Percentiles, TestEnv};

use super::{EVERYTHING, Plan, sequenced};
use crate::{
    load::{connection::Connection, reading, traffic::Traffic},
    results::{Bound, Row},
    sample::Spread,
};

const SENDERS: u64 = 100_000;
const POLLERS: usize = 16;
/// Of the other user, who has this many senders.
const READS_A_SECOND: u32 = 100;
const FEW_SENDERS: u64 = 20;

/// In each round first without the pollers, then beside them.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    let port = env.port("query-api")?;
    let large = receiver(&env, SENDERS).await?;
    let small = receiver(&env, FEW_SENDERS).await?;
    let mut connection = Connection::open(port).await?;
    for path in [&large, &small] {
        connection.get(path).await?;
    }
    let (mut alone, mut beside, mut ratio, mut polls) = (vec![], vec![], vec![], vec![]);
    for _ in 0..plan.rounds {
        let quiet = p99(reading::paced(port, &small, READS_A_SECOND, plan.length).await?);
        let paths = [large.clone()].into();
        let (reads, answers) = tokio::try_join!(
            reading::paced(port, &small, READS_A_SECOND, plan.length),
            reading::read(port, POLLERS, paths, plan.length),
        )?;
        let disturbed = p99(reads);
        alone.push(quiet);
        beside.push(disturbed);
        ratio.push(disturbed / quiet);
        polls.push(answers as f64 / plan.length.as_secs_f64());
    }
    let row = |what: String, unit, values: Vec<f64>, most: Option<f64>| {
        Row::of_value(what, unit, Spread::of(values), most.map(Bound::AtMost), &[])
    };
    let counts = "unread counts of 20 senders";
    let pollers = format!("beside {POLLERS} pollers of {SENDERS} senders");
    Ok(vec![
        row(format!("{counts}, p99"), "ms", alone, None),
        row(format!("{counts}, p99 {pollers}"), "ms", beside, None),
        row(
            format!("{counts}, p99 {pollers} / p99"),
            "",
            ratio,
            Some(2.0),
        ),
        row(
            format!("answers a second to {POLLERS} pollers of {SENDERS} senders"),
            "",
            polls,
            None,
        ),
    ])
}

/// A user to whom so many have written once: the path of the counts.
async fn receiver(env: &TestEnv, senders: u64) -> Result<String> {
    let traffic = Traffic::each_to_each(senders, 1);
    let uid = traffic.nth(0).destid;
    sequenced(env, &traffic, senders).await?;
    env.check_all_partitions().await?;
    Ok(format!("/v1/users/{uid}/unread?device=pc&timeout_ms=30000"))
}

fn p99(waited_ms: Vec<f64>) -> f64 {
    Percentiles::of(waited_ms).p99
}

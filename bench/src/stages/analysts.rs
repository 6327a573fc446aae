//! What analysts run over the log while users are served: exports and replays.

use anyhow::{Context as _, Result};
use system_tests::TestEnv;
use tempfile::TempDir;
use tokio::select;

use super::{EVERYTHING, Plan, latency, sequenced};
use crate::{
    load::{closed, traffic::Traffic},
    results::{Bound, Row},
    sample::Spread,
};

const MESSAGES: u64 = 500_000;

/// Delivery while analysts run exports and replays, at 1,000 messages a second.
pub(super) async fn beside(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    sequenced(&env, &Traffic::real()?, MESSAGES).await?;
    env.check_all_partitions().await?;
    closed::warm_up(&env, &Traffic::real()?).await?;
    env.check_all_partitions().await?;
    let (mut undisturbed, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        undisturbed.push(latency::one_round(&env).await?);
        beside.push(select! {
            round = latency::one_round(&env) => round?,
            Err(error) = analyse(&env) => return Err(error),
        });
        drop_scratch(&env).await?;
    }
    let ratio = |place: usize| {
        let each = beside.iter().zip(&undisturbed);
        Spread::of(each.map(|(beside, alone)| beside[place] / alone[place]))
    };
    let row = |what, place| {
        let what = format!("1,000/s, send → {what}, p99 beside exports and replays ÷ undisturbed");
        let most = Some(Bound::AtMost(1.5));
        Row::of_value(what, "", ratio(place), most, &[])
    };
    Ok(vec![
        row("accepted", 0),
        row("in Redis", 1),
        row("in MySQL", 2),
    ])
}

/// Exports and replays, again and again; ends with an error only.
async fn analyse(env: &TestEnv) -> Result<()> {
    loop {
        let lake = TempDir::new()?;
        let lake = lake.path().to_str().context("a path that is no text")?;
        env.tidemark(&["export", "messages", "--to-dir", lake])
            .await?
            .expect(0)?;
        env.tidemark(&["replay", "--as-of", "now", "--into", "bench"])
            .await?
            .expect(0)?;
        drop_scratch(env).await?;
    }
}

/// Drops the scratch. There may be none: an analyst who is stopped may just have dropped it.
async fn drop_scratch(env: &TestEnv) -> Result<()> {
    env.tidemark(&["scratch", "drop", "bench"]).await.map(drop)
}

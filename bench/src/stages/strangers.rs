//! What one account makes the stores keep that writes to people it has never written to. The sequencer's part is in `idle-conversations`.

use anyhow::{Context as _, Result};
use system_tests::TestEnv;

use super::{EVERYTHING, Plan, sequenced};
use crate::{
    deadline::wait_until,
    disk,
    load::traffic::Traffic,
    meter::{SharedPages, resident_of},
    progress::Progress,
    results::Row,
};

/// Far more than a user may begin in a day, and all in one partition, so that what stores reserve for each table hardly counts.
const STRANGERS: u64 = 100_000;
/// What rule version 2 lets a user begin in a day: 20 in each partition.
const OF_A_DAY: f64 = 1_280.0;
const KIB: f64 = 1024.0;

/// A message to each, none of whom ever reads.
pub(super) async fn run(_plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    let before = Kept::by(&env).await?;
    sequenced(&env, &Traffic::to_strangers(), STRANGERS).await?;
    Progress::of(&env).await?.all_written().await?;
    // An event finds its user absent, and the user is rebuilt later.
    let rebuilt = async || Ok(env.redis.number(&["SCARD", "tidemark:wanted"]).await? == 0);
    wait_until("everybody is in Redis", rebuilt).await?;
    let after = Kept::by(&env).await?;
    let rows = after.0.into_iter().zip(before.0);
    Ok(rows
        .flat_map(|(after, before)| of_one(after, before))
        .collect())
}

fn of_one((what, after): (&str, f64), (_, before): (&str, f64)) -> [Row; 2] {
    let each = (after - before) / STRANGERS as f64;
    let of_day = each * OF_A_DAY / KIB;
    let row = |what, unit, value| Row::of_one(what, unit, value, None);
    [
        row(
            format!("{what}, for each of {STRANGERS} strangers"),
            "bytes",
            each,
        ),
        row(format!("{what}, for the 1,280 of a day"), "KiB", of_day),
    ]
}

/// What each store has, bytes.
struct Kept([(&'static str, f64); 4]);

impl Kept {
    async fn by(env: &TestEnv) -> Result<Self> {
        let redis = env.pid("redis").context("Redis has ended")?;
        let redis = resident_of(redis, SharedPages::Resident)? * KIB * KIB;
        let tables =
            |name| Ok::<f64, anyhow::Error>(disk::bytes(env, "mariadb", "im_", name)? as f64);
        Ok(Self([
            ("Redis' memory", redis),
            ("MariaDB, tables of contacts", tables("contact_")?),
            ("MariaDB, tables of messages", tables("chat_msg_")?),
            (
                "Kafka's log",
                disk::bytes(env, "kafka", "chat.", "")? as f64,
            ),
        ]))
    }
}

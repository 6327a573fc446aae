//! What conversations cost in which nothing happens: memory of the sequencer, and time of its restart.

use std::time::Instant;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use system_tests::TestEnv;

use super::{Plan, SERVERS, sequenced};
use crate::{
    load::traffic::Traffic,
    meter::{SharedPages, resident_of},
    results::Row,
};

/// All in one partition.
const CONVERSATIONS: [u64; 3] = [0, 100_000, 1_000_000];
const SEQUENCER: &str = "sequencer";
const MIB: f64 = 1024.0 * 1024.0;

/// With one message each, which the sequencer remembers for recognising repeats.
pub(super) async fn run(_plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(SERVERS).await?;
    let traffic = Traffic::first_messages();
    let mut rows = Vec::new();
    let (mut there, mut empty) = (0, 0.0);
    for conversations in CONVERSATIONS {
        env.start_services(&[SEQUENCER]).await?;
        sequenced(&env, &traffic, conversations - there).await?;
        there = conversations;
        let after_term = restart(&env, Signal::TERM).await?;
        let after_kill = restart(&env, Signal::KILL).await?;
        let resident = resident(&env)?;
        env.end(SEQUENCER, Signal::TERM).await?;

        let mut row = |what: &str, unit, value| {
            let what = format!("sequencer, {conversations} conversations in a partition: {what}");
            rows.push(Row::of_one(what, unit, value, None));
        };
        row("from SIGTERM until it is ready again", "s", after_term);
        row("from kill -9 until it is ready again", "s", after_kill);
        row("resident after that", "MiB", resident);
        if there == 0 {
            empty = resident;
        } else {
            let each = (resident - empty) * MIB / there as f64;
            row("of that for each", "bytes", each);
        }
    }
    Ok(rows)
}

/// How long it is away, seconds.
async fn restart(env: &TestEnv, signal: Signal) -> Result<f64> {
    let began = Instant::now();
    env.end(SEQUENCER, signal).await?;
    env.start_services(&[SEQUENCER]).await?;
    Ok(began.elapsed().as_secs_f64())
}

/// MiB.
fn resident(env: &TestEnv) -> Result<f64> {
    let pid = env.pid(SEQUENCER).context("the sequencer has ended")?;
    resident_of(pid, SharedPages::Resident)
}

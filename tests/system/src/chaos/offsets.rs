//! Faults of group offsets, which only show how far projections lag, and of resume offsets, which say where they resume.

use anyhow::Result;
use futures::future::try_join_all;
use rand::Rng as _;
use rustix::process::Signal;

use crate::{SHARED_OUT, TestEnv, until};

use super::{
    mariadb,
    services::{both, start_all},
    victim::Victim,
};

/// Arguments of Kafka's `ConsumerGroupCommand`.
pub(super) type Change = &'static [&'static str];

pub(super) const EARLIEST: Change = &[
    "--reset-offsets",
    "--to-earliest",
    "--all-topics",
    "--execute",
];
pub(super) const LATEST: Change = &[
    "--reset-offsets",
    "--to-latest",
    "--all-topics",
    "--execute",
];
pub(super) const DELETED: Change = &["--delete"];

pub(super) async fn reset(victim: &mut Victim<'_>, change: Change) -> Result<u64> {
    // A group's offsets can be changed only when it has no members.
    let names = both(&SHARED_OUT);
    let ending = names.iter().map(|name| victim.env.end(name, Signal::TERM));
    try_join_all(ending).await?;
    let changed = change_all(victim, change).await;
    start_all(victim, &names).await?;
    changed?;
    Ok(1)
}

async fn change_all(victim: &mut Victim<'_>, change: Change) -> Result<()> {
    victim.meanwhile().await?;
    let args = [change, GROUPS].concat();
    victim
        .env
        .kafka_tool("consumer.group.ConsumerGroupCommand", &args)
        .await?;
    Ok(())
}

const GROUPS: Change = &[
    "--group",
    "sequencer",
    "--group",
    "projector-unread",
    "--group",
    "projector-mysql-messages",
    "--group",
    "projector-mysql-reads",
    "--group",
    "projector-mysql-contacts",
];

/// An operator's mistake: the partition halts, and the others continue.
pub(super) async fn halt(victim: &mut Victim<'_>) -> Result<u64> {
    let partition = victim.rng.random_range(0..64);
    let database = partition / 16;
    let server = mariadb::SERVERS[database / 2];
    let change = |by: &str| {
        format!(
            "UPDATE im_{database}.resume_offset SET next_offset = next_offset {by} \
             WHERE sink = 'messages' AND partition_no = {partition}"
        )
    };
    victim.env.execute_sql(server, &change("+ 1000000")).await?;
    let halted = until_halted(victim.env, partition).await;
    let going_on = victim.meanwhile().await;
    victim.env.execute_sql(server, &change("- 1000000")).await?;
    halted.and(going_on)?;
    Ok(1)
}

/// Waits until either projector says that it has halted the partition.
async fn until_halted(env: &TestEnv, partition: usize) -> Result<()> {
    let halted = format!("partition {partition} is halted");
    until(&halted, async || {
        let mut found = String::new();
        for name in both(&["projector-mysql"]) {
            let readiness = env.get(&name, "/readyz").await;
            found += &readiness.map_or_else(|error| format!("{error:#}"), |body| body.to_string());
        }
        if found.contains(&halted) {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await
}

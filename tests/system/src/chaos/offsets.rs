//! Group offsets, which say how far projections lag and nothing else.

use anyhow::Result;
use futures::future::try_join_all;
use rustix::process::Signal;

use crate::SHARED_OUT;

use super::{
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

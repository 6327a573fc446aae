//! Snapshots of the sequencer that are missing or wrong.

use anyhow::Result;
use futures::future::try_join_all;
use rand::seq::IndexedRandom as _;
use schemas::{Partition, topics::Topic};

use super::{
    services::{both, start_all},
    victim::Victim,
};
use crate::poison;

pub(super) async fn delete(victim: &mut Victim<'_>) -> Result<u64> {
    let names = kill_sequencers(victim).await?;
    victim.env.events.delete_all(Topic::Snapshots).await?;
    start_all(victim, &names).await?;
    Ok(1)
}

/// Replaces the newest snapshot of each partition by half of it and by one of another version; in some partitions adds junk, too.
pub(super) async fn spoil(victim: &mut Victim<'_>) -> Result<u64> {
    let names = kill_sequencers(victim).await?;
    let events = &victim.env.events;
    let newest = events.newest_values(Topic::Snapshots).await?;
    events.delete_all(Topic::Snapshots).await?;
    for (partition, value) in newest {
        let half = value[..value.len() / 2].to_vec();
        for value in poison::snapshot_of_another_version(&value)
            .into_iter()
            .chain([half])
        {
            events
                .append_raw(Topic::Snapshots, partition, &value)
                .await?;
        }
    }
    let partitions: Vec<Partition> = Partition::all().collect();
    for partition in partitions.choose_multiple(victim.rng, 8) {
        for value in poison::JUNK {
            events
                .append_raw(Topic::Snapshots, *partition, value)
                .await?;
        }
    }
    start_all(victim, &names).await?;
    Ok(1)
}

async fn kill_sequencers(victim: &mut Victim<'_>) -> Result<Vec<String>> {
    let names = both(&["sequencer"]);
    try_join_all(names.iter().map(|name| victim.kill(name))).await?;
    Ok(names)
}

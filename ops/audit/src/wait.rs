//! Waits for the sequencer and the projections.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use event_log::{LogReader, Sequenced};
use message_store::{Shard, Sink};
use schemas::{OffsetRange, Partition, PartitionMap, topics::Topic};
use unread_store::Slot;

use crate::{AuditError, Progress, Sources, compare::UnresolvedReads};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The position of one projection in one partition.
struct StorePosition {
    projection: String,
    partition: Partition,
    /// The next offset of `chat.events`.
    next: i64,
}

/// The positions of all projections.
async fn positions(
    sources: &Sources,
    partitions: &[Partition],
) -> Result<Vec<StorePosition>, AuditError> {
    let mut positions = Vec::new();
    for shard in sources.messages.layout().shards() {
        for sink in Sink::ALL {
            positions.extend(in_database(sources, shard, sink, partitions).await?);
        }
        positions.extend(unresolved_reads(sources, shard, partitions).await?);
    }
    for slot in sources.unread.slots() {
        positions.extend(in_redis(slot, partitions).await?);
    }
    Ok(positions)
}

async fn in_redis(slot: &Slot, partitions: &[Partition]) -> Result<Vec<StorePosition>, AuditError> {
    let found = slot.connect().await?.read_positions().await?;
    // An emptied Redis gets positions soon. If only some are missing, perhaps nobody writes them again: counts are not compared then.
    let is_empty = found.iter().next().is_none();
    let position = |partition: &Partition| {
        let stored = found.get(*partition);
        (stored.is_some() || is_empty).then(|| StorePosition {
            projection: slot.to_string(),
            partition: *partition,
            next: stored.map_or(0, |stored| stored.position.next.get()),
        })
    };
    Ok(partitions.iter().filter_map(position).collect())
}

async fn in_database(
    sources: &Sources,
    shard: Shard,
    sink: Sink,
    partitions: &[Partition],
) -> Result<Vec<StorePosition>, AuditError> {
    let mut filled: Vec<Partition> = sources
        .messages
        .layout()
        .source_partitions(sink, shard)
        .collect();
    filled.retain(|partition| partitions.contains(partition));
    let topic = sources.kafka.topic(Topic::Events);
    let resume = sources
        .messages
        .read_resume_offsets(shard, sink, &topic, &filled)
        .await?;
    let projection = format!("{} in database {}", sink.name(), shard.get());
    Ok(resume
        .into_iter()
        .map(|(partition, at)| StorePosition {
            projection: projection.clone(),
            partition,
            next: at.next.get(),
        })
        .collect())
}

/// While a contact's read position waits for its ordinal, contacts count as below the row's `messages_offset`.
async fn unresolved_reads(
    sources: &Sources,
    shard: Shard,
    partitions: &[Partition],
) -> Result<Vec<StorePosition>, AuditError> {
    let mut oldest = PartitionMap::new();
    for read in UnresolvedReads::read(sources, shard).await?.waiting {
        let until = read.messages_offset.get();
        let held = oldest.get_or_insert_with(read.conversation().partition(), || until);
        *held = until.min(*held);
    }
    let mut positions = Vec::new();
    for (partition, until) in oldest {
        if partitions.contains(&partition) {
            let messages = sources.messages.layout().shard_of(partition);
            positions.push(StorePosition {
                projection: format!(
                    "a read position in contacts of database {}, whose ordinal is looked up among the messages in database {}",
                    shard.get(),
                    messages.get()
                ),
                partition,
                next: until - 1,
            });
        }
    }
    Ok(positions)
}

/// How many of a partition's newest events are read to find its watermark.
const NEWEST_EVENTS: i64 = 1_000;

/// Waits until every record of `chat.inbound` below these ends is accounted for (PROTOCOL S8).
///
/// # Errors
/// [`AuditError::Behind`] after `timeout`; an error of Kafka that lasts as long.
pub async fn until_sequenced(
    reader: &Arc<LogReader>,
    inbound: &PartitionMap<OffsetRange>,
    timeout: Duration,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), AuditError> {
    let partitions: Vec<Partition> = inbound.partitions().collect();
    until(timeout, progress, async || {
        let partitions = partitions.clone();
        let newest = reader.blocking(move |reader| {
            let bounds = reader.bounds(Topic::Events, &partitions)?;
            reader.newest_events(bounds, NEWEST_EVENTS)
        });
        Ok(unsequenced(inbound, &newest.await?))
    })
    .await
}

fn unsequenced(
    inbound: &PartitionMap<OffsetRange>,
    newest: &PartitionMap<Sequenced>,
) -> Option<String> {
    let left = |(partition, bounds): (Partition, &OffsetRange)| {
        let next = newest
            .get(partition)
            .map_or(0, |newest| newest.last.offset.offset + 1);
        let left = bounds.end - next.max(bounds.start);
        (left > 0).then_some((partition, left))
    };
    let left: Vec<(Partition, i64)> = inbound.iter().filter_map(left).collect();
    let (first, _) = left.first()?;
    let records: i64 = left.iter().map(|(_, left)| left).sum();
    Some(format!(
        "the sequencer has {records} records of {} partitions before it, partition {first} among them",
        left.len()
    ))
}

/// Waits until every projection has passed `ends`.
pub(crate) async fn until_passed(
    sources: &Sources,
    ends: &PartitionMap<i64>,
    timeout: Duration,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), AuditError> {
    let partitions: Vec<Partition> = ends.partitions().collect();
    until(timeout, progress, async || {
        Ok(lagging(&positions(sources, &partitions).await?, ends))
    })
    .await
}

/// Polls until nothing is left to wait for. `missing` names what is left.
async fn until(
    timeout: Duration,
    progress: &(impl Fn(Progress) + Sync),
    missing: impl AsyncFn() -> Result<Option<String>, AuditError>,
) -> Result<(), AuditError> {
    let started = Instant::now();
    let mut reported = String::new();
    loop {
        let what = match missing().await {
            Ok(None) => return Ok(()),
            Ok(Some(what)) => what,
            Err(error) if started.elapsed() >= timeout => return Err(error),
            Err(error) => error.to_string(),
        };
        if started.elapsed() >= timeout {
            let waited = started.elapsed();
            return Err(AuditError::Behind { waited, what });
        }
        if what != reported {
            progress(Progress::Waiting { what: what.clone() });
            reported = what;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn lagging(positions: &[StorePosition], ends: &PartitionMap<i64>) -> Option<String> {
    let end = |position: &StorePosition| ends.get(position.partition).copied().unwrap_or(0);
    let late = |position: &&StorePosition| position.next < end(position);
    let first = positions.iter().find(late)?;
    let StorePosition {
        projection,
        partition,
        next,
    } = first;
    let end = end(first);
    Some(format!(
        "{projection}: partition {partition} of chat.events is there up to offset {next} of {end}"
    ))
}

/// The lowest position of all projections in each partition.
pub(crate) async fn lowest(
    sources: &Sources,
    partitions: &[Partition],
) -> Result<PartitionMap<i64>, AuditError> {
    let mut lowest = PartitionMap::new();
    for StorePosition {
        partition, next, ..
    } in positions(sources, partitions).await?
    {
        let held = lowest.get_or_insert_with(partition, || next);
        *held = next.min(*held);
    }
    Ok(lowest)
}

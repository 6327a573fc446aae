//! Fills the databases of a scratch: projections of their own, as they were at an earlier time.

use std::{ops::Range, sync::Arc};

use message_store::{OffsetUpdate, ReadRow, Sink as StoreSink};
use mysql_sinks::{CoalescingSink, Destination, MessagesSink, UserRow};
use projection::{Replay, Sink};
use schemas::{LogPosition, NextOffset, Partition, PartitionMap, TableNumber};

use crate::{Context, Progress, RebuildError, build::fill_unresolved_reads};

/// The size of a batch: bytes of messages, rows of the other tables. Small, since live statements wait for a processor beside it.
const BATCH_BYTES: usize = 512 << 10;
const BATCH_ROWS: usize = 4_000;

/// Reads the log, up to the ends that the reader of `context` sees, into all tables of its store, which nothing else writes: the projections' own
/// sinks do that. Then sets the positions in Redis, where users are rebuilt when they are read. It may be stopped at any moment: the next call goes on.
///
/// # Errors
/// [`RebuildError`].
pub async fn fill(
    context: &Context,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), RebuildError> {
    let all: Vec<Partition> = Partition::all().collect();
    let ends = context.ends_of_complete_log(&all).await?;
    let records: i64 = ends.iter().map(|(_, end)| *end).sum();
    progress(Progress::Begun {
        wanted: 3,
        left_over: None,
        steps: 3 * records.cast_unsigned(),
    });
    let Context { store, topic, .. } = context;
    let destinations = |sink| Destination::all(store, sink, topic);
    read_messages(context, &all, &ends, progress).await?;
    for destination in destinations(StoreSink::Reads) {
        let partitions = stored_in(&destination, &all);
        let sink = CoalescingSink::<ReadRow>::new([destination]);
        read_into(sink, context, partitions, &ends, BATCH_ROWS, progress).await?;
    }
    let contacts = CoalescingSink::<UserRow>::new(destinations(StoreSink::Contacts));
    let positions = read_into(contacts, context, all, &ends, BATCH_ROWS, progress).await?;
    for shard in store.layout().shards() {
        fill_unresolved_reads(store, shard, topic).await?;
    }
    for slot in &context.unread.connect().await? {
        slot.initialise_positions(&positions).await?;
    }
    Ok(())
}

/// Reads ranges of partitions into the tables of messages: rows alone, since what came before a range is not known. It may be stopped at any moment:
/// the next call with the same ranges goes on.
///
/// # Errors
/// [`RebuildError`].
pub async fn fill_slice(
    context: &Context,
    ranges: &PartitionMap<Range<i64>>,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), RebuildError> {
    let records: i64 = ranges
        .iter()
        .map(|(_, range)| range.end - range.start)
        .sum();
    progress(Progress::Begun {
        wanted: 1,
        left_over: None,
        steps: records.cast_unsigned(),
    });
    let mut partitions = Vec::new();
    let mut ends = PartitionMap::new();
    for (partition, range) in ranges.iter() {
        begin_at(context, partition, range.start).await?;
        partitions.push(partition);
        ends.insert(partition, range.end);
    }
    read_messages(context, &partitions, &ends, progress).await?;
    Ok(())
}

/// Lets the tables of messages begin at this offset, if they have nothing of the partition yet.
async fn begin_at(context: &Context, partition: Partition, start: i64) -> Result<(), RebuildError> {
    let Context { store, topic, .. } = context;
    let shard = store.layout().shard_of(partition);
    let found = store
        .read_resume_offsets(shard, StoreSink::Messages, topic, &[partition])
        .await?;
    let from = found[partition];
    if from.next.get() >= start {
        return Ok(());
    }
    let before = context
        .reader
        .blocking(move |reader| reader.watermark_before(partition, start));
    let to = LogPosition {
        next: NextOffset::new(start),
        watermark: before.await?.highest().unwrap_or(from.watermark),
    };
    let update = OffsetUpdate {
        partition,
        from,
        to,
    };
    store
        .update_resume_offsets(shard, StoreSink::Messages, topic, &[update])
        .await?;
    Ok(())
}

/// Reads partitions into the tables of messages of all databases.
async fn read_messages(
    context: &Context,
    partitions: &[Partition],
    ends: &PartitionMap<i64>,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), RebuildError> {
    let Context { store, topic, .. } = context;
    for destination in Destination::all(store, StoreSink::Messages, topic) {
        let partitions = stored_in(&destination, partitions);
        let sink = MessagesSink::new(destination);
        read_into(sink, context, partitions, ends, BATCH_BYTES, progress).await?;
    }
    Ok(())
}

/// Those of the partitions whose messages and read positions a database has. It also has the contacts of its users, who are in all partitions.
fn stored_in(destination: &Destination, partitions: &[Partition]) -> Vec<Partition> {
    let layout = destination.store.layout();
    let is_stored =
        |partition: &Partition| layout.shard_of(TableNumber::from(*partition)) == destination.shard;
    partitions.iter().copied().filter(is_stored).collect()
}

/// Returns the positions that the sink's tables have reached.
async fn read_into(
    sink: impl Sink,
    context: &Context,
    partitions: Vec<Partition>,
    ends: &PartitionMap<i64>,
    max_pending: usize,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<PartitionMap<LogPosition>, RebuildError> {
    // A reader reads one range at a time.
    let reader = Arc::clone(&context.with_own_reader()?.reader);
    let mut replay = Replay::begin(sink, reader, &partitions, max_pending).await?;
    let report = |records| progress(Progress::Advanced(records));
    replay.up_to(ends, report).await?;
    Ok(replay.positions().clone())
}

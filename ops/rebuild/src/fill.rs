//! Fills the databases of a scratch: projections of their own, as they were at an earlier time.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream, try_join};
use message_store::{ReadRow, Sink as StoreSink};
use mysql_sinks::{CoalescingSink, Destination, MessagesSink, UserRow};
use projection::{Replay, Sink};
use schemas::{LogPosition, Partition, PartitionMap, TableNumber};

use crate::{
    Context, Progress, RebuildError,
    build::fill_unresolved_reads,
    tables::{BATCH_BYTES, BATCH_ROWS, CONCURRENT_DATABASES},
};

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
    let layout = store.layout();
    // A database has the messages and read positions of its partitions, and the contacts of its users, who are in all partitions.
    let stored_in = |destination: &Destination| -> Vec<Partition> {
        let is_stored = |partition: &Partition| {
            layout.shard_of(TableNumber::from(*partition)) == destination.shard
        };
        all.iter().copied().filter(is_stored).collect()
    };
    let messages = stream::iter(destinations(StoreSink::Messages))
        .map(|destination| {
            let partitions = stored_in(&destination);
            let sink = MessagesSink::new(destination);
            read_into(sink, context, partitions, &ends, BATCH_BYTES, progress)
        })
        .buffer_unordered(CONCURRENT_DATABASES)
        .try_collect::<Vec<_>>();
    let reads = stream::iter(destinations(StoreSink::Reads))
        .map(|destination| {
            let partitions = stored_in(&destination);
            let sink = CoalescingSink::<ReadRow>::new([destination]);
            read_into(sink, context, partitions, &ends, BATCH_ROWS, progress)
        })
        .buffer_unordered(CONCURRENT_DATABASES)
        .try_collect::<Vec<_>>();
    let contacts = CoalescingSink::<UserRow>::new(destinations(StoreSink::Contacts));
    let contacts = read_into(contacts, context, all.clone(), &ends, BATCH_ROWS, progress);
    let (_, _, positions) = try_join!(messages, reads, contacts)?;
    for shard in layout.shards() {
        fill_unresolved_reads(store, shard, topic).await?;
    }
    for slot in &context.unread.connect().await? {
        slot.initialise_positions(&positions).await?;
    }
    Ok(())
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

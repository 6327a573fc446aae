use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use message_store::{ReadRow, Shadows, Shard, Sink};
use mysql_sinks::{CoalescingSink, Destination, MessagesSink, UserRow};
use schemas::{Partition, TableNumber};
use tokio::sync::{Mutex, RwLock};

use crate::{
    Context, Progress, RebuildError, Rebuilt,
    build::{Build, Outcome, SharedState},
    plan::Plan,
    unread::{all_or, drop_profiles},
};

/// How many databases are rebuilt concurrently.
const CONCURRENT_DATABASES: usize = 4;

/// The size of a batch: bytes of messages, rows of the other tables.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_ROWS: usize = 20_000;

/// Rebuilds the tables of `sink`, or only the table `only`: builds shadow tables from the log, compares them with a fold of the log, and
/// swaps them in, one swap after the other.
///
/// It may be stopped at any moment: the next run continues from there.
///
/// # Errors
/// [`RebuildError`].
pub async fn tables(
    context: &Context,
    sink: Sink,
    only: Option<TableNumber>,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<Rebuilt, RebuildError> {
    // Checked first: nothing can be rebuilt from an incomplete log.
    context
        .ends_of_complete_log(&source_partitions(sink, only))
        .await?;
    let plan = Plan::make(context, sink, only).await?;
    progress(Progress::Begun {
        wanted: plan.tables(),
        left_over: plan.left_over,
        steps: records_to_read(context, &plan).await?,
    });
    let shared = SharedState {
        locks: Mutex::new(plan.locks),
        snapshots: RwLock::default(),
    };
    let mut databases: BTreeMap<Shard, Vec<Shadows>> = BTreeMap::new();
    for shadows in plan.steps {
        databases.entry(shadows.shard).or_default().push(shadows);
    }
    let rebuilt = stream::iter(databases.into_values())
        .map(|steps| rebuild_database(context, steps, &shared, progress))
        .buffer_unordered(CONCURRENT_DATABASES)
        .try_fold(Rebuilt::default(), async |sum, one| Ok(sum.and(&one)))
        .await?;
    if only.is_none() {
        let Context { store, topic, .. } = context;
        store.end_full_rebuild(sink, topic).await?;
    }
    if sink == Sink::Contacts {
        drop_cached_profiles(context, only).await;
    }
    Ok(rebuilt)
}

/// Drops the cached profiles: they came from the replaced tables, and may contain events that the log has lost since.
async fn drop_cached_profiles(context: &Context, only: Option<TableNumber>) {
    let dropped = async {
        let redis = context.unread.connect().await?;
        drop_profiles(&redis, &all_or(only)).await
    };
    if let Err(error) = dropped.await {
        tracing::warn!(%error, "the profiles in Redis were not dropped: `tidemark rebuild unread` does that");
    }
}

/// The partitions of the log that the tables are built from.
fn source_partitions(sink: Sink, only: Option<TableNumber>) -> Vec<Partition> {
    let is_source = |partition: &Partition| {
        sink == Sink::Contacts || only.is_none_or(|only| only == (*partition).into())
    };
    Partition::all().filter(is_source).collect()
}

async fn rebuild_database(
    context: &Context,
    steps: Vec<Shadows>,
    shared: &SharedState,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<Rebuilt, RebuildError> {
    // A reader reads one range at a time, so each build needs its own.
    let context = context.with_own_reader()?;
    let mut rebuilt = Rebuilt::default();
    for shadows in steps {
        let Outcome { compared, held } = swap(&context, &shadows, shared, progress).await?;
        rebuilt.add(shadows.tables.len(), compared, held);
    }
    Ok(rebuilt)
}

async fn swap(
    context: &Context,
    shadows: &Shadows,
    shared: &SharedState,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<Outcome, RebuildError> {
    let destination = Destination {
        store: context.store.shadow(shadows.sink),
        shard: shadows.shard,
        sink: shadows.sink,
        topic: context.topic.clone(),
        tables: Some(shadows.tables.iter().copied().collect()),
    };
    match shadows.sink {
        Sink::Messages => {
            let (sink, most) = (MessagesSink::new(destination), BATCH_BYTES);
            let build = Build::begin(context, shadows, sink, most, progress).await?;
            build.run(shared).await
        }
        Sink::Reads => {
            let (sink, most) = (CoalescingSink::<ReadRow>::new([destination]), BATCH_ROWS);
            let build = Build::begin(context, shadows, sink, most, progress).await?;
            build.run(shared).await
        }
        Sink::Contacts => {
            let (sink, most) = (CoalescingSink::<UserRow>::new([destination]), BATCH_ROWS);
            let build = Build::begin(context, shadows, sink, most, progress).await?;
            build.run(shared).await
        }
    }
}

/// The number of records between the positions of the shadow tables and the end of the log.
async fn records_to_read(context: &Context, plan: &Plan) -> Result<u64, RebuildError> {
    let ends = context.ends_of_complete_log(&plan.partitions()).await?;
    let mut records = 0;
    for shadows in &plan.steps {
        let store = context.store.shadow(shadows.sink);
        let at = store
            .read_resume_offsets(
                shadows.shard,
                shadows.sink,
                &context.topic,
                &shadows.partitions,
            )
            .await?;
        let left = at
            .iter()
            .map(|(partition, at)| ends[partition] - at.next.get());
        records += left.filter(|left| *left > 0).sum::<i64>();
    }
    Ok(records.cast_unsigned())
}

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use message_store::{Shadows, Shard, Sink};
use projector_mysql::{Destination, contacts_into, messages_into, reads_into};
use schemas::{Partition, TableNumber};
use tokio::sync::{Mutex, RwLock};

use crate::{
    Context, Progress, RebuildError, Rebuilt,
    build::{Build, Company, Outcome},
    plan::Plan,
};

/// How many databases are worked on at a time.
const DATABASES_AT_ONCE: usize = 4;

/// How much is written at a time: bytes of messages, rows of anything else.
const MESSAGES_AT_ONCE: usize = 4 << 20;
const ROWS_AT_ONCE: usize = 20_000;

/// Builds the tables that `sink` writes anew from the log, beside the live ones, compares them with a fold of the log, and lets them
/// take the live ones' place, one switch after the other. `only` is the number of the one table that is wanted.
///
/// It may be ended at any moment: the next run goes on from there.
///
/// # Errors
/// [`RebuildError`].
pub async fn tables(
    context: &Context,
    sink: Sink,
    only: Option<TableNumber>,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<Rebuilt, RebuildError> {
    // Before anything is touched: without a whole log there is nothing to be done.
    context.whole_log(&source_partitions(sink, only)).await?;
    let plan = Plan::make(context, sink, only).await?;
    progress(Progress::Begun {
        wanted: plan.tables(),
        left_over: plan.left_over,
        steps: to_read(context, &plan).await?,
    });
    let company = Company {
        locks: Mutex::new(plan.locks),
        snapshots: RwLock::default(),
    };
    let mut databases: BTreeMap<Shard, Vec<Shadows>> = BTreeMap::new();
    for shadows in plan.steps {
        databases.entry(shadows.shard).or_default().push(shadows);
    }
    let rebuilt = stream::iter(databases.into_values())
        .map(|steps| of_database(context, steps, &company, progress))
        .buffer_unordered(DATABASES_AT_ONCE)
        .try_fold(Rebuilt::default(), async |sum, one| Ok(sum.and(&one)))
        .await?;
    if only.is_none() {
        let Context { store, topic, .. } = context;
        store.end_rebuild_of_all(sink, topic).await?;
    }
    Ok(rebuilt)
}

/// The partitions of the log that say what is in the wanted tables.
fn source_partitions(sink: Sink, only: Option<TableNumber>) -> Vec<Partition> {
    let is_source = |partition: &Partition| {
        sink == Sink::Contacts || only.is_none_or(|only| only == (*partition).into())
    };
    Partition::all().filter(is_source).collect()
}

async fn of_database(
    context: &Context,
    steps: Vec<Shadows>,
    company: &Company,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<Rebuilt, RebuildError> {
    // A reader reads one range at a time.
    let context = context.with_reader_of_its_own()?;
    let mut rebuilt = Rebuilt::default();
    for shadows in steps {
        let Outcome { compared, held } = switch(&context, &shadows, company, progress).await?;
        rebuilt.add(shadows.tables.len(), compared, held);
    }
    Ok(rebuilt)
}

async fn switch(
    context: &Context,
    shadows: &Shadows,
    company: &Company,
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
            let (sink, most) = (messages_into(destination), MESSAGES_AT_ONCE);
            let build = Build::begin(context, shadows, sink, most, progress).await?;
            build.run(company).await
        }
        Sink::Reads => {
            let (sink, most) = (reads_into(destination), ROWS_AT_ONCE);
            let build = Build::begin(context, shadows, sink, most, progress).await?;
            build.run(company).await
        }
        Sink::Contacts => {
            let (sink, most) = (contacts_into(destination), ROWS_AT_ONCE);
            let build = Build::begin(context, shadows, sink, most, progress).await?;
            build.run(company).await
        }
    }
}

/// How many records lie between where the shadows are and the end of the log.
async fn to_read(context: &Context, plan: &Plan) -> Result<u64, RebuildError> {
    let ends = context.whole_log(&plan.partitions()).await?;
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
            .map(|(partition, at)| ends[&partition] - at.next.get());
        records += left.filter(|left| *left > 0).sum::<i64>();
    }
    Ok(records.cast_unsigned())
}

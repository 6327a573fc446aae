//! Compares a scratch with the log, with the live projections, or with another scratch.

use std::{process::ExitCode, time::Duration};

use message_store::{HowRowsDiffer, MessageStore, ScratchNote, Shard, Sink, TableDifference};
use schemas::{Partition, topics::Topic};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    args::DiffArgs,
    commands::{audit, scratch},
    context::CommandContext,
    failure::{self, Failure},
    output::grouped,
};

/// How many rows of a table are named.
const NAMED_ROWS: u32 = 10;

/// How long the live projections may need to have what a scratch has: read positions are written every 30 s.
const LIVE_TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn run(
    context: &CommandContext,
    args: &DiffArgs,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let note = comparable(context, &args.name).await?;
    let scratch = scratch::context_of(context, &args.name, note.as_of)?;
    let Some(other) = &args.other else {
        return audit::of_scratch(&scratch, as_json).await;
    };
    let store = scratch.messages()?;
    let other = if other == scratch::LIVE {
        let live = context.messages()?;
        await_live(context, &live, &store).await?;
        live
    } else {
        let note = comparable(context, other).await?;
        scratch::context_of(context, other, note.as_of)?.messages()?
    };
    let mut found = Vec::new();
    for shard in store.layout().shards() {
        found.extend(other.differences(&store, shard, NAMED_ROWS).await?);
    }
    report(&found, as_json);
    Ok(failure::code_of_answer(found.is_empty()))
}

async fn comparable(context: &CommandContext, name: &str) -> anyhow::Result<ScratchNote> {
    let note = scratch::note(context, name).await?;
    if !note.is_complete {
        let why = format!("{name} is not complete: its `tidemark replay`, given again, goes on");
        return Err(Failure::Usage(why).into());
    }
    if note.slice.is_some() {
        let why = format!("{name} is a slice: it has rows alone, and no state to compare");
        return Err(Failure::Usage(why).into());
    }
    Ok(note)
}

/// Waits until the live projections have all records that a scratch has.
async fn await_live(
    context: &CommandContext,
    live: &MessageStore,
    scratch: &MessageStore,
) -> anyhow::Result<()> {
    let topic = context.kafka()?.topic(Topic::Events);
    let deadline = Instant::now() + LIVE_TIMEOUT;
    for shard in live.layout().shards() {
        for sink in Sink::ALL {
            while let Some(behind) = behind(live, scratch, (shard, sink, &topic)).await? {
                if Instant::now() > deadline {
                    let why = format!(
                        "the live {} in database {} have not reached the end of the scratch in partition {behind}",
                        sink.name(),
                        shard.get()
                    );
                    return Err(Failure::Timeout(why).into());
                }
                sleep(POLL_INTERVAL).await;
            }
        }
    }
    Ok(())
}

/// A partition in which the live database is behind the scratch, if there is one.
async fn behind(
    live: &MessageStore,
    scratch: &MessageStore,
    (shard, sink, topic): (Shard, Sink, &str),
) -> anyhow::Result<Option<Partition>> {
    let partitions: Vec<Partition> = live.layout().source_partitions(sink, shard).collect();
    let read = async |store: &MessageStore| {
        store
            .read_resume_offsets(shard, sink, topic, &partitions)
            .await
    };
    let (live, scratch) = (read(live).await?, read(scratch).await?);
    let is_behind = |partition: &Partition| live[*partition].next < scratch[*partition].next;
    Ok(partitions.into_iter().find(is_behind))
}

fn report(found: &[TableDifference], as_json: bool) {
    if as_json {
        let tables: Vec<Value> = found.iter().map(as_value).collect();
        println!("{}", json!({ "tables": tables }));
        return;
    }
    for TableDifference {
        table,
        count,
        first,
    } in found
    {
        println!("{table}: {} rows differ", grouped(*count));
        for row in first {
            println!("  {}: {}", row.key, how(&row.how));
        }
    }
    if found.is_empty() {
        println!("no row differs");
    }
}

fn as_value(found: &TableDifference) -> Value {
    let rows = found.first.iter();
    let rows: Vec<Value> = rows
        .map(|row| json!({"key": row.key, "difference": how(&row.how)}))
        .collect();
    json!({"table": found.table, "count": found.count, "first": rows})
}

/// How a row of the scratch differs from that of the other side.
fn how(how: &HowRowsDiffer) -> &str {
    match how {
        HowRowsDiffer::OnlyHere => "not in the scratch",
        HowRowsDiffer::OnlyThere => "only in the scratch",
        HowRowsDiffer::Fields(fields) => fields,
    }
}

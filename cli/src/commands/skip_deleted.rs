//! Skips records of chat.events that were deleted before a database had them.

use std::sync::Arc;

use event_log::LogReader;
use message_store::{MessageStore, OffsetUpdate, Shard, Sink};
use schemas::{LogPosition, NextOffset, Partition, topics::Topic};
use serde_json::json;

use crate::{
    context::CommandContext,
    output::{Table, grouped},
};

/// The resume offsets of one sink in one database that are below the log's start.
struct Behind {
    shard: Shard,
    sink: Sink,
    updates: Vec<OffsetUpdate>,
}

pub(super) async fn run(context: &CommandContext, yes: bool, as_json: bool) -> anyhow::Result<()> {
    let kafka = context.kafka()?;
    let topic = kafka.topic(Topic::Events);
    let partitions: Vec<Partition> = Partition::all().collect();
    let starts: Vec<(Partition, i64)> = Arc::new(LogReader::new(&kafka)?)
        .blocking(move |reader| reader.bounds(Topic::Events, &partitions))
        .await?
        .into_iter()
        .map(|(partition, bounds)| (partition, bounds.start))
        .collect();
    let store = context.messages()?;
    let behind = all_behind(&store, &topic, &starts).await?;
    if yes {
        for Behind {
            shard,
            sink,
            updates,
        } in &behind
        {
            store
                .update_resume_offsets(*shard, *sink, &topic, updates)
                .await?;
        }
    }
    report(&behind, yes, as_json);
    Ok(())
}

async fn all_behind(
    store: &MessageStore,
    topic: &str,
    starts: &[(Partition, i64)],
) -> anyhow::Result<Vec<Behind>> {
    let mut all = Vec::new();
    for shard in store.layout().shards() {
        for sink in Sink::ALL {
            let partitions: Vec<Partition> =
                store.layout().source_partitions(sink, shard).collect();
            let found = store
                .read_resume_offsets(shard, sink, topic, &partitions)
                .await?;
            let updates: Vec<OffsetUpdate> = starts
                .iter()
                .filter_map(|(partition, start)| {
                    update(*partition, *found.get(*partition)?, *start)
                })
                .collect();
            if !updates.is_empty() {
                all.push(Behind {
                    shard,
                    sink,
                    updates,
                });
            }
        }
    }
    Ok(all)
}

fn update(partition: Partition, from: LogPosition, start: i64) -> Option<OffsetUpdate> {
    let to = LogPosition {
        next: NextOffset::new(start),
        ..from
    };
    (from.next.get() < start).then_some(OffsetUpdate {
        partition,
        from,
        to,
    })
}

fn report(behind: &[Behind], done: bool, as_json: bool) {
    if as_json {
        for Behind {
            shard,
            sink,
            updates,
        } in behind
        {
            for update in updates {
                let line = json!({
                    "database": shard.get(),
                    "sink": sink,
                    "partition": update.partition,
                    "from": update.from.next.get(),
                    "to": update.to.next.get(),
                    "skipped": done,
                });
                println!("{line}");
            }
        }
        return;
    }
    if behind.is_empty() {
        println!("no resume offset is below the log's start: there is nothing to skip");
        return;
    }
    let mut table =
        Table::new(["database", "rows", "partition", "records deleted unread"]).right(&[0, 2, 3]);
    for Behind {
        shard,
        sink,
        updates,
    } in behind
    {
        for OffsetUpdate {
            partition,
            from,
            to,
        } in updates
        {
            table.row([
                shard.get().to_string(),
                sink.name().to_owned(),
                partition.to_string(),
                grouped(to.next.get().abs_diff(from.next.get())),
            ]);
        }
    }
    print!("{table}");
    println!(
        "{}",
        if done {
            "skipped: projector-mysql goes on by itself"
        } else {
            "nothing was changed; --yes skips them permanently"
        }
    );
}

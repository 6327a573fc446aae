//! Records of chat.events that are gone before a database has what is in them.

use event_log::LogReader;
use message_store::{MessageStore, Resume, ResumeMove, Shard, Sink};
use schemas::{Partition, topics::Topic};
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::{
    handles::Handles,
    output::{Table, grouped},
};

/// The offsets of one sink in one database that lie before the log.
struct Behind {
    shard: Shard,
    sink: Sink,
    moves: Vec<ResumeMove>,
}

pub(super) async fn run(handles: &Handles, yes: bool, as_json: bool) -> anyhow::Result<()> {
    let kafka = handles.kafka()?;
    let topic = kafka.topic(Topic::Events);
    let starts = spawn_blocking(move || {
        let partitions: Vec<Partition> = Partition::all().collect();
        LogReader::new(&kafka)?.bounds(Topic::Events, &partitions)
    });
    let starts: Vec<(Partition, i64)> = starts
        .await??
        .into_iter()
        .map(|(partition, bounds)| (partition, bounds.start))
        .collect();
    let store = handles.messages()?;
    let behind = all_behind(&store, &topic, &starts).await?;
    if yes {
        for Behind { shard, sink, moves } in &behind {
            store.move_resume(*shard, *sink, &topic, moves).await?;
        }
    }
    tell(&behind, yes, as_json);
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
            let fed: Vec<Partition> = store.layout().feeds(sink, shard).collect();
            let found = store.read_resume(shard, sink, topic, &fed).await?;
            let moves: Vec<ResumeMove> = starts
                .iter()
                .filter_map(|(partition, start)| step(*partition, *found.get(partition)?, *start))
                .collect();
            if !moves.is_empty() {
                all.push(Behind { shard, sink, moves });
            }
        }
    }
    Ok(all)
}

fn step(partition: Partition, from: Resume, start: i64) -> Option<ResumeMove> {
    let to = Resume {
        next_offset: start,
        ..from
    };
    (from.next_offset < start).then_some(ResumeMove {
        partition,
        from,
        to,
    })
}

fn tell(behind: &[Behind], done: bool, as_json: bool) {
    if as_json {
        for Behind { shard, sink, moves } in behind {
            for step in moves {
                let line = json!({
                    "database": shard.get(),
                    "sink": sink,
                    "partition": step.partition,
                    "from": step.from.next_offset,
                    "to": step.to.next_offset,
                    "skipped": done,
                });
                println!("{line}");
            }
        }
        return;
    }
    if behind.is_empty() {
        println!("every database stands within the log: there is nothing to skip");
        return;
    }
    let mut table =
        Table::new(["database", "rows", "partition", "records deleted unread"]).right(&[0, 2, 3]);
    for Behind { shard, sink, moves } in behind {
        for ResumeMove {
            partition,
            from,
            to,
        } in moves
        {
            table.row([
                shard.get().to_string(),
                sink.name().to_owned(),
                partition.to_string(),
                grouped(to.next_offset.abs_diff(from.next_offset)),
            ]);
        }
    }
    print!("{table}");
    println!(
        "{}",
        if done {
            "skipped: projector-mysql can be started again"
        } else {
            "nothing was changed; --yes skips them for good"
        }
    );
}

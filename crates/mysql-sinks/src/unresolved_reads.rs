//! Looks up the ordinals of read positions that came without one (PROTOCOL R5).

use std::{collections::BTreeSet, time::Duration};

use message_store::{MessageStore, Shard, Sink, StoreError, UnresolvedRead};
use schemas::{Ordinal, Partition, PartitionMap};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often unresolved reads are searched for.
const INTERVAL: Duration = Duration::from_millis(500);

/// How many unresolved reads are in memory at a time.
const PAGE: usize = 1_000;

/// Fills in the ordinals of one database, as far as they can be looked up, until `soft` is cancelled. Each database of messages has its own task, so
/// that none waits for one that does not answer.
pub async fn run(
    store: MessageStore,
    shard: Shard,
    topic: String,
    soft: CancellationToken,
) -> anyhow::Result<()> {
    let (mut running, mut tasks) = (BTreeSet::new(), JoinSet::new());
    loop {
        let oldest = store.oldest_unresolved_reads(shard).await;
        let oldest = oldest.unwrap_or_else(|error| {
            tracing::debug!(database = shard.get(), %error, "no unresolved reads are looked for");
            PartitionMap::new()
        });
        for partition in oldest.partitions() {
            let messages = store.layout().shard_of(partition);
            if running.insert(messages) {
                tasks.spawn(fill(store.clone(), shard, messages, topic.clone()));
            }
        }
        tokio::select! {
            () = soft.cancelled() => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => {}
        }
        while let Some(filled) = tasks.try_join_next() {
            running.remove(&filled?);
        }
    }
}

async fn fill(store: MessageStore, shard: Shard, messages: Shard, topic: String) -> Shard {
    let outcome = fill_unresolved_reads(&store, shard, messages, &topic).await;
    let why = outcome.unwrap_or_else(|error| Some(error.to_string()));
    if let Some(why) = why {
        tracing::debug!(
            database = shard.get(),
            why,
            "read positions stay unresolved"
        );
    }
    messages
}

/// Looks up the ordinals that unresolved reads of the database `shard` lack in the database `messages`, and fills them in. If some reads stay unresolved,
/// returns why: their messages are not stored yet, or `messages` does not answer. Rows that no contact needs are deleted.
///
/// # Errors
/// As reads and writes of `shard`.
pub async fn fill_unresolved_reads(
    store: &MessageStore,
    shard: Shard,
    messages: Shard,
    topic: &str,
) -> Result<Option<String>, StoreError> {
    let (mut after, mut waiting) = (None, None);
    // Strays are deleted first, since a row that no projection has written may not be readable.
    store.delete_stray_reads(shard).await?;
    loop {
        let page = store
            .unresolved_reads(shard, Some(messages), after, PAGE)
            .await?;
        if page.is_empty() {
            break;
        }
        after = page.last().copied();
        let (found, waits) = match look_up(store, messages, topic, &page).await {
            Ok(looked_up) => looked_up,
            Err(error) => {
                waiting = Some(error.to_string());
                break;
            }
        };
        if !found.is_empty() {
            store.fill_unresolved_reads(shard, &found).await?;
        }
        waiting = waits.or(waiting);
    }
    Ok(waiting)
}

/// The ordinals in conversations of one database, and why some cannot be determined yet.
async fn look_up(
    store: &MessageStore,
    messages: Shard,
    topic: &str,
    reads: &[UnresolvedRead],
) -> Result<(Vec<(UnresolvedRead, Option<Ordinal>)>, Option<String>), StoreError> {
    let (mut found, mut waits) = (Vec::new(), None);
    let mut snapshot = store.snapshot(messages).await?;
    let partitions: Vec<Partition> = Partition::all().collect();
    let stored = snapshot.resume_offsets(Sink::Messages, topic, &partitions);
    let stored = stored.await?;
    for read in reads {
        let conversation = read.conversation();
        let partition = conversation.partition();
        if store.layout().shard_of(partition) != messages {
            waits = Some(format!(
                "the row of a read position of {} with {} does not name partition {partition}",
                read.uid, read.peer
            ));
            continue;
        }
        if stored[partition].next < read.messages_offset {
            waits = Some(format!(
                "a read position waits until the messages of partition {partition} are stored"
            ));
            continue;
        }
        let n = snapshot
            .ordinal_at(conversation, read.peer, read.mid)
            .await?;
        found.push((*read, n));
    }
    Ok((found, waits))
}

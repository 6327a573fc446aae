//! Looks up the ordinals of read positions that came without one (PROTOCOL R5).

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use message_store::{MessageStore, Shard, Sink, StoreError, UnresolvedRead};
use schemas::{Ordinal, Partition};
use tokio_util::sync::CancellationToken;

/// How often it is looked for unresolved reads.
const INTERVAL: Duration = Duration::from_millis(200);

/// How many unresolved reads are in memory at a time.
const PAGE: usize = 1_000;

/// Fills in what can be looked up, in every database, until `soft` is cancelled.
pub(crate) async fn run(
    store: MessageStore,
    topic: String,
    soft: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let fill = store.layout().shards().map(async |shard| {
            let outcome = fill_unresolved_reads(&store, shard, &topic).await;
            let why = outcome.unwrap_or_else(|error| Some(error.to_string()));
            if let Some(why) = why {
                tracing::debug!(
                    database = shard.get(),
                    why,
                    "read positions stay unresolved"
                );
            }
        });
        tokio::select! {
            () = soft.cancelled() => return Ok(()),
            _ = join_all(fill) => {}
        }
        tokio::select! {
            () = soft.cancelled() => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Looks up the ordinals that unresolved reads of one database lack, and fills them in. Why some stay unresolved, where some do: their messages are
/// not stored yet, or are in a database that does not answer.
///
/// # Errors
/// As reads and writes of this database.
pub async fn fill_unresolved_reads(
    store: &MessageStore,
    shard: Shard,
    topic: &str,
) -> Result<Option<String>, StoreError> {
    let (mut after, mut waiting) = (None, None);
    loop {
        let page = store.unresolved_reads(shard, after, PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().copied();
        let mut by_messages: BTreeMap<Shard, Vec<UnresolvedRead>> = BTreeMap::new();
        for read in page {
            let messages = store.layout().shard_of(read.conversation().partition());
            by_messages.entry(messages).or_default().push(read);
        }
        let filled = by_messages.iter().map(async |(messages, reads)| {
            let (found, waits) = match look_up(store, *messages, topic, reads).await {
                Ok(looked_up) => looked_up,
                Err(error) => return Ok(Some(error.to_string())),
            };
            if !found.is_empty() {
                store.fill_unresolved_reads(shard, &found).await?;
            }
            Ok::<_, StoreError>(waits)
        });
        for outcome in join_all(filled).await {
            waiting = outcome?.or(waiting);
        }
        if is_last {
            return Ok(waiting);
        }
    }
}

/// The ordinals of conversations of one database, and why some cannot be told yet.
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

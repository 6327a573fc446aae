//! Read positions that came without their ordinal (PROTOCOL R5).

use std::collections::{BTreeMap, BTreeSet};

use message_store::{MessageStore, Shard, Sink, StoreError};
use schemas::{Ordinal, Partition, event::ReadPosition};

/// A read position whose ordinal is yet to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenRead {
    pub(crate) position: ReadPosition,
    /// The event's offset in its partition: what the messages projection must have passed.
    pub(crate) offset: i64,
}

impl OpenRead {
    pub(crate) fn partition(&self) -> Partition {
        self.position.conversation().partition()
    }
}

/// What became of some open positions.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// By offset and partition: the position with its ordinal, or without one where its messages are gone.
    pub(crate) settled: BTreeMap<(Partition, i64), ReadPosition>,
    /// Why others are still open.
    pub(crate) waiting: Option<String>,
}

/// Looks up what can be looked up now. A database that does not answer leaves its own open.
pub(crate) async fn settle(
    store: &MessageStore,
    topic: &str,
    open: impl Iterator<Item = OpenRead>,
) -> Answers {
    let mut by_shard: BTreeMap<Shard, Vec<OpenRead>> = BTreeMap::new();
    for read in open {
        let shard = store.layout().shard_of(read.partition());
        by_shard.entry(shard).or_default().push(read);
    }
    let mut answers = Answers::default();
    for (shard, reads) in by_shard {
        if let Err(error) = settle_in(store, topic, shard, &reads, &mut answers).await {
            answers.waiting = Some(error.to_string());
        }
    }
    answers
}

async fn settle_in(
    store: &MessageStore,
    topic: &str,
    shard: Shard,
    reads: &[OpenRead],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let mut snapshot = store.snapshot(shard).await?;
    let partitions: BTreeSet<Partition> = reads.iter().map(OpenRead::partition).collect();
    let partitions: Vec<Partition> = partitions.into_iter().collect();
    let passed = snapshot.resume(Sink::Messages, topic, &partitions).await?;
    for read in reads {
        let partition = read.partition();
        if passed
            .get(&partition)
            .is_none_or(|at| at.next_offset <= read.offset)
        {
            answers.waiting = Some(format!(
                "a read position waits until the messages of partition {partition} are written"
            ));
            continue;
        }
        let ReadPosition { peer, mid, .. } = read.position;
        let conversation = read.position.conversation();
        let n: Option<Ordinal> = snapshot.ordinal_at(conversation, peer, mid).await?;
        let position = ReadPosition { n, ..read.position };
        answers.settled.insert((partition, read.offset), position);
    }
    Ok(())
}

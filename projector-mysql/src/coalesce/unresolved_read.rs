//! Read positions that came without their ordinal (PROTOCOL R5).

use std::collections::{BTreeMap, BTreeSet};

use message_store::{MessageStore, Shard, Sink, StoreError};
use schemas::{Partition, event::ReadPosition};

/// A read position whose ordinal is yet to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnresolvedRead {
    pub(crate) position: ReadPosition,
    /// The event's offset in its partition: the messages projection must be beyond it.
    pub(crate) offset: i64,
}

impl UnresolvedRead {
    pub(crate) fn partition(&self) -> Partition {
        self.position.conversation().partition()
    }

    pub(crate) fn id(&self) -> (Partition, i64) {
        (self.partition(), self.offset)
    }
}

/// By partition and offset: the position with its ordinal, or without one where its messages are gone.
pub(crate) type ResolvedReads = BTreeMap<(Partition, i64), ReadPosition>;

#[derive(Debug, Default)]
pub(crate) struct Resolution {
    pub(crate) resolved: ResolvedReads,
    /// Why some are still unresolved.
    pub(crate) waiting: Option<String>,
}

/// Looks up the ordinals that can be looked up now. Reads of a database that does not answer stay unresolved.
pub(crate) async fn resolve(
    store: &MessageStore,
    topic: &str,
    unresolved: impl Iterator<Item = UnresolvedRead>,
) -> Resolution {
    let mut by_shard: BTreeMap<Shard, Vec<UnresolvedRead>> = BTreeMap::new();
    for read in unresolved {
        let shard = store.layout().shard_of(read.partition());
        by_shard.entry(shard).or_default().push(read);
    }
    let mut resolution = Resolution::default();
    for (shard, reads) in by_shard {
        if let Err(error) = resolve_in(store, topic, shard, &reads, &mut resolution).await {
            resolution.waiting = Some(error.to_string());
        }
    }
    resolution
}

async fn resolve_in(
    store: &MessageStore,
    topic: &str,
    shard: Shard,
    reads: &[UnresolvedRead],
    resolution: &mut Resolution,
) -> Result<(), StoreError> {
    let mut snapshot = store.snapshot(shard).await?;
    let partitions: BTreeSet<Partition> = reads.iter().map(UnresolvedRead::partition).collect();
    let partitions: Vec<Partition> = partitions.into_iter().collect();
    let written = snapshot
        .resume_offsets(Sink::Messages, topic, &partitions)
        .await?;
    for read in reads {
        let partition = read.partition();
        if written[partition].next.get() <= read.offset {
            resolution.waiting = Some(format!(
                "a read position waits until the messages of partition {partition} are written"
            ));
            continue;
        }
        let ReadPosition { peer, mid, .. } = read.position;
        let conversation = read.position.conversation();
        let n = snapshot.ordinal_at(conversation, peer, mid).await?;
        let position = ReadPosition { n, ..read.position };
        resolution.resolved.insert(read.id(), position);
    }
    Ok(())
}

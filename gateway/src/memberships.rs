//! Reads a user's memberships from MySQL, with the positions that they reflect.

use std::collections::BTreeMap;

use message_store::{Sink, StoreError};
use schemas::{Partition, UserId, topics::Topic};

use crate::{
    hub::{Span, StoredMemberships},
    state::Gateway,
};

/// How many memberships one statement reads.
const AT_ONCE: u32 = 1_000;

/// Reads positions and rows in one snapshot (PROTOCOL M5).
///
/// # Errors
/// MySQL does not answer.
pub(crate) async fn read(gateway: &Gateway, uid: UserId) -> Result<StoredMemberships, StoreError> {
    let shard = gateway.store.layout().shard_of_user(uid);
    let mut tx = gateway.store.snapshot(shard).await?;
    let topic = gateway.kafka.topic(Topic::Events);
    let partitions: Vec<Partition> = Partition::all().collect();
    let applied = tx
        .resume_offsets(Sink::Contacts, &topic, &partitions)
        .await?;
    let mut spans = BTreeMap::new();
    let mut after = None;
    loop {
        let rows = tx.memberships(uid, after, AT_ONCE).await?;
        spans.extend(rows.iter().map(|row| (row.gid, Span::from(row))));
        if rows.len() < AT_ONCE as usize {
            break;
        }
        after = rows.last().map(|row| row.gid);
    }
    let applied = applied
        .into_iter()
        .map(|(partition, at)| (partition, at.next));
    Ok(StoredMemberships {
        spans,
        applied: applied.collect(),
    })
}

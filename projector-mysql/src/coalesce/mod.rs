//! Projections that keep the newest value per key: many events become one row.

mod contact;
mod database;
mod open_read;
mod read_mark;
mod sink;
pub(crate) mod target;

use std::hash::Hash;

pub(crate) use contact::Contact;
use message_store::{MessageStore, ResumeMove, Shard, StoreError};
pub(crate) use read_mark::ReadPositionRow;
use schemas::{
    DirectConversation, Partition, TimestampMs,
    event::{Message, ReadPosition},
};
pub(crate) use sink::CoalescingSink;

/// A row that is merged by maximum: indifferent to the order and the repetition of what it is told.
pub(crate) trait MergedRow: Clone + Send + Sync + Sized + 'static {
    /// What there is one row of.
    type Key: Eq + Hash + Send + Sync;
    /// Whether a read position has to have its ordinal before it may be written.
    const NEEDS_ORDINALS: bool;

    /// What a message says, and to which rows: there are two at most.
    fn of_message(message: &Message, ts: TimestampMs) -> [Option<Self>; 2];

    /// What a read position says.
    fn of_read(position: &ReadPosition) -> Self;

    fn key(&self) -> Self::Key;

    /// Whose partition of the log speaks of this row; no other does.
    fn conversation(&self) -> DirectConversation;

    /// The number of the table that it belongs to.
    fn table(&self) -> Partition;

    fn merge(&mut self, other: Self);

    /// Writes rows of one database and moves its offsets, both or nothing.
    fn write<'a>(
        store: &MessageStore,
        shard: Shard,
        topic: &str,
        rows: impl Iterator<Item = &'a Self> + Send,
        moves: &[ResumeMove],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

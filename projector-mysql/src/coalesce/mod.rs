//! Projections that keep the newest value per key: many events become one row.

mod buffer;
mod catch_up;
mod contact;
mod database;
mod read_row;
mod sink;

use std::hash::Hash;

pub(crate) use catch_up::CatchUp;
use message_store::{OffsetUpdate, StoreError};
use projection::LogEvent;
use schemas::{DirectConversation, TableNumber};
pub(crate) use sink::CoalescingSink;

use crate::destination::Destination;

/// A row that is merged by maximum: changes commute, and may be repeated.
pub(crate) trait MergedRow: Clone + Send + Sync + Sized + 'static {
    /// The row's key in its table.
    type Key: Eq + Hash + Send + Sync;

    /// What an event changes: at most two rows, or one of them twice.
    fn of_event(event: &LogEvent) -> [Option<Self>; 2];

    fn key(&self) -> Self::Key;

    /// Only the events of this conversation, and so of one partition, change the row.
    fn conversation(&self) -> DirectConversation;

    /// The number of the row's table.
    fn table(&self) -> TableNumber;

    fn merge(&mut self, other: Self);

    /// Writes rows of one database and updates its offsets, both or nothing.
    fn write<'a>(
        to: &Destination,
        rows: impl Iterator<Item = &'a Self> + Send,
        updates: &[OffsetUpdate],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

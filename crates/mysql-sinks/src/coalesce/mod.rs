//! Projections that keep the newest value per key: many events become one row.

mod buffer;
mod catch_up;
mod contact;
mod database;
mod read_row;
mod sink;
mod user_row;

use std::hash::Hash;

pub use catch_up::CatchUp;
use message_store::{OffsetUpdate, StoreError};
use projection::LogEvent;
use schemas::{Partition, TableNumber};
pub use sink::CoalescingSink;
pub use user_row::UserRow;

use crate::destination::Destination;

/// A row that is merged by maximum: its changes commute, and may be repeated.
pub trait MergedRow: Clone + Send + Sync + Sized + 'static {
    /// The row's key in its table.
    type Key: Eq + Hash + Send + Sync;

    /// Passes the changes of an event to `take`, row by row; a row may come twice.
    fn for_each(event: &LogEvent, take: impl FnMut(Self));

    fn key(&self) -> Self::Key;

    /// The partition whose events change the row; no others do.
    fn partition(&self) -> Partition;

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

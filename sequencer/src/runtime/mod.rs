//! The shells of the owned partitions, driven over Kafka by one thread: there are no locks, and everything that happens to a partition is in one
//! order.

mod effects;
mod event_writer;
mod group;
mod inbound;
mod load;
mod phase;
mod producers;
mod publisher;
mod snapshot_queue;
mod snapshot_writer;
mod snapshots;
mod starts;
mod status;
mod worker;

pub use group::GROUP;
pub use load::{LoadFault, sequenced, states};
pub use status::Status;
pub(crate) use worker::Worker;

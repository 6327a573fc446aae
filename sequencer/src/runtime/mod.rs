//! The shells of the owned partitions, driven over Kafka by one thread: no locks, and what happens to a partition
//! happens in one order.

mod effects;
mod loading;
mod owned;
mod snapshots;
mod status;
mod worker;

pub use status::Status;
pub use worker::GROUP;
pub(crate) use worker::Worker;

#![doc = include_str!("../README.md")]

mod coalesce;
mod destination;
mod groups;
#[doc(hidden)]
pub mod measured;
mod messages;
mod metrics;
mod resume_offsets;
mod severity;
mod unresolved_reads;

pub use coalesce::{CatchUp, CoalescingSink, UserRow};
pub use destination::Destination;
pub use messages::MessagesSink;
pub use metrics::describe as describe_metrics;
pub use unresolved_reads::{fill_unresolved_reads, run as keep_filling_unresolved_reads};

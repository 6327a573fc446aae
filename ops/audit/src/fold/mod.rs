//! The state that follows from the log. Pure code, no I/O.

mod begun;
mod contact;
mod conversation;
mod dedup;
mod digest;
mod inbound;
mod log_state;
mod outcomes;
mod partition;
mod senders;
mod watermark;

pub(crate) use contact::{Contact, LastRead, ordinal_within};
pub(crate) use digest::{Messages, message_digest, preview_digest};
pub(crate) use log_state::{FoldedEvent, LogState};
pub(crate) use partition::{FoldedPartition, PartitionFold, PartitionInput, Records};

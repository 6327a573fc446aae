//! The log as values: pure code, no I/O.

mod answers;
mod contact;
mod conversation;
mod digest;
mod inbound;
mod known;
mod memory;
mod partition;
mod senders;

pub(crate) use contact::{Contact, Read};
pub(crate) use digest::{message_digest, preview_digest};
pub(crate) use known::{Known, Taken};
pub(crate) use partition::{FoldedPartition, PartitionFold, PartitionInput, Records};

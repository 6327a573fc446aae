//! The state that follows from the log. Pure code, no I/O.

mod answered;
mod applied;
mod begun;
mod changes;
mod contact;
mod control;
mod conversation;
mod dedup;
mod digest;
mod expected;
mod group;
mod group_outcome;
mod in_memory;
mod inbound;
mod log_state;
mod memberships;
mod message_state;
mod outcomes;
mod partition;
mod profile;
mod recall;
mod recall_window;
mod repeat_key;
mod routing;
mod senders;
mod state_before;
mod subject;
mod watermark;

#[cfg(test)]
pub(crate) use contact::Flags;
pub(crate) use contact::{Contact, LastMessage, LastRead, ordinal_within};
pub(crate) use digest::{
    ChangedTexts, LoggedChange, MessageDigest, Messages, Place, SentMessage, Text, preview_digest,
};
pub(crate) use group::{Group, Member};
pub use in_memory::differences_in_logs;
pub(crate) use log_state::{FoldedEvent, LogState};
pub(crate) use partition::{FoldedPartition, PartitionFold, PartitionInput, Records};
pub(crate) use profile::ProfileVersion;
pub(crate) use subject::Subject;
pub(crate) use watermark::Watermark;

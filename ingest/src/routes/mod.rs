//! The calls, one a file.

pub(crate) mod events;
pub(crate) mod messages;
pub(crate) mod read_acks;

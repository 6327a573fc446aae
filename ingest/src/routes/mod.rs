//! The calls, one a file.

pub(crate) mod contact_changes;
pub(crate) mod events;
pub(crate) mod groups;
pub(crate) mod message_changes;
pub(crate) mod messages;
pub(crate) mod profiles;
pub(crate) mod read_acks;

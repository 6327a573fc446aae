//! The calls, one a file.

pub(crate) mod conversations;
pub(crate) mod inbound;
pub(crate) mod messages;
pub(crate) mod unread;

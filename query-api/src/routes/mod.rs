//! The calls, one a file.

#![allow(
    unused_qualifications,
    reason = "the attribute of each call repeats its arguments' types with paths of its own"
)]

pub(crate) mod changes;
pub(crate) mod conversations;
pub(crate) mod devices;
pub(crate) mod group;
pub(crate) mod group_changes;
pub(crate) mod group_members;
pub(crate) mod group_messages;
pub(crate) mod groups;
pub(crate) mod inbound;
pub(crate) mod messages;
pub(crate) mod profiles;
pub(crate) mod sync;
pub(crate) mod unread;

//! The sinks by themselves, for shadow rebuilds: the same code makes the same rows.

use message_store::ReadRow;
use projection::Sink;

use crate::{
    coalesce::{CoalescingSink, UserRow},
    destination::Destination,
    messages::MessagesSink,
};

/// Writes `chat_msg_<n>`, `msg_change_<n>` and the tables of groups of one database; its pending is in bytes.
#[must_use]
pub fn messages_into(destination: Destination) -> impl Sink {
    MessagesSink::new(destination)
}

/// Writes `read_chat_mid_<n>` of one database; its pending is in rows.
#[must_use]
pub fn reads_into(destination: Destination) -> impl Sink {
    CoalescingSink::<ReadRow>::new([destination])
}

/// Writes `contact_<n>`, `hidden_<n>`, `membership_<n>` and `user_<n>` of one database; its pending is in rows.
#[must_use]
pub fn contacts_into(destination: Destination) -> impl Sink {
    CoalescingSink::<UserRow>::new([destination])
}

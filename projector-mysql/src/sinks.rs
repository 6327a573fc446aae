//! The sinks by themselves, for whoever builds tables anew: the same code makes the same rows.

use projection::Sink;

use crate::{
    coalesce::{CoalescingSink, Contact, ReadPositionRow},
    ledger::Place,
    messages::MessagesSink,
};

/// Writes `chat_msg_<n>` of one database; its pending is in bytes.
#[must_use]
pub fn messages_into(place: Place) -> impl Sink {
    MessagesSink::new(place)
}

/// Writes `read_chat_mid_<n>` of one database; its pending is in rows.
#[must_use]
pub fn reads_into(place: Place) -> impl Sink {
    CoalescingSink::<ReadPositionRow>::new(vec![place])
}

/// Writes `contact_<n>` of one database; its pending is in rows.
#[must_use]
pub fn contacts_into(place: Place) -> impl Sink {
    CoalescingSink::<Contact>::new(vec![place])
}

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use message_store::Month;
use schemas::{TimestampMs, event::Message};

/// How many characters of a text `contact_<n>` keeps.
const PREVIEW_CHARS: usize = 200;

/// The messages of a partition.
#[derive(Default)]
pub(crate) struct Messages {
    /// Offset and digest of every message, ascending.
    pub(crate) digests: Vec<(i64, u64)>,
    /// The offset of the first message of each month.
    pub(crate) months: BTreeMap<Month, i64>,
}

impl Messages {
    pub(crate) fn add(&mut self, at: i64, ts: TimestampMs, message: &Message) {
        self.digests.push((at, message_digest(ts, message)));
        if let Ok(month) = Month::of(ts) {
            self.months.entry(month).or_insert(at);
        }
    }
}

/// A hash over every column of a message's row but its id, so that a partition's rows need not be held.
pub(crate) fn message_digest(ts: TimestampMs, message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.srcid.hash(&mut hasher);
    message.destid.hash(&mut hasher);
    message.client_msg_id.as_str().hash(&mut hasher);
    message.msg.hash(&mut hasher);
    message.mid.hash(&mut hasher);
    message.n.hash(&mut hasher);
    ts.hash(&mut hasher);
    hasher.finish()
}

/// A hash of what a contact shows of a text.
pub(crate) fn preview_digest(text: &str) -> u64 {
    let end = text
        .char_indices()
        .nth(PREVIEW_CHARS)
        .map_or(text.len(), |(at, _)| at);
    let mut hasher = DefaultHasher::new();
    text[..end].hash(&mut hasher);
    hasher.finish()
}

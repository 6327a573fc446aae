use schemas::{TimestampMs, event::Message};

/// A row of `chat_msg_<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// The offset of the message's event in its partition of `chat.events`.
    pub id: i64,
    /// The event's time.
    pub ts: TimestampMs,
    /// The message.
    pub message: Message,
}

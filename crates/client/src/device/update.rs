use api::PresenceBody;
use schemas::{ClientMsgId, Mid, Recipient, UserId};

/// Something that a device has learned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// The stream goes on; everything is as it was on the log a moment ago.
    Connected,
    /// The connection is gone, for this reason; it is made again.
    Disconnected(String),
    /// A chat has changed.
    Chat(Recipient),
    /// The user's own profile has changed.
    Profile,
    /// A sync has changed several chats, and the profile perhaps.
    Synced,
    /// A send is a message with this number; `None` for a repeat whose number is not known any more.
    Sent(ClientMsgId, Option<Mid>),
    /// A send will not be done.
    Refused {
        /// The id of the send.
        client_msg_id: ClientMsgId,
        /// `not-a-member`, `blocked` …
        reason: String,
        /// For people.
        detail: String,
    },
    /// A read-ack will not be done, and is not repeated.
    ReadRefused {
        /// The chat.
        of: Recipient,
        /// The newest message that was read.
        mid: Mid,
        /// `forbidden` …
        reason: String,
        /// For people.
        detail: String,
    },
    /// A gateway did not understand a frame, for this reason; the connection goes on.
    Error(String),
    /// A user types in a chat, at this moment.
    Typing(Recipient, UserId),
    /// Whether the user that the device looks at is connected.
    Presence(PresenceBody),
}

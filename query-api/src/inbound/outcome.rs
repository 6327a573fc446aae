use schemas::{
    ConversationId, DeviceClass, InboundPosition, Mid, Recipient, UserId,
    command::{Command, SendMessage},
    event::{Body, Event},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::original::Original;
use crate::{flags::Flags, message_item::utc};

/// What became of a record of `chat.inbound`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InboundOutcome {
    /// As asked: 0 to 63.
    #[schema(maximum = 63, example = 17)]
    partition: u8,
    /// As asked.
    #[schema(minimum = 0, example = 42)]
    offset: i64,
    /// What became of it.
    #[serde(flatten)]
    outcome: Outcome,
}

/// What became of it: `state` says which of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The sequencer has not come to it yet.
    Pending,
    /// It is a message and has its number.
    Sequenced {
        /// `lo,hi`, or `g:` and the gid of a group.
        #[schema(example = "1000,1001")]
        conversation: String,
        /// The number.
        #[schema(minimum = 1, example = 3)]
        mid: i64,
        /// The offset of the message in the same partition of `chat.events`.
        #[schema(minimum = 0, example = 57)]
        events_offset: i64,
        /// When it was sequenced, UTC.
        #[schema(example = "2025-11-21T08:00:00.123Z")]
        ts: String,
    },
    /// It repeats a message that had its number before, or another command that was applied before: it did nothing.
    Repeat {
        /// `lo,hi`, or `g:` and the gid of a group; absent for a profile and for rules.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(example = "1000,1001")]
        conversation: Option<String>,
        /// Of a message, that number; null where it is neither among the newest 4,096 events before the repeat nor stored (in a group: not among these), or not among the sender's newest 1,000 in the conversation.
        #[schema(minimum = 1, example = 3)]
        of_mid: Option<i64>,
        /// The id that both messages have; absent for other commands.
        #[serde(skip_serializing_if = "Option::is_none")]
        client_msg_id: Option<String>,
        /// The id that both commands have; absent for messages, and for hiding and clearing, which need none.
        #[serde(skip_serializing_if = "Option::is_none")]
        command_id: Option<String>,
        /// The offset, in the same partition of `chat.inbound`, of the one that holds; absent where that is not among the newest 4,096 events before the repeat.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 0, example = 40)]
        of_offset: Option<i64>,
        /// The offset of its event in the same partition of `chat.events`; absent where `of_offset` is.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 0, example = 57)]
        events_offset: Option<i64>,
    },
    /// It is a read-ack and moved the position.
    ReadPositionMoved {
        /// Who read, whose messages and on what.
        #[serde(flatten)]
        reader: Reader,
        /// Up to where, which may be below what was asked for.
        #[schema(minimum = 1, example = 3)]
        mid: i64,
        /// The offset of the move in the same partition of `chat.events`.
        #[schema(minimum = 0, example = 57)]
        events_offset: i64,
        /// When, UTC.
        #[schema(example = "2025-11-21T08:00:00.123Z")]
        ts: String,
    },
    /// It is a read-ack that was not above the position, or to a conversation without messages.
    ReadPositionKept {
        /// Who read, whose messages and on what.
        #[serde(flatten)]
        reader: Reader,
    },
    /// It changed a message, or what a user sees of a conversation.
    MessageChanged {
        /// `lo,hi`, or `g:` and the gid of a group.
        #[schema(example = "1000,1001")]
        conversation: String,
        /// The message.
        #[schema(minimum = 1, example = 3)]
        mid: i64,
        /// `recall`, `edit`, `delete`, `hide` or `clear`.
        #[schema(value_type = String, example = "recall")]
        kind: &'static str,
        /// Its number among the changes of the conversation; 0 of a hide or a clear from rule version 4 on, which have none.
        #[schema(minimum = 0, example = 1)]
        chg: i64,
        /// The offset of the change in the same partition of `chat.events`.
        #[schema(minimum = 0, example = 57)]
        events_offset: i64,
        /// When, UTC.
        #[schema(example = "2025-11-21T08:00:00.123Z")]
        ts: String,
    },
    /// It changed what a user says about a contact.
    ContactChanged {
        /// Whose contact it is.
        #[schema(value_type = String, example = "1000")]
        uid: UserId,
        /// The other user.
        #[schema(value_type = String, example = "1001")]
        peer: UserId,
        /// As they are from there on.
        #[serde(flatten)]
        flags: Flags,
        /// Whether the contact left the list, until its next message.
        deleted: bool,
        /// The offset of the change in the same partition of `chat.events`.
        #[schema(minimum = 0, example = 57)]
        events_offset: i64,
        /// When, UTC.
        #[schema(example = "2025-11-21T08:00:00.123Z")]
        ts: String,
    },
    /// It set a profile.
    ProfileSet {
        /// Whose it is.
        #[schema(value_type = String, example = "1000")]
        uid: UserId,
        /// The offset of the profile in the same partition of `chat.events`.
        #[schema(minimum = 0, example = 57)]
        events_offset: i64,
        /// When, UTC.
        #[schema(example = "2025-11-21T08:00:00.123Z")]
        ts: String,
    },
    /// It is a read-ack of a group and moved the position.
    GroupReadPositionMoved {
        /// The group.
        #[schema(value_type = String, example = "5000")]
        gid: String,
        /// Who read.
        #[schema(value_type = String, example = "1000")]
        uid: UserId,
        /// On what.
        #[schema(value_type = String, example = "mobile")]
        device: DeviceClass,
        /// Up to where, which may be below what was asked for.
        #[schema(minimum = 1, example = 3)]
        mid: i64,
        /// The offset of the move in the same partition of `chat.events`.
        #[schema(minimum = 0, example = 57)]
        events_offset: i64,
        /// When, UTC.
        #[schema(example = "2025-11-21T08:00:00.123Z")]
        ts: String,
    },
    /// It changed a group, or who its members are.
    GroupChanged {
        /// The group.
        #[schema(value_type = String, example = "5000")]
        gid: String,
        /// `create`, `add`, `remove`, `join`, `leave`, `role`, `rename`, `mute`, `unmute`, `options` or `dissolve`.
        #[schema(value_type = String, example = "add")]
        kind: &'static str,
        /// How many members there are from there on; 0 once it is dissolved.
        #[schema(minimum = 0, example = 3)]
        member_count: i64,
        /// The offset of the change in the same partition of `chat.events`.
        #[schema(minimum = 0, example = 57)]
        events_offset: i64,
        /// When, UTC.
        #[schema(example = "2025-11-21T08:00:00.123Z")]
        ts: String,
    },
    /// It is a change to a message, to a contact or in a group, and what it asks for was so before. In a group also a read-ack that is not above the position.
    WithoutEffect {
        /// `lo,hi`, or `g:` and the gid of a group.
        #[schema(example = "1000,1001")]
        conversation: String,
    },
    /// It led to no event: it was refused, or what it asks for was so before. Which of the two is not known, since too many records were refused after it.
    NoEvent {
        /// `lo,hi`, or `g:` and the gid of a group.
        #[schema(example = "1000,1001")]
        conversation: String,
    },
    /// It changed the rules of its partition.
    RulesChanged {
        /// The offset of the change in the same partition of `chat.events`.
        #[schema(minimum = 0, example = 57)]
        events_offset: i64,
        /// When, UTC.
        #[schema(example = "2025-11-21T08:00:00.123Z")]
        ts: String,
    },
    /// It changed nothing; it is among the dead letters.
    Refused {
        /// Why: `malformed`, `wrong-partition`, `too-large`, `conflict`, `invalid-control`, `too-many-conversations`, `blocked`,
        /// `unknown-message`, `not-the-author`, `too-late`, `too-old`, `recalled` or `not-allowed`; in a group also `unknown-group`, `group-exists`, `not-a-member`, `no-right`, `muted`, `group-full`, `dissolved`, `wrong-gid`, `too-many-memberships` or `has-left`.
        #[schema(example = "conflict")]
        reason: String,
        /// Why, for people.
        detail: String,
    },
    /// It is no longer retained, so nothing can be said about it.
    Expired,
}

/// Whose read position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Reader {
    /// Who read.
    #[schema(value_type = String, example = "1000")]
    uid: UserId,
    /// Whose messages.
    #[schema(value_type = String, example = "1001")]
    peer: UserId,
    /// On what.
    #[schema(value_type = String, example = "mobile")]
    device: DeviceClass,
}

impl InboundOutcome {
    pub(crate) fn new(position: InboundPosition, outcome: Outcome) -> Self {
        Self {
            partition: position.partition.get(),
            offset: position.offset,
            outcome,
        }
    }
}

impl Outcome {
    /// What an event says of the record that caused it; `None` for progress, which no record causes.
    pub(super) fn of_event(events_offset: i64, event: Event) -> Option<Self> {
        let ts = utc(event.ts);
        Some(match event.body {
            Body::Message(message) => Self::Sequenced {
                conversation: message.conversation().to_string(),
                mid: message.mid.get(),
                events_offset,
                ts,
            },
            Body::ReadPosition(position) => match position.to {
                Recipient::User(peer) => Self::ReadPositionMoved {
                    reader: Reader::new(position.uid, peer, position.device),
                    mid: position.mid.get(),
                    events_offset,
                    ts,
                },
                Recipient::Group(gid) => Self::GroupReadPositionMoved {
                    gid: gid.to_string(),
                    uid: position.uid,
                    device: position.device,
                    mid: position.mid.get(),
                    events_offset,
                    ts,
                },
            },
            Body::Control(_) => Self::RulesChanged { events_offset, ts },
            Body::MessageChange(change) => Self::MessageChanged {
                conversation: change.conversation().to_string(),
                mid: change.mid.get(),
                kind: change.change.kind(),
                chg: change.chg.get(),
                events_offset,
                ts,
            },
            Body::ContactChange(change) => Self::ContactChanged {
                uid: change.uid,
                peer: change.peer,
                flags: change.flags.into(),
                deleted: change.deleted.is_some(),
                events_offset,
                ts,
            },
            Body::GroupChange(change) => Self::GroupChanged {
                gid: change.gid.to_string(),
                kind: change.kind.as_str(),
                member_count: change.member_count,
                events_offset,
                ts,
            },
            Body::Profile(profile) => Self::ProfileSet {
                uid: profile.uid,
                events_offset,
                ts,
            },
            Body::Progress => return None,
        })
    }

    /// What a change, or a command in a group, comes to that was not refused and has no event.
    pub(super) fn without_event(command: &Command, conversation: ConversationId) -> Self {
        match command {
            Command::Send(send) => Self::repeat_of_message(send, None),
            _ => Self::WithoutEffect {
                conversation: conversation.to_string(),
            },
        }
    }

    pub(super) fn no_event(conversation: ConversationId) -> Self {
        Self::NoEvent {
            conversation: conversation.to_string(),
        }
    }

    /// A message with the number `original`, where that is found, was sent before.
    pub(super) fn repeat_of_message(send: &SendMessage, original: Option<Mid>) -> Self {
        Self::Repeat {
            conversation: Some(send.conversation().to_string()),
            of_mid: original.map(Mid::get),
            client_msg_id: Some(send.client_msg_id.to_string()),
            command_id: None,
            of_offset: None,
            events_offset: None,
        }
    }

    /// The same of any command, whose event is found on the log.
    pub(super) fn repeat(original: Original) -> Self {
        let Original {
            at,
            events_offset,
            event,
        } = original;
        let conversation = event.conversation().map(|id| id.to_string());
        let (of_mid, client_msg_id) = match event.body {
            Body::Message(message) => (
                Some(message.mid.get()),
                Some(message.client_msg_id.into_string()),
            ),
            _ => (None, None),
        };
        Self::Repeat {
            conversation,
            of_mid,
            client_msg_id,
            command_id: event.command.map(|command| command.id.into_string()),
            of_offset: Some(at.offset),
            events_offset: Some(events_offset),
        }
    }
}

impl Reader {
    pub(super) fn new(uid: UserId, peer: UserId, device: DeviceClass) -> Self {
        Self { uid, peer, device }
    }
}

//! What became of commands.

use std::borrow::Cow;

use schemas::{ChangeSeq, DeviceClass, GroupId, Mid, Partition, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::contact::Flags;

/// What became of a record of `chat.inbound`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InboundOutcome {
    /// As asked: 0 to 63.
    #[schema(value_type = u8, maximum = 63, example = 17)]
    pub partition: Partition,
    /// As asked.
    #[schema(minimum = 0, example = 42)]
    pub offset: i64,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What became of it: `state` says which of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// The sequencer has not come to it yet.
    Pending,
    /// It is a message and has its number.
    Sequenced {
        /// `lo,hi`, or `g:` and the gid of a group.
        #[schema(example = "1000,1001")]
        conversation: String,
        /// The number.
        #[schema(value_type = i64, minimum = 1, example = 3)]
        mid: Mid,
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
        #[schema(value_type = i64, minimum = 1, example = 3)]
        mid: Mid,
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
        #[schema(value_type = i64, minimum = 1, example = 3)]
        mid: Mid,
        /// `recall`, `edit`, `delete`, `hide`, `clear` or `react`.
        #[schema(value_type = String, example = "recall")]
        kind: Cow<'static, str>,
        /// Its number among the changes of the conversation; 0 of a hide or a clear from rule version 4 on, which have none.
        #[schema(value_type = i64, minimum = 0, example = 1)]
        #[serde(rename = "chg")]
        change_seq: ChangeSeq,
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
        gid: GroupId,
        /// Who read.
        #[schema(value_type = String, example = "1000")]
        uid: UserId,
        /// On what.
        #[schema(value_type = String, example = "mobile")]
        device: DeviceClass,
        /// Up to where, which may be below what was asked for.
        #[schema(value_type = i64, minimum = 1, example = 3)]
        mid: Mid,
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
        gid: GroupId,
        /// `create`, `add`, `remove`, `join`, `leave`, `role`, `rename`, `mute`, `unmute`, `options` or `dissolve`.
        #[schema(value_type = String, example = "add")]
        kind: Cow<'static, str>,
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
    /// A state that this version does not know; no service says it.
    #[serde(other, skip_serializing)]
    Other,
}

/// Whose read position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reader {
    /// Who read.
    #[schema(value_type = String, example = "1000")]
    pub uid: UserId,
    /// Whose messages.
    #[schema(value_type = String, example = "1001")]
    pub peer: UserId,
    /// On what.
    #[schema(value_type = String, example = "mobile")]
    pub device: DeviceClass,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_fields_of_their_own() {
        let of = |json: &str| {
            let found: InboundOutcome = serde_json::from_str(json).unwrap();
            found.outcome
        };
        assert_eq!(
            of(r#"{"partition":17,"offset":42,"state":"pending"}"#),
            Outcome::Pending
        );
        let repeat = of(
            r#"{"partition":17,"offset":43,"state":"repeat","conversation":"1000,1001","of_mid":3,"client_msg_id":"a","of_offset":40,"events_offset":57}"#,
        );
        let expected = Outcome::Repeat {
            conversation: Some("1000,1001".to_owned()),
            of_mid: Some(3),
            client_msg_id: Some("a".to_owned()),
            command_id: None,
            of_offset: Some(40),
            events_offset: Some(57),
        };
        assert_eq!(repeat, expected);
        let contact = of(
            r#"{"partition":17,"offset":44,"state":"contact_changed","uid":"1000","peer":"1001","favourite":false,"pinned":true,"muted":false,"blocked":false,"deleted":false,"events_offset":57,"ts":"2025-11-21T08:00:00.123Z"}"#,
        );
        let Outcome::ContactChanged { flags, deleted, .. } = contact else {
            panic!("{contact:?}");
        };
        assert!(flags.pinned && !flags.muted && !deleted);
        let later = r#"{"partition":17,"offset":45,"state":"something-new"}"#;
        assert_eq!(of(later), Outcome::Other);
    }
}

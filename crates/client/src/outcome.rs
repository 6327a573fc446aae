use std::time::Instant;

use backon::BackoffBuilder as _;
use schemas::{Chg, DeviceClass, InboundPosition, Mid, UserId};
use serde::Deserialize;

use crate::{Client, ClientError, queries::Flags};

/// What became of a record of `chat.inbound`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InboundOutcome {
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What the sequencer did with a record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing yet.
    Pending,
    /// It is a message and has its number.
    Sequenced {
        /// `lo,hi`.
        conversation: String,
        /// The number.
        mid: Mid,
        /// The offset of the message in the same partition of `chat.events`.
        events_offset: i64,
        /// When: RFC 3339, UTC.
        ts: String,
    },
    /// It repeats an earlier message or command, and did nothing.
    Repeat {
        /// `lo,hi`; `None` of a profile and of rules.
        conversation: Option<String>,
        /// The number of the earlier message; `None` where it is not stored, or too far back to be looked for, and of another command.
        of_mid: Option<i64>,
        /// The id of both messages.
        client_msg_id: Option<String>,
        /// The id of both, if they are other commands.
        command_id: Option<String>,
        /// The offset, in the same partition of `chat.inbound`, of the one that holds; `None` where that is too far back.
        of_offset: Option<i64>,
        /// The offset of its event in the same partition of `chat.events`.
        events_offset: Option<i64>,
    },
    /// It is a read-ack and moved the position.
    ReadPositionMoved {
        /// Who read.
        uid: UserId,
        /// Whose messages.
        peer: UserId,
        /// On what.
        device: DeviceClass,
        /// Up to where, which may be below what was asked for.
        mid: Mid,
        /// The offset of the move in the same partition of `chat.events`.
        events_offset: i64,
        /// When: RFC 3339, UTC.
        ts: String,
    },
    /// It is a read-ack that was not above the position, or to a conversation without messages.
    ReadPositionKept {
        /// Who read.
        uid: UserId,
        /// Whose messages.
        peer: UserId,
        /// On what.
        device: DeviceClass,
    },
    /// It changed a message, or what a user sees of a conversation.
    MessageChanged {
        /// `lo,hi`.
        conversation: String,
        /// The message.
        mid: Mid,
        /// `recall`, `edit`, `delete`, `hide` or `clear`.
        kind: String,
        /// Its number among the changes of the conversation.
        chg: Chg,
        /// The offset of the change in the same partition of `chat.events`.
        events_offset: i64,
        /// When: RFC 3339, UTC.
        ts: String,
    },
    /// It changed what a user says about a contact.
    ContactChanged {
        /// Whose contact it is.
        uid: UserId,
        /// The other user.
        peer: UserId,
        /// As they are from there on.
        #[serde(flatten)]
        flags: Flags,
        /// Whether the contact left the list, until its next message.
        deleted: bool,
        /// The offset of the change in the same partition of `chat.events`.
        events_offset: i64,
        /// When: RFC 3339, UTC.
        ts: String,
    },
    /// It set a profile.
    ProfileSet {
        /// Whose it is.
        uid: UserId,
        /// The offset of the profile in the same partition of `chat.events`.
        events_offset: i64,
        /// When: RFC 3339, UTC.
        ts: String,
    },
    /// It is a change to a message or to a contact, and what it asks for was so before.
    WithoutEffect {
        /// `lo,hi`.
        conversation: String,
    },
    /// It changed the rules of its partition.
    RulesChanged {
        /// The offset of the change in the same partition of `chat.events`.
        events_offset: i64,
        /// When: RFC 3339, UTC.
        ts: String,
    },
    /// It changed nothing; it is among the dead letters.
    Refused {
        /// The name of one of [`schemas::dead_letter::Reason`].
        reason: String,
        /// The reason in words.
        detail: String,
    },
    /// It is no longer retained, so nothing can be said about it.
    Expired,
    /// A state that this version of the client does not know.
    #[serde(other)]
    Other,
}

impl Client {
    /// Says what became of an accepted send, read-ack or change.
    ///
    /// # Errors
    /// There is no such record, the caller may not see it, or there was no answer in time.
    pub async fn outcome(&self, position: InboundPosition) -> Result<Outcome, ClientError> {
        let path = format!("/v1/inbound/{}/{}", position.partition, position.offset);
        let found: InboundOutcome = self.get(&path).await?;
        Ok(found.outcome)
    }

    /// The same, asked again while it is pending; [`Outcome::Pending`] only where time is up.
    ///
    /// # Errors
    /// As [`Client::outcome`].
    pub async fn final_outcome(&self, position: InboundPosition) -> Result<Outcome, ClientError> {
        let began = Instant::now();
        let mut pauses = self.retry.pauses().build();
        loop {
            let outcome = self.outcome(position).await?;
            if outcome != Outcome::Pending || began.elapsed() >= self.retry.within {
                return Ok(outcome);
            }
            tokio::time::sleep(pauses.next().unwrap_or_default()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_fields_of_their_own() {
        let of = |json: &str| {
            serde_json::from_str::<InboundOutcome>(json)
                .unwrap()
                .outcome
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
        assert_eq!(of(r#"{"state":"something-new"}"#), Outcome::Other);
    }
}

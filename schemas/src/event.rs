//! Events: the values of `chat.events`, checked.

use prost::Message as _;
use serde::Serialize;

use crate::{
    AppliedCommand, CommandScope, ContactChange, ConversationId, GroupChange, MessageChange,
    Partition, Profile, TimestampMs, WordVerdict,
    dead_letter::Reason,
    fast_decoder,
    kind::EventKind,
    malformed::Malformed,
    proto::{self, sequenced_event},
};

pub use crate::kind::{control::Rules, read_ack::ReadPosition, send::Message};

/// An offset of `chat.inbound` with its epoch. Every event carries that of the inbound record that caused it. Readers take an event only if its
/// source offset is above all earlier ones (PROTOCOL S10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourceOffset {
    /// Raised by an operator when `chat.inbound` was created again.
    pub epoch: u32,
    /// Offset in `chat.inbound`; −1 is before the first record.
    pub offset: i64,
}

impl SourceOffset {
    /// Before the first record of the first epoch.
    pub const START: Self = Self {
        epoch: 0,
        offset: -1,
    };

    /// Whether a store with this watermark has processed the record at `position`. A client's position carries no epoch of its own: it is
    /// of the current epoch, which is at least the watermark's.
    #[must_use]
    pub fn reaches(self, position: Self) -> bool {
        self.epoch >= position.epoch && self.offset >= position.offset
    }
}

impl Default for SourceOffset {
    fn default() -> Self {
        Self::START
    }
}

/// The inbound record that caused an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its offset in `chat.inbound`.
    pub offset: SourceOffset,
    /// Kafka's leader epoch of that record; −1 if unknown.
    pub leader_epoch: i32,
}

/// The newest rule version that this program knows. Version 2 adds hashes with a key; version 3 adds groups, profiles, and changes to messages and
/// contacts; version 4 applies commands once; version 5 adds reactions.
pub const KNOWN_RULE_VERSION: u32 = 5;

/// Something that a newer program wrote. A reader that folds `chat.events` stops before it (PROTOCOL S5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownRules {
    /// Rules of this version are in force from here on.
    #[error(
        "rule version {0} is in force from here on, and this program knows versions up to {KNOWN_RULE_VERSION}: run a newer one"
    )]
    Version(u32),
    /// An event whose body this program does not know.
    #[error("it is an event of a kind that this program does not know: run a newer one")]
    EventKind,
}

/// Whether this program can follow rules of this version. Check this before reading other fields, whose meaning may have changed.
///
/// # Errors
/// [`UnknownRules::Version`].
pub fn known_version(version: u32) -> Result<(), UnknownRules> {
    if version > KNOWN_RULE_VERSION {
        return Err(UnknownRules::Version(version));
    }
    Ok(())
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message was sequenced.
    Message(Message),
    /// A read position moved up.
    ReadPosition(ReadPosition),
    /// The rules that hold from this event on.
    Control(Rules),
    /// All inbound records up to the source are processed.
    Progress,
    /// A message was changed, or what a user sees of a conversation.
    MessageChange(MessageChange),
    /// What a user says about a contact.
    ContactChange(ContactChange),
    /// A group was changed, or who its members are.
    GroupChange(Box<GroupChange>),
    /// A profile was set.
    Profile(Profile),
}

/// What `$of_kind` is for the kind of an event, by static dispatch: a call through `dyn` also makes the compiler copy events. `None` for progress.
macro_rules! of_kind {
    ($body:expr, $kind:ident => $of_kind:expr) => {
        match $body {
            Self::Message($kind) => Some($of_kind),
            Self::ReadPosition($kind) => Some($of_kind),
            Self::Control($kind) => Some($of_kind),
            Self::MessageChange($kind) => Some($of_kind),
            Self::ContactChange($kind) => Some($of_kind),
            Self::GroupChange(change) => {
                let $kind = &**change;
                Some($of_kind)
            }
            Self::Profile($kind) => Some($of_kind),
            Self::Progress => None,
        }
    };
}

impl Body {
    /// The event as its kind; `None` for progress.
    #[must_use]
    pub fn kind(&self) -> Option<&dyn EventKind> {
        of_kind!(self, kind => kind)
    }

    /// All that [`Self::label`] returns.
    pub const LABELS: [&str; 8] = [
        "message",
        "read_position",
        "control",
        "progress",
        "message_change",
        "contact_change",
        "group_change",
        "profile",
    ];

    /// The name of the kind of event, in metrics, exports and reports.
    #[must_use]
    pub fn label(&self) -> &'static str {
        of_kind!(self, kind => kind.label()).unwrap_or("progress")
    }

    /// What its texts and lists take, bytes.
    #[must_use]
    pub fn extra_bytes(&self) -> usize {
        of_kind!(self, kind => kind.extra_bytes()).unwrap_or(0)
    }

    /// The scope in which the id of the event's command is unique; `None` for progress, which has no command.
    #[must_use]
    pub fn scope(&self) -> Option<CommandScope> {
        of_kind!(self, kind => kind.scope())
    }

    /// The read positions between two users that the event raises, unless they are higher already: one for a read position, both for a user who
    /// clears a history or deletes a contact. None in a note to oneself.
    pub fn read_positions(&self) -> impl Iterator<Item = ReadPosition> {
        // Through `dyn`: inlined for every kind, it makes the folds larger than it saves (`make instructions`: fold-contacts +7 %).
        let positions = self.kind().map(EventKind::read_positions);
        positions.into_iter().flatten().flatten()
    }
}

/// A record of `chat.events`: its value and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The inbound record that caused it.
    pub src: Source,
    /// The record's CreateTime.
    pub ts: TimestampMs,
    /// What it says.
    pub body: Body,
    /// The command that it answers, if a repeat of that command is recognised by its id; boxed, since most events have none.
    pub command: Option<Box<AppliedCommand>>,
    /// What the word filter did with the text, as in the inbound record; `None` if nothing.
    pub words: Option<WordVerdict>,
}

/// A record of `chat.events` that every reader skips. Readers ignore its source offset too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct SkippedRecord {
    /// The reason for the dead-letter record.
    pub reason: Reason,
    /// What is wrong, for people.
    pub detail: String,
}

/// Why a record of `chat.events` has no event for this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Every reader skips it.
    #[error(transparent)]
    Skipped(#[from] SkippedRecord),
    /// A reader that folds stops before it.
    #[error(transparent)]
    UnknownRules(#[from] UnknownRules),
}

impl From<Malformed> for ReadError {
    fn from(malformed: Malformed) -> Self {
        Self::Skipped(SkippedRecord {
            reason: Reason::Malformed,
            detail: malformed.to_string(),
        })
    }
}

impl Event {
    /// Parses a record of `partition`. All readers use this, so they skip the same records (not an event, or not in the partition of its
    /// conversation) and stop before the same ones.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(partition: Partition, value: &[u8], ts: TimestampMs) -> Result<Self, ReadError> {
        let event = Self::parse(value, ts)?;
        match event.partition() {
            Some(right) if right != partition => Err(ReadError::Skipped(SkippedRecord {
                reason: Reason::WrongPartition,
                detail: format!("it belongs to partition {right}"),
            })),
            _ => Ok(event),
        }
    }

    /// Reads a record's value; `ts` is its CreateTime.
    ///
    /// # Errors
    /// [`ReadError`]; malformed if the bytes are not an event, or a field is outside what its docs allow.
    pub fn parse(value: &[u8], ts: TimestampMs) -> Result<Self, ReadError> {
        let decoded = match fast_decoder::event(value) {
            Some(event) => Ok(event),
            None => proto::SequencedEvent::decode(value),
        };
        let event = decoded
            .map_err(|e| Malformed::new("value", format!("is not a SequencedEvent ({e})")))?;
        let src = event
            .src
            .ok_or_else(|| Malformed::new("src", "is absent"))?;
        let body = match event.event {
            // prost drops fields that it does not know.
            None if event.encoded_len() < value.len() => {
                return Err(UnknownRules::EventKind.into());
            }
            None => return Err(Malformed::new("event", "is absent").into()),
            Some(sequenced_event::Event::Message(message)) => Body::Message(message.try_into()?),
            Some(sequenced_event::Event::ReadPosition(position)) => {
                Body::ReadPosition(position.try_into()?)
            }
            Some(sequenced_event::Event::Control(rules)) => {
                known_version(rules.rule_version)?;
                Body::Control(rules.try_into()?)
            }
            Some(sequenced_event::Event::Progress(proto::Progress {})) => Body::Progress,
            Some(sequenced_event::Event::MessageChange(change)) => {
                Body::MessageChange(change.try_into()?)
            }
            Some(sequenced_event::Event::ContactChange(change)) => {
                Body::ContactChange(change.try_into()?)
            }
            Some(sequenced_event::Event::GroupChange(change)) => {
                Body::GroupChange(Box::new(change.try_into()?))
            }
            Some(sequenced_event::Event::Profile(profile)) => Body::Profile(profile.try_into()?),
        };
        let src = src.try_into()?;
        let command = event.command.map(AppliedCommand::try_from).transpose()?;
        let words = event.words.map(WordVerdict::try_from).transpose()?;
        Ok(Self {
            src,
            ts,
            body,
            command: command.map(Box::new),
            words,
        })
    }

    /// The record's value.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let mut value = Vec::new();
        self.encode_to(&mut value);
        value
    }

    /// Appends the record's value to `buffer`.
    pub fn encode_to(self, buffer: &mut Vec<u8>) {
        let event = proto::SequencedEvent {
            src: Some(self.src.into()),
            event: Some(self.body.into()),
            command: self.command.map(|command| (*command).into()),
            words: self.words.map(Into::into),
        };
        event.encode(buffer).expect("a vector grows as needed");
    }

    /// The event's conversation; `None` for a profile, control and progress.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationId> {
        self.body.scope()?.conversation()
    }

    /// The event's partition; `None` for control and progress, which belong to every partition.
    #[must_use]
    pub fn partition(&self) -> Option<Partition> {
        self.body.scope()?.partition()
    }
}

impl From<Body> for sequenced_event::Event {
    fn from(body: Body) -> Self {
        match body {
            Body::Message(message) => Self::Message(message.into()),
            Body::ReadPosition(position) => Self::ReadPosition(position.into()),
            Body::Control(rules) => Self::Control(rules.into()),
            Body::Progress => Self::Progress(proto::Progress {}),
            Body::MessageChange(change) => Self::MessageChange(change.into()),
            Body::ContactChange(change) => Self::ContactChange(change.into()),
            Body::GroupChange(change) => Self::GroupChange((*change).into()),
            Body::Profile(profile) => Self::Profile(profile.into()),
        }
    }
}

impl TryFrom<proto::Source> for Source {
    type Error = Malformed;

    fn try_from(src: proto::Source) -> Result<Self, Malformed> {
        if src.offset < -1 {
            return Err(Malformed::new("src.offset", "is below -1"));
        }
        Ok(Self {
            offset: SourceOffset {
                epoch: src.epoch,
                offset: src.offset,
            },
            leader_epoch: src.leader_epoch,
        })
    }
}

impl From<Source> for proto::Source {
    fn from(src: Source) -> Self {
        Self {
            epoch: src.offset.epoch,
            offset: src.offset.offset,
            leader_epoch: src.leader_epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Change, ChangeSeq, ContactFlags, DeletedContact, DeviceClass, Mid, Ordinal, Recipient,
        UserId,
    };

    fn event(body: Body) -> Event {
        let offset = SourceOffset {
            epoch: 1,
            offset: 41,
        };
        Event {
            src: Source {
                offset,
                leader_epoch: 3,
            },
            ts: TimestampMs(5),
            body,
            command: Some(Box::new(AppliedCommand {
                id: "once".to_owned().try_into().unwrap(),
                content: u32::MAX,
            })),
            words: Some(WordVerdict {
                masked: false,
                dictionary: 7,
            }),
        }
    }

    /// Every message is moved as one of these.
    #[test]
    fn an_event_is_as_large_as_its_largest_body() {
        assert_eq!((size_of::<Message>(), size_of::<Body>()), (88, 96));
    }

    #[test]
    fn every_body_round_trips() {
        let user = |uid: i64| UserId::try_from(uid).unwrap();
        let group = Recipient::Group(5000.try_into().unwrap());
        let bodies = [
            Body::Message(Message {
                srcid: user(i64::MAX),
                to: group,
                client_msg_id: "c".to_owned().try_into().unwrap(),
                msg: "hello".to_owned(),
                mid: Mid::ZERO.next(),
                ordinal: Ordinal::ZERO,
            }),
            Body::ReadPosition(ReadPosition {
                uid: user(1),
                to: group,
                device: DeviceClass::Pc,
                mid: Mid::ZERO.next(),
                ordinal: None,
            }),
            Body::MessageChange(MessageChange {
                by: user(1),
                to: group,
                mid: Mid::ZERO.next(),
                change: Change::Recall,
                change_seq: ChangeSeq::ZERO.next(),
                ordinal: None,
            }),
            Body::Message(Message {
                srcid: user(i64::MAX),
                to: Recipient::User(user(1)),
                client_msg_id: "c".to_owned().try_into().unwrap(),
                msg: "\u{1f30a}\t\"'\n".to_owned(),
                mid: Mid::ZERO.next(),
                ordinal: Ordinal::ZERO.next(),
            }),
            Body::ReadPosition(ReadPosition {
                uid: user(1),
                to: Recipient::User(user(i64::MAX)),
                device: DeviceClass::Mobile,
                mid: Mid::ZERO.next(),
                ordinal: None,
            }),
            Body::MessageChange(MessageChange {
                by: user(1),
                to: Recipient::User(user(i64::MAX)),
                mid: Mid::ZERO.next(),
                change: Change::Edit("\u{1f30a}".to_owned()),
                change_seq: ChangeSeq::ZERO.next(),
                ordinal: None,
            }),
            Body::MessageChange(MessageChange {
                by: user(1),
                to: group,
                mid: Mid::ZERO.next(),
                change: Change::Hide,
                change_seq: ChangeSeq::ZERO,
                ordinal: None,
            }),
            Body::ContactChange(ContactChange {
                uid: user(i64::MAX),
                peer: user(1),
                flags: ContactFlags {
                    pinned: true,
                    ..ContactFlags::default()
                },
                deleted: Some(DeletedContact {
                    mid: Mid::ZERO,
                    ordinal: Ordinal::ZERO,
                }),
            }),
            Body::Profile(Profile {
                uid: user(i64::MAX),
                nick: "\u{1f30a}".to_owned(),
                avatar: None,
                extra: Some("{}".to_owned()),
            }),
            Body::Control(Rules::VERSION_1),
            Body::Control(Rules {
                rule_version: 2,
                hash_key: Some([7; 16].into()),
                dedup_max_per_sender: 5,
                new_conversations_per_day: 6,
                ..Rules::VERSION_1
            }),
            Body::Progress,
        ];
        for body in bodies {
            let event = event(body);
            assert_eq!(
                Event::parse(&event.clone().encode(), event.ts).unwrap(),
                event
            );
        }
    }

    #[test]
    fn who_clears_or_deletes_has_read() {
        let change = |by: i64, peer: i64, change| {
            Body::MessageChange(MessageChange {
                by: by.try_into().unwrap(),
                to: Recipient::User(peer.try_into().unwrap()),
                mid: Mid::ZERO.next(),
                change,
                change_seq: ChangeSeq::ZERO.next(),
                ordinal: None,
            })
        };
        let devices = |body: Body| -> Vec<DeviceClass> {
            body.read_positions().map(|read| read.device).collect()
        };
        assert_eq!(devices(change(1, 2, Change::Clear)), DeviceClass::ALL);
        assert_eq!(devices(change(1, 1, Change::Clear)), []);
        assert_eq!(devices(change(1, 2, Change::Hide)), []);
        let contact = |deleted| {
            Body::ContactChange(ContactChange {
                uid: 1.try_into().unwrap(),
                peer: 2.try_into().unwrap(),
                flags: ContactFlags::default(),
                deleted,
            })
        };
        let deleted = DeletedContact {
            mid: Mid::ZERO.next(),
            ordinal: Ordinal::ZERO,
        };
        assert_eq!(devices(contact(Some(deleted))), DeviceClass::ALL);
        assert_eq!(devices(contact(None)), []);
    }

    #[test]
    fn an_event_of_another_partition_is_skipped() {
        let position = ReadPosition {
            uid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            device: DeviceClass::Pc,
            mid: Mid::ZERO.next(),
            ordinal: None,
        };
        let right = position.conversation().partition();
        let event = event(Body::ReadPosition(position));
        let read = |partition| Event::read(partition, &event.clone().encode(), event.ts);
        assert_eq!(read(right).unwrap(), event);
        let wrong = Partition::all().find(|p| *p != right).unwrap();
        assert_eq!(skipped(read(wrong)).reason, Reason::WrongPartition);
        let junk = Event::read(right, b"junk", event.ts);
        assert_eq!(skipped(junk).reason, Reason::Malformed);
    }

    #[test]
    fn a_profile_belongs_to_the_partition_of_its_user() {
        let event = event(Body::Profile(Profile {
            uid: 65.try_into().unwrap(),
            nick: "Ann".to_owned(),
            avatar: None,
            extra: None,
        }));
        let read = |partition: i64| {
            let partition = partition.try_into().unwrap();
            Event::read(partition, &event.clone().encode(), event.ts)
        };
        assert_eq!(read(1).unwrap(), event);
        assert_eq!(skipped(read(2)).reason, Reason::WrongPartition);
    }

    fn skipped(read: Result<Event, ReadError>) -> SkippedRecord {
        match read {
            Err(ReadError::Skipped(skipped)) => skipped,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_newer_program_wrote_is_not_skipped() {
        let newer = event(Body::Control(Rules {
            rule_version: KNOWN_RULE_VERSION + 1,
            ..Rules::VERSION_1
        }));
        let read = |value: &[u8]| Event::parse(value, TimestampMs(5));
        let version = UnknownRules::Version(KNOWN_RULE_VERSION + 1);
        assert_eq!(read(&newer.encode()), Err(version.into()));
        let of_src = proto::SequencedEvent {
            src: Some(event(Body::Progress).src.into()),
            event: None,
            command: None,
            words: None,
        };
        let mut value = of_src.encode_to_vec();
        assert_eq!(skipped(read(&value)).reason, Reason::Malformed);
        // Field 15 with two bytes.
        value.extend([0x7a, 2, 8, 1]);
        assert_eq!(read(&value), Err(UnknownRules::EventKind.into()));
    }

    #[test]
    fn source_offsets_are_ordered_by_epoch_first() {
        assert!(
            SourceOffset {
                epoch: 1,
                offset: -1
            } > SourceOffset {
                epoch: 0,
                offset: i64::MAX
            }
        );
        assert!(
            SourceOffset::START
                < SourceOffset {
                    epoch: 0,
                    offset: 0
                }
        );
    }

    #[test]
    fn bytes_that_are_no_event_are_refused() {
        let detail = |value| skipped(Event::parse(value, TimestampMs(0))).detail;
        assert!(detail(b"").starts_with("src"));
        assert!(detail(b"junk").starts_with("value"));
    }
}

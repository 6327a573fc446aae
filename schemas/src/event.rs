//! Events: the values of `chat.events`, checked.

use prost::Message as _;
use serde::Serialize;

use crate::{
    AppliedCommand, Change, ClientMsgId, ContactChange, ConversationId, DeviceClass, GroupChange,
    HashKey, MessageChange, Mid, Ordinal, Partition, Profile, Recipient, TimestampMs, UserId,
    WordVerdict,
    command::{Malformed, device, text, uid},
    dead_letter::Reason,
    fast_decoder,
    proto::{self, sequenced_event},
};

/// An offset of `chat.inbound` with its epoch. Every event carries the one of the inbound record that caused it, and readers take an event
/// only if its source offset is above all before it (PROTOCOL S10).
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
    /// Kafka's leader epoch of that record; −1 where it was not known.
    pub leader_epoch: i32,
}

/// A message with the number that the sequencer gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender.
    pub srcid: UserId,
    /// To whom.
    pub to: Recipient,
    /// The sender's own id of this send.
    pub client_msg_id: ClientMsgId,
    /// The text.
    pub msg: String,
    /// Its number in the conversation: 1, 2, 3 …
    pub mid: Mid,
    /// Its number among the messages that `srcid` sent in the conversation: 1, 2, 3 …; 0 in a group, where nobody counts them.
    pub n: Ordinal,
}

impl Message {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.srcid)
    }
}

/// A read position of a user that moved up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    /// The reader.
    pub uid: UserId,
    /// The other side of the conversation.
    pub to: Recipient,
    /// The class of the reader's device.
    pub device: DeviceClass,
    /// The newest message read.
    pub mid: Mid,
    /// How many messages the other user had sent up to `mid`; `None` where the sequencer no longer knew (PROTOCOL R5), and in a group.
    pub n: Option<Ordinal>,
}

impl ReadPosition {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.uid)
    }
}

/// The newest rule version that this program knows. Version 2 brings hashes with a key, version 3 groups, profiles, and changes to messages and contacts,
/// version 4 commands that are applied once.
pub const KNOWN_RULE_VERSION: u32 = 4;

/// What a newer program wrote. Whoever folds `chat.events` stops before it (PROTOCOL S5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownRules {
    /// Rules of this version are in force from here on.
    #[error(
        "rule version {0} is in force from here on, and this program knows versions up to {KNOWN_RULE_VERSION}: run a newer one"
    )]
    Version(u32),
    /// An event with a source offset and something else.
    #[error("it is an event of a kind that this program does not know: run a newer one")]
    EventKind,
}

/// The settings of the sequencer in one partition, as of a control event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// The version of the rules; a program that does not know it stops.
    pub rule_version: u32,
    /// For how long, in log time, a client_msg_id is remembered, milliseconds.
    pub dedup_window_ms: i64,
    /// The largest number of dedup entries of the partition.
    pub dedup_max_entries: i64,
    /// The largest msg that is sequenced, bytes.
    pub max_msg_bytes: i64,
    /// The key of the hashes by which repeats are recognised; `None` below rule version 2.
    #[serde(skip)]
    pub hash_key: Option<HashKey>,
    /// The largest number of a sender's entries among the shared ones, and again as many of the sender's own; 0 below rule version 2.
    pub dedup_max_per_sender: i64,
    /// How many conversations a user may begin in the partition in a day of log time; 0 for any number.
    pub new_conversations_per_day: i64,
    /// For how long, in log time, its author may recall a message, milliseconds; 0 for never, −1 for always. 0 below rule version 3.
    pub recall_window_ms: i64,
    /// Whether a message may be deleted for both sides; false below rule version 3.
    pub delete_for_all: bool,
    /// The most members of a group; 0 below rule version 3.
    pub max_group_members: i64,
    /// How many users, himself included, a user may make members of groups in the partition in a day of log time; 0 for any number, and below
    /// rule version 4.
    pub new_memberships_per_day: i64,
    /// Of how many groups of the partition a user may be a member because others made him one; 0 for any number, and below rule version 4.
    pub max_memberships_by_others: i64,
}

impl Rules {
    /// Rule version 1, which holds in a partition until a control record changes it. 65,535 bytes are what MySQL's TEXT holds.
    pub const VERSION_1: Self = Self {
        rule_version: 1,
        dedup_window_ms: 3 * 24 * 3600 * 1000,
        dedup_max_entries: 1_000_000,
        max_msg_bytes: 65_535,
        hash_key: None,
        dedup_max_per_sender: 0,
        new_conversations_per_day: 0,
        recall_window_ms: 0,
        delete_for_all: false,
        max_group_members: 0,
        new_memberships_per_day: 0,
        max_memberships_by_others: 0,
    };
}

/// Whether this program can follow rules of this version. To be asked first: a field may mean something else then.
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

impl Body {
    /// The read positions between two users that it moves up, unless they are higher: one of a read position, both of a user who clears a
    /// history or deletes a contact. Of a note to oneself there is none.
    pub fn read_positions(&self) -> impl Iterator<Item = ReadPosition> {
        let none = [None, None].into_iter().flatten();
        let (uid, peer, mid, n) = match self {
            Self::ReadPosition(position) => {
                let between_users = matches!(position.to, Recipient::User(_));
                return [between_users.then_some(*position), None]
                    .into_iter()
                    .flatten();
            }
            Self::MessageChange(MessageChange {
                by,
                to: Recipient::User(peer),
                mid,
                change: Change::Clear,
                n,
                ..
            }) => (*by, *peer, *mid, *n),
            Self::ContactChange(ContactChange {
                uid,
                peer,
                deleted: Some(deleted),
                ..
            }) => (*uid, *peer, deleted.mid, Some(deleted.n)),
            _ => return none,
        };
        let position = |device| ReadPosition {
            uid,
            to: Recipient::User(peer),
            device,
            mid,
            n,
        };
        let both = DeviceClass::ALL.map(|device| (uid != peer).then(|| position(device)));
        both.into_iter().flatten()
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
    /// The command that it answers, where a repeat of that is recognised by its id; boxed, since most events have none.
    pub command: Option<Box<AppliedCommand>>,
    /// What the filter of words did with its text, as the inbound record says; `None` where nothing.
    pub words: Option<WordVerdict>,
}

/// A record of `chat.events` that every reader skips. Its source offset does not count either.
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
    /// A reader that folds does not go on behind it.
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
    /// Parses a record of `partition`. All readers use this, so that they skip the same records (those that are no events, and those that
    /// are in another partition than their conversation's) and stop before the same ones.
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
    /// [`ReadError`], malformed where the bytes are no event or a field is outside what its docs allow.
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

    /// The conversation it belongs to; `None` for a profile, control and progress.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationId> {
        match &self.body {
            Body::Message(message) => Some(message.conversation()),
            Body::ReadPosition(position) => Some(position.conversation()),
            Body::MessageChange(change) => Some(change.conversation()),
            Body::ContactChange(change) => Some(change.conversation().into()),
            Body::GroupChange(change) => Some(ConversationId::Group(change.gid)),
            Body::Profile(_) | Body::Control(_) | Body::Progress => None,
        }
    }

    /// The partition that it belongs to; `None` for control and progress, which belong to every one.
    #[must_use]
    pub fn partition(&self) -> Option<Partition> {
        match &self.body {
            Body::Profile(profile) => Some(Profile::partition_of(profile.uid)),
            _ => self.conversation().map(ConversationId::partition),
        }
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

fn mid(value: i64) -> Result<Mid, Malformed> {
    match Mid::try_from(value) {
        Ok(mid) if mid > Mid::ZERO => Ok(mid),
        _ => Err(Malformed::new(
            "mid",
            format!("is {value}; must be 1 or more"),
        )),
    }
}

pub(crate) fn ordinal(value: i64) -> Result<Ordinal, Malformed> {
    Ordinal::try_from(value).map_err(|e| Malformed::new("n", e))
}

/// In a group nobody counts.
pub(crate) fn ordinal_between_users(
    n: Option<i64>,
    gid: i64,
) -> Result<Option<Ordinal>, Malformed> {
    n.filter(|_| gid == 0).map(ordinal).transpose()
}

impl TryFrom<proto::MessageSequenced> for Message {
    type Error = Malformed;

    fn try_from(message: proto::MessageSequenced) -> Result<Self, Malformed> {
        Ok(Self {
            srcid: uid("srcid", message.srcid)?,
            to: Recipient::from_proto("destid", message.destid, message.gid)?,
            client_msg_id: message
                .client_msg_id
                .try_into()
                .map_err(|e| Malformed::new("client_msg_id", e))?,
            msg: text(message.msg)?,
            mid: mid(message.mid)?,
            n: ordinal_between_users(Some(message.n), message.gid)?.unwrap_or_default(),
        })
    }
}

impl From<Message> for proto::MessageSequenced {
    fn from(message: Message) -> Self {
        let (destid, gid) = message.to.into_proto();
        Self {
            srcid: message.srcid.get(),
            destid,
            client_msg_id: message.client_msg_id.into_string(),
            msg: message.msg,
            mid: message.mid.get(),
            n: message.n.get(),
            gid,
        }
    }
}

impl TryFrom<proto::ReadPositionMoved> for ReadPosition {
    type Error = Malformed;

    fn try_from(position: proto::ReadPositionMoved) -> Result<Self, Malformed> {
        Ok(Self {
            uid: uid("uid", position.uid)?,
            to: Recipient::from_proto("peer", position.peer, position.gid)?,
            device: device(position.device)?,
            mid: mid(position.mid)?,
            n: ordinal_between_users(position.n, position.gid)?,
        })
    }
}

impl From<ReadPosition> for proto::ReadPositionMoved {
    fn from(position: ReadPosition) -> Self {
        let (peer, gid) = position.to.into_proto();
        Self {
            uid: position.uid.get(),
            peer,
            device: proto::DeviceClass::from(position.device).into(),
            mid: position.mid.get(),
            n: position.n.map(Ordinal::get),
            gid,
        }
    }
}

impl TryFrom<proto::ControlApplied> for Rules {
    type Error = Malformed;

    fn try_from(rules: proto::ControlApplied) -> Result<Self, Malformed> {
        let hash_key = match rules.hash_key.as_slice() {
            [] => None,
            bytes => Some(
                bytes
                    .try_into()
                    .map_err(|e| Malformed::new("hash_key", e))?,
            ),
        };
        Ok(Self {
            rule_version: rules.rule_version,
            dedup_window_ms: rules.dedup_window_ms,
            dedup_max_entries: rules.dedup_max_entries,
            max_msg_bytes: rules.max_msg_bytes,
            hash_key,
            dedup_max_per_sender: rules.dedup_max_per_sender,
            new_conversations_per_day: rules.new_conversations_per_day,
            recall_window_ms: rules.recall_window_ms,
            delete_for_all: rules.delete_for_all,
            max_group_members: rules.max_group_members,
            new_memberships_per_day: rules.new_memberships_per_day,
            max_memberships_by_others: rules.max_memberships_by_others,
        })
    }
}

impl From<Rules> for proto::ControlApplied {
    fn from(rules: Rules) -> Self {
        Self {
            rule_version: rules.rule_version,
            dedup_window_ms: rules.dedup_window_ms,
            dedup_max_entries: rules.dedup_max_entries,
            max_msg_bytes: rules.max_msg_bytes,
            hash_key: rules
                .hash_key
                .map_or_else(Vec::new, |key| key.bytes().to_vec()),
            dedup_max_per_sender: rules.dedup_max_per_sender,
            new_conversations_per_day: rules.new_conversations_per_day,
            recall_window_ms: rules.recall_window_ms,
            delete_for_all: rules.delete_for_all,
            max_group_members: rules.max_group_members,
            new_memberships_per_day: rules.new_memberships_per_day,
            max_memberships_by_others: rules.max_memberships_by_others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chg, ContactFlags, DeletedContact};

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
                n: Ordinal::ZERO,
            }),
            Body::ReadPosition(ReadPosition {
                uid: user(1),
                to: group,
                device: DeviceClass::Pc,
                mid: Mid::ZERO.next(),
                n: None,
            }),
            Body::MessageChange(MessageChange {
                by: user(1),
                to: group,
                mid: Mid::ZERO.next(),
                change: Change::Recall,
                chg: Chg::ZERO.next(),
                n: None,
            }),
            Body::Message(Message {
                srcid: user(i64::MAX),
                to: Recipient::User(user(1)),
                client_msg_id: "c".to_owned().try_into().unwrap(),
                msg: "\u{1f30a}\t\"'\n".to_owned(),
                mid: Mid::ZERO.next(),
                n: Ordinal::ZERO.next(),
            }),
            Body::ReadPosition(ReadPosition {
                uid: user(1),
                to: Recipient::User(user(i64::MAX)),
                device: DeviceClass::Mobile,
                mid: Mid::ZERO.next(),
                n: None,
            }),
            Body::MessageChange(MessageChange {
                by: user(1),
                to: Recipient::User(user(i64::MAX)),
                mid: Mid::ZERO.next(),
                change: Change::Edit("\u{1f30a}".to_owned()),
                chg: Chg::ZERO.next(),
                n: None,
            }),
            Body::MessageChange(MessageChange {
                by: user(1),
                to: group,
                mid: Mid::ZERO.next(),
                change: Change::Hide,
                chg: Chg::ZERO,
                n: None,
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
                    n: Ordinal::ZERO,
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
                chg: Chg::ZERO.next(),
                n: None,
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
            n: Ordinal::ZERO,
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
            n: None,
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

//! Commands of producers: the values of `chat.inbound`, checked.

use prost::{DecodeError, Message as _};

use crate::{
    ChangeContact, ChangeGroup, ChangeMessage, ClientMsgId, CommandId, ConversationId, DeviceClass,
    Mid, Partition, Profile, Recipient, UserId, WordVerdict, fast_decoder,
    proto::{self, inbound_command},
};

/// A record's value is no valid command or event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Malformed {
    /// The field at fault by its name in the `.proto` file, or `value` for the whole value.
    pub field: &'static str,
    /// What is wrong with the field and what would be right.
    pub problem: String,
}

impl Malformed {
    /// `problem` says what is wrong with `field` and what would be right.
    pub fn new(field: &'static str, problem: impl ToString) -> Self {
        Self {
            field,
            problem: problem.to_string(),
        }
    }
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// The sender.
    pub srcid: UserId,
    /// To whom.
    pub to: Recipient,
    /// The sender's own id of this send.
    pub client_msg_id: ClientMsgId,
    /// At least one byte, without NUL.
    pub msg: String,
    /// The sender posted it himself, so limits of users apply.
    pub by_user: bool,
}

impl SendMessage {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.srcid)
    }
}

/// The read-ack: `uid`, on a device of this class, has read a conversation up to `mid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAck {
    /// The reader.
    pub uid: UserId,
    /// The other side of the conversation.
    pub to: Recipient,
    /// The class of the reader's device.
    pub device: DeviceClass,
    /// The newest message read, at least 1; `None` for the newest that is sequenced before this record.
    pub mid: Option<Mid>,
}

impl ReadAck {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.uid)
    }
}

/// A change of the sequencer's rules in one partition. `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The version of the rules that holds from this record on.
    pub rule_version: Option<u32>,
    /// For how long, in log time, a client_msg_id is remembered, milliseconds.
    pub dedup_window_ms: Option<i64>,
    /// The largest number of dedup entries of the partition.
    pub dedup_max_entries: Option<i64>,
    /// The largest msg that is sequenced, bytes.
    pub max_msg_bytes: Option<i64>,
    /// The key of the hashes by which repeats are recognised. Its length is checked where it counts: rule version 1 ignores it.
    pub hash_key: Option<Vec<u8>>,
    /// The largest number of a sender's entries among the shared ones, and again as many of the sender's own. Rule version 1 ignores it.
    pub dedup_max_per_sender: Option<i64>,
    /// How many conversations a user may begin in the partition in a day of log time, 0 for any number. Rule version 1 ignores it.
    pub new_conversations_per_day: Option<i64>,
    /// For how long, in log time, its author may recall a message, milliseconds; 0 for never, −1 for always. Ignored below rule version 3.
    pub recall_window_ms: Option<i64>,
    /// Whether a message may be deleted for both sides. Ignored below rule version 3.
    pub delete_for_all: Option<bool>,
    /// The most members of a group. Ignored below rule version 3.
    pub max_group_members: Option<i64>,
    /// How many users, himself included, a user may make members of groups in the partition in a day of log time, 0 for any number. Ignored
    /// below rule version 4.
    pub new_memberships_per_day: Option<i64>,
    /// Of how many groups of the partition a user may be a member because others made him one, 0 for any number. Ignored below rule version 4.
    pub max_memberships_by_others: Option<i64>,
}

/// The value of a `chat.inbound` record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Sequences a message.
    Send(SendMessage),
    /// Moves a read position.
    ReadAck(ReadAck),
    /// Changes the rules.
    Control(Control),
    /// Changes a message.
    ChangeMessage(ChangeMessage),
    /// Changes a contact.
    ChangeContact(ChangeContact),
    /// Changes a group.
    ChangeGroup(ChangeGroup),
    /// Sets a profile.
    SetProfile(Profile),
}

impl Command {
    /// The conversation it belongs to; `None` for a profile and for control.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationId> {
        match self {
            Self::Send(send) => Some(send.conversation()),
            Self::ReadAck(ack) => Some(ack.conversation()),
            Self::ChangeMessage(change) => Some(change.conversation()),
            Self::ChangeContact(change) => Some(change.conversation().into()),
            Self::ChangeGroup(change) => Some(ConversationId::Group(change.gid)),
            Self::SetProfile(_) | Self::Control(_) => None,
        }
    }

    /// The partition that it belongs to; `None` for control, which belongs to every one.
    #[must_use]
    pub fn partition(&self) -> Option<Partition> {
        match self {
            Self::SetProfile(profile) => Some(Profile::partition_of(profile.uid)),
            _ => self.conversation().map(ConversationId::partition),
        }
    }

    /// Parses a record's value, without its id and what the filter of words did with its text.
    ///
    /// # Errors
    /// [`Malformed`] where the bytes are no command or a field is outside what its docs allow.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        InboundValue::parse(value).map(|parsed| parsed.command)
    }

    /// The record's value, without an id, and of a text without words of a dictionary.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        InboundValue::from(self).encode()
    }

    /// What the command asks for, as bytes that are equal where that is: whether its author posted it himself does not count.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        let mut command = self.clone();
        match &mut command {
            Self::Send(send) => send.by_user = false,
            Self::ChangeContact(change) => change.by_user = false,
            Self::ChangeGroup(change) => change.by_user = false,
            Self::ReadAck(_) | Self::Control(_) | Self::ChangeMessage(_) | Self::SetProfile(_) => {}
        }
        command.encode()
    }
}

/// The value of a `chat.inbound` record: a command with what is said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundValue {
    /// The command.
    pub command: Command,
    /// Its id as it was given, which may be none; empty if there is none. See [`Self::command_id`].
    pub id: String,
    /// What the filter of words did with the text; `None` where nothing.
    pub words: Option<WordVerdict>,
}

impl From<Command> for InboundValue {
    fn from(command: Command) -> Self {
        Self {
            command,
            id: String::new(),
            words: None,
        }
    }
}

impl InboundValue {
    /// Parses a record's value.
    ///
    /// # Errors
    /// [`Malformed`] where the bytes are no command or a field is outside what its docs allow.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let decoded = match fast_decoder::command(value) {
            Some(command) => Ok(command),
            None => proto::InboundCommand::decode(value),
        };
        let command = decoded
            .map_err(|e| Malformed::new("value", format!("is not an InboundCommand ({e})")))?;
        let words = command.words.map(WordVerdict::try_from).transpose()?;
        let id = command.command_id;
        let command = command.command.ok_or_else(|| {
            let wrong = "is absent; must be send_message, read_ack, change_message, change_contact, change_group, set_profile or control";
            Malformed::new("command", wrong)
        })?;
        Ok(Self {
            command: command.try_into()?,
            id,
            words,
        })
    }

    /// The record's value.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        proto::InboundCommand {
            command: Some(self.command.into()),
            command_id: self.id,
            words: self.words.map(Into::into),
        }
        .encode_to_vec()
    }

    /// The id by which a repeat is recognised (PROTOCOL S15); `None` where none is given, and for a send, which has its client_msg_id.
    ///
    /// # Errors
    /// [`Malformed`] where it is no id. Below rule version 4 that does not count.
    pub fn command_id(&self) -> Result<Option<CommandId>, Malformed> {
        if self.id.is_empty() || matches!(self.command, Command::Send(_)) {
            return Ok(None);
        }
        let id = CommandId::try_from(self.id.clone());
        id.map(Some).map_err(|e| Malformed::new("command_id", e))
    }
}

impl From<Command> for inbound_command::Command {
    fn from(command: Command) -> Self {
        match command {
            Command::Send(send) => Self::SendMessage(send.into()),
            Command::ReadAck(ack) => Self::ReadAck(ack.into()),
            Command::Control(control) => Self::Control(control.into()),
            Command::ChangeMessage(change) => Self::ChangeMessage(change.into()),
            Command::ChangeContact(change) => Self::ChangeContact(change.into()),
            Command::ChangeGroup(change) => Self::ChangeGroup(change.into()),
            Command::SetProfile(profile) => Self::SetProfile(profile.into()),
        }
    }
}

impl TryFrom<inbound_command::Command> for Command {
    type Error = Malformed;

    fn try_from(command: inbound_command::Command) -> Result<Self, Malformed> {
        use inbound_command::Command as Proto;

        match command {
            Proto::SendMessage(send) => send.try_into().map(Self::Send),
            Proto::ReadAck(ack) => ack.try_into().map(Self::ReadAck),
            Proto::Control(control) => control.try_into().map(Self::Control),
            Proto::ChangeMessage(change) => change.try_into().map(Self::ChangeMessage),
            Proto::ChangeContact(change) => change.try_into().map(Self::ChangeContact),
            Proto::ChangeGroup(change) => change.try_into().map(Self::ChangeGroup),
            Proto::SetProfile(profile) => profile.try_into().map(Self::SetProfile),
        }
    }
}

/// Decodes an item of a protobuf batch.
///
/// # Errors
/// prost's error, where the bytes are no `IngestEvent`.
pub fn ingest_event(item: &[u8]) -> Result<proto::IngestEvent, DecodeError> {
    match fast_decoder::ingest_event(item) {
        Some(event) => Ok(event),
        None => proto::IngestEvent::decode(item),
    }
}

/// Checks a uid of a protobuf message.
pub(crate) fn uid(field: &'static str, value: i64) -> Result<UserId, Malformed> {
    UserId::try_from(value).map_err(|e| Malformed::new(field, e))
}

/// Checks a device class of a protobuf message.
/// A device class from its number in the `.proto` files.
///
/// # Errors
/// [`Malformed`] where there is none.
pub fn device(value: i32) -> Result<DeviceClass, Malformed> {
    match proto::DeviceClass::try_from(value) {
        Ok(proto::DeviceClass::Pc) => Ok(DeviceClass::Pc),
        Ok(proto::DeviceClass::Mobile) => Ok(DeviceClass::Mobile),
        _ => Err(Malformed::new(
            "device",
            format!("is {value}; must be 1 (pc) or 2 (mobile)"),
        )),
    }
}

impl From<DeviceClass> for proto::DeviceClass {
    fn from(device: DeviceClass) -> Self {
        match device {
            DeviceClass::Pc => Self::Pc,
            DeviceClass::Mobile => Self::Mobile,
        }
    }
}

/// Checks a text.
pub(crate) fn text(msg: String) -> Result<String, Malformed> {
    if msg.is_empty() {
        return Err(Malformed::new("msg", "is empty; must be at least one byte"));
    }
    if msg.as_bytes().contains(&0) {
        return Err(Malformed::new(
            "msg",
            "has a NUL character; must be UTF-8 without NUL",
        ));
    }
    Ok(msg)
}

impl TryFrom<proto::SendMessage> for SendMessage {
    type Error = Malformed;

    fn try_from(send: proto::SendMessage) -> Result<Self, Malformed> {
        Ok(Self {
            srcid: uid("srcid", send.srcid)?,
            to: Recipient::from_proto("destid", send.destid, send.gid)?,
            client_msg_id: send
                .client_msg_id
                .try_into()
                .map_err(|e| Malformed::new("client_msg_id", e))?,
            msg: text(send.msg)?,
            by_user: send.by_user,
        })
    }
}

impl From<SendMessage> for proto::SendMessage {
    fn from(send: SendMessage) -> Self {
        let (destid, gid) = send.to.into_proto();
        Self {
            srcid: send.srcid.get(),
            destid,
            client_msg_id: send.client_msg_id.into_string(),
            msg: send.msg,
            by_user: send.by_user,
            gid,
        }
    }
}

impl TryFrom<proto::ReadAck> for ReadAck {
    type Error = Malformed;

    fn try_from(ack: proto::ReadAck) -> Result<Self, Malformed> {
        let mid = ack.mid.map(|mid| match Mid::try_from(mid) {
            Ok(mid) if mid > Mid::ZERO => Ok(mid),
            _ => Err(Malformed::new(
                "mid",
                format!("is {mid}; must be a message's number, 1 or more"),
            )),
        });
        Ok(Self {
            uid: uid("uid", ack.uid)?,
            to: Recipient::from_proto("peer", ack.peer, ack.gid)?,
            device: device(ack.device)?,
            mid: mid.transpose()?,
        })
    }
}

impl From<ReadAck> for proto::ReadAck {
    fn from(ack: ReadAck) -> Self {
        let (peer, gid) = ack.to.into_proto();
        Self {
            uid: ack.uid.get(),
            peer,
            device: proto::DeviceClass::from(ack.device).into(),
            mid: ack.mid.map(Mid::get),
            gid,
        }
    }
}

impl TryFrom<proto::Control> for Control {
    type Error = Malformed;

    fn try_from(control: proto::Control) -> Result<Self, Malformed> {
        let settings = [
            ("dedup_window_ms", control.dedup_window_ms),
            ("dedup_max_entries", control.dedup_max_entries),
            ("max_msg_bytes", control.max_msg_bytes),
        ];
        for (field, value) in settings {
            if value.is_some_and(|value| value < 0) {
                return Err(Malformed::new(field, "is below 0; must be 0 or more"));
            }
        }
        Ok(Self {
            rule_version: control.rule_version,
            dedup_window_ms: control.dedup_window_ms,
            dedup_max_entries: control.dedup_max_entries,
            max_msg_bytes: control.max_msg_bytes,
            hash_key: control.hash_key,
            dedup_max_per_sender: control.dedup_max_per_sender,
            new_conversations_per_day: control.new_conversations_per_day,
            recall_window_ms: control.recall_window_ms,
            delete_for_all: control.delete_for_all,
            max_group_members: control.max_group_members,
            new_memberships_per_day: control.new_memberships_per_day,
            max_memberships_by_others: control.max_memberships_by_others,
        })
    }
}

impl From<Control> for proto::Control {
    fn from(control: Control) -> Self {
        Self {
            rule_version: control.rule_version,
            dedup_window_ms: control.dedup_window_ms,
            dedup_max_entries: control.dedup_max_entries,
            max_msg_bytes: control.max_msg_bytes,
            hash_key: control.hash_key,
            dedup_max_per_sender: control.dedup_max_per_sender,
            new_conversations_per_day: control.new_conversations_per_day,
            recall_window_ms: control.recall_window_ms,
            delete_for_all: control.delete_for_all,
            max_group_members: control.max_group_members,
            new_memberships_per_day: control.new_memberships_per_day,
            max_memberships_by_others: control.max_memberships_by_others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(edit: impl FnOnce(&mut proto::SendMessage)) -> Result<Command, Malformed> {
        let mut send = proto::SendMessage {
            by_user: false,
            gid: 0,
            srcid: 1001,
            destid: 1000,
            client_msg_id: "c".to_owned(),
            msg: "hello".to_owned(),
        };
        edit(&mut send);
        let command = Some(inbound_command::Command::SendMessage(send));
        let value = proto::InboundCommand {
            command,
            ..proto::InboundCommand::default()
        };
        Command::parse(&value.encode_to_vec())
    }

    #[test]
    fn a_command_round_trips() {
        let command = send(|s| (s.destid, s.gid) = (0, 5000)).unwrap();
        assert_eq!(Command::parse(&command.clone().encode()).unwrap(), command);
        let key = command.conversation().map(|id| id.to_string());
        assert_eq!(key.as_deref(), Some("g:5000"));
        let command = send(|_| {}).unwrap();
        assert_eq!(Command::parse(&command.clone().encode()).unwrap(), command);
        let words = Some(WordVerdict {
            masked: true,
            dictionary: u64::MAX,
        });
        let value = InboundValue {
            id: "once".to_owned(),
            words,
            ..command.into()
        };
        let parsed = InboundValue::parse(&value.clone().encode());
        assert_eq!(parsed, Ok(value));
    }

    #[test]
    fn a_send_has_its_client_msg_id_for_an_id_and_others_have_one_that_is_checked() {
        let id_of = |command: Command, id: &str| {
            let value = InboundValue {
                id: id.to_owned(),
                ..command.into()
            };
            value.command_id()
        };
        let control = || Command::Control(Control::default());
        assert_eq!(id_of(send(|_| {}).unwrap(), "x"), Ok(None));
        assert_eq!(id_of(control(), ""), Ok(None));
        let id = id_of(control(), "x").unwrap();
        assert_eq!(id.as_ref().map(CommandId::as_str), Some("x"));
        for wrong in ["a\nb", &"x".repeat(65)] {
            assert_eq!(id_of(control(), wrong).unwrap_err().field, "command_id");
        }
    }

    /// Programs of different versions decide about the same records (PROTOCOL S1), so what is hashed of a command never changes.
    #[test]
    fn content_is_the_same_in_every_version() {
        for (value, content) in [
            (
                &b"\x12\x0a\x08\xe9\x07\x10\xe8\x07\x18\x01\x20\x07"[..],
                &b"\x12\x0a\x08\xe9\x07\x10\xe8\x07\x18\x01\x20\x07"[..],
            ),
            (
                b"\x22\x0d\x32\x01a\x08\xe9\x07\x10\xe8\x07\x20\x07\x28\x03",
                b"\x22\x0d\x08\xe9\x07\x10\xe8\x07\x20\x07\x28\x03\x32\x01a",
            ),
            // By the user himself, which does not count.
            (
                b"\x2a\x0a\x08\xe9\x07\x10\xe8\x07\x20\x01\x40\x01",
                b"\x2a\x08\x08\xe9\x07\x10\xe8\x07\x20\x01",
            ),
            (
                b"\x3a\x0b\x08\x88\x27\x10\xe9\x07\x4a\x01a\x70\x01\x6a\x01x",
                b"\x3a\x09\x08\x88\x27\x10\xe9\x07\x4a\x01a",
            ),
            (
                b"\x32\x08\x08\xe9\x07\x12\x03Ann\x6a\x01x",
                b"\x32\x08\x08\xe9\x07\x12\x03Ann",
            ),
            (b"\x1a\x00", b"\x1a\x00"),
        ] {
            assert_eq!(Command::parse(value).unwrap().content(), content);
        }
    }

    #[test]
    fn the_field_at_fault_is_named() {
        assert_eq!(send(|s| s.srcid = 0).unwrap_err().field, "srcid");
        assert_eq!(send(|s| s.destid = -5).unwrap_err().field, "destid");
        assert_eq!(send(|s| s.gid = 5000).unwrap_err().field, "destid");
        let gid = |gid| move |s: &mut proto::SendMessage| (s.destid, s.gid) = (0, gid);
        assert_eq!(send(gid(-1)).unwrap_err().field, "gid");
        assert_eq!(
            send(|s| s.client_msg_id.clear()).unwrap_err().field,
            "client_msg_id"
        );
        assert_eq!(send(|s| s.msg.clear()).unwrap_err().field, "msg");
        assert_eq!(
            send(|s| s.msg = "a\0b".to_owned()).unwrap_err().field,
            "msg"
        );
        assert_eq!(Command::parse(b"").unwrap_err().field, "command");
        assert_eq!(Command::parse(&[0xff; 3]).unwrap_err().field, "value");
    }

    #[test]
    fn a_read_ack_needs_a_device_and_a_mid_above_zero() {
        let ack = |device, mid| {
            ReadAck::try_from(proto::ReadAck {
                uid: 1,
                peer: 2,
                device,
                mid,
                gid: 0,
            })
        };
        assert_eq!(ack(0, None).unwrap_err().field, "device");
        assert_eq!(ack(3, None).unwrap_err().field, "device");
        assert_eq!(ack(1, Some(0)).unwrap_err().field, "mid");
        assert_eq!(ack(2, None).unwrap().mid, None);
    }

    #[test]
    fn a_read_ack_in_a_group_names_no_user_beside_it() {
        let ack = |peer| {
            ReadAck::try_from(proto::ReadAck {
                uid: 1,
                peer,
                device: 1,
                mid: None,
                gid: 3,
            })
        };
        assert!(ack(0).is_ok());
        assert_eq!(ack(2).unwrap_err().field, "peer");
    }
}

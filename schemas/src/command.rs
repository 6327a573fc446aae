//! Commands of producers: the values of `chat.inbound`, checked.

use prost::{DecodeError, Message as _};

use crate::{
    ChangeContact, ChangeGroup, ChangeMessage, CommandId, CommandScope, ConversationId, Partition,
    Profile, Recipient, WordVerdict,
    event::Body,
    fast_decoder,
    kind::CommandKind,
    proto::{self, inbound_command},
};

pub use crate::{
    kind::{control::Control, read_ack::ReadAck, send::SendMessage},
    malformed::Malformed,
};

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

/// What `$of_kind` is for the kind of a command, by static dispatch: a call through `dyn` also makes the compiler copy commands.
macro_rules! of_kind {
    ($command:expr, $kind:ident => $of_kind:expr) => {
        match $command {
            Self::Send($kind) => $of_kind,
            Self::ReadAck($kind) => $of_kind,
            Self::Control($kind) => $of_kind,
            Self::ChangeMessage($kind) => $of_kind,
            Self::ChangeContact($kind) => $of_kind,
            Self::ChangeGroup($kind) => $of_kind,
            Self::SetProfile($kind) => $of_kind,
        }
    };
}

impl Command {
    /// The command as its kind.
    #[must_use]
    pub fn kind(&self) -> &dyn CommandKind {
        of_kind!(self, kind => kind)
    }

    /// The command as its kind, mutable.
    pub fn kind_mut(&mut self) -> &mut dyn CommandKind {
        of_kind!(self, kind => kind)
    }

    /// The scope in which the command's id is unique.
    #[must_use]
    pub fn scope(&self) -> CommandScope {
        of_kind!(self, kind => kind.scope())
    }

    /// The conversation it belongs to; `None` for a profile and for control.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationId> {
        self.scope().conversation()
    }

    /// The partition that it belongs to; `None` for control, which belongs to every one.
    #[must_use]
    pub fn partition(&self) -> Option<Partition> {
        self.scope().partition()
    }

    /// The first rule version that has it.
    #[must_use]
    pub fn rule_version(&self) -> u32 {
        let in_group = matches!(self.scope().to, Some(Recipient::Group(_)));
        let of_kind = of_kind!(self, kind => kind.rule_version());
        of_kind.max(if in_group { 3 } else { 1 })
    }

    /// The first field, by its name in the `.proto` file, in which `body` differs from what this command asks for. `None` if `body` can be
    /// the answer to it. A read position may be below the one asked for, never above (PROTOCOL S4).
    #[must_use]
    pub fn mismatched_field(&self, body: &Body) -> Option<&'static str> {
        match (self, body) {
            (Self::Send(asked), Body::Message(found)) => asked.mismatch(found),
            (Self::ReadAck(asked), Body::ReadPosition(found)) => asked.mismatch(found),
            (Self::Control(asked), Body::Control(found)) => asked.mismatch(found),
            (Self::ChangeMessage(asked), Body::MessageChange(found)) => asked.mismatch(found),
            (Self::ChangeContact(asked), Body::ContactChange(found)) => asked.mismatch(found),
            (Self::ChangeGroup(asked), Body::GroupChange(found)) => asked.mismatch(found),
            (Self::SetProfile(asked), Body::Profile(found)) => asked.mismatch(found),
            _ => Some("the kind"),
        }
    }

    /// Parses a record's value. The id and the verdict of the word filter are dropped.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a command, or a field is outside what its docs allow.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        InboundValue::parse(value).map(|parsed| parsed.command)
    }

    /// The record's value, without an id and without a verdict of the word filter.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        InboundValue::from(self).encode()
    }

    /// What the command asks for, as bytes: equal for equal requests. Whether the author posted it is left out.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        let mut command = self.clone();
        command.kind_mut().set_by_user(false);
        command.encode()
    }
}

impl From<SendMessage> for Command {
    fn from(kind: SendMessage) -> Self {
        Self::Send(kind)
    }
}

impl From<ReadAck> for Command {
    fn from(kind: ReadAck) -> Self {
        Self::ReadAck(kind)
    }
}

impl From<ChangeMessage> for Command {
    fn from(kind: ChangeMessage) -> Self {
        Self::ChangeMessage(kind)
    }
}

impl From<ChangeContact> for Command {
    fn from(kind: ChangeContact) -> Self {
        Self::ChangeContact(kind)
    }
}

impl From<ChangeGroup> for Command {
    fn from(kind: ChangeGroup) -> Self {
        Self::ChangeGroup(kind)
    }
}

impl From<Profile> for Command {
    fn from(kind: Profile) -> Self {
        Self::SetProfile(kind)
    }
}

/// The value of a `chat.inbound` record: a command with what is said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundValue {
    /// The command.
    pub command: Command,
    /// The command's id as it was given, valid or not; empty if there is none. See [`Self::command_id`].
    pub id: String,
    /// What the word filter did with the text; `None` if nothing.
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
    /// [`Malformed`] if the bytes are not a command, or a field is outside what its docs allow.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        if let Some((send, words)) = fast_decoder::send(value) {
            return Ok(Self {
                words: words.map(WordVerdict::try_from).transpose()?,
                command: Command::Send(send.try_into()?),
                id: String::new(),
            });
        }
        let command = proto::InboundCommand::decode(value)
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

    /// The id by which a repeat is recognised (PROTOCOL S15); `None` if none is given, and for a send, which has a client_msg_id.
    ///
    /// # Errors
    /// [`Malformed`] if the id is not valid. Below rule version 4 callers ignore that.
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
/// prost's error, if the bytes are not an `IngestEvent`.
pub fn ingest_event(item: &[u8]) -> Result<proto::IngestEvent, DecodeError> {
    match fast_decoder::ingest_event(item) {
        Some(event) => Ok(event),
        None => proto::IngestEvent::decode(item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DeviceClass, Mid,
        event::{ReadPosition, Rules},
    };

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
            // Posted by the user, which is left out.
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

    fn mid(mid: i64) -> Mid {
        mid.try_into().unwrap()
    }

    fn ack(mid: Option<Mid>) -> Command {
        Command::ReadAck(ReadAck {
            uid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            device: DeviceClass::Pc,
            mid,
        })
    }

    fn position(device: DeviceClass) -> Body {
        Body::ReadPosition(ReadPosition {
            uid: 1.try_into().unwrap(),
            to: Recipient::User(2.try_into().unwrap()),
            device,
            mid: mid(5),
            ordinal: None,
        })
    }

    #[test]
    fn a_read_position_at_or_below_the_one_asked_for_matches() {
        let found = position(DeviceClass::Pc);
        for fits in [None, Some(mid(5)), Some(mid(9))] {
            assert_eq!(ack(fits).mismatched_field(&found), None, "{fits:?}");
        }
        assert_eq!(ack(Some(mid(4))).mismatched_field(&found), Some("mid"));
        let other = position(DeviceClass::Mobile);
        assert_eq!(ack(None).mismatched_field(&other), Some("device"));
        assert_eq!(
            ack(None).mismatched_field(&Body::Progress),
            Some("the kind")
        );
    }

    #[test]
    fn rules_match_where_all_that_was_asked_for_is_equal() {
        let asking = |max_msg_bytes| {
            Command::Control(Control {
                max_msg_bytes,
                ..Control::default()
            })
        };
        let rules = Rules::VERSION_1;
        let body = Body::Control(rules);
        assert_eq!(asking(None).mismatched_field(&body), None);
        let same = asking(Some(rules.max_msg_bytes));
        assert_eq!(same.mismatched_field(&body), None);
        let other = asking(Some(rules.max_msg_bytes + 1));
        assert_eq!(other.mismatched_field(&body), Some("max_msg_bytes"));
        let keyed = Command::Control(Control {
            hash_key: Some(vec![7; 16]),
            ..Control::default()
        });
        assert_eq!(keyed.mismatched_field(&body), None, "version 1 ignores it");
        let version_2 = |key: u8| {
            Body::Control(Rules {
                rule_version: 2,
                hash_key: Some([key; 16].into()),
                ..rules
            })
        };
        assert_eq!(keyed.mismatched_field(&version_2(7)), None);
        assert_eq!(keyed.mismatched_field(&version_2(8)), Some("hash_key"));
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

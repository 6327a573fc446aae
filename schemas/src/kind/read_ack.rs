//! A read-ack, and the read position that it moves up.

use crate::{
    Column, ConversationId, DeviceClass, Mid, Ordinal, Recipient, UserId,
    device::device_class,
    kind::{CommandKind, CommandScope, EventKind, Redrive, Retry, first_unequal, recipient_field},
    malformed::{Malformed, mid, ordinal_between_users, uid},
    proto,
};

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

    /// The first field in which the event differs from the command. The position may be lower, never higher (PROTOCOL S4).
    pub(crate) fn mismatch(&self, position: &ReadPosition) -> Option<&'static str> {
        first_unequal([
            ("uid", self.uid == position.uid),
            (recipient_field("peer", self.to), self.to == position.to),
            ("device", self.device == position.device),
            ("mid", self.mid.is_none_or(|mid| position.mid <= mid)),
        ])
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
    /// How many messages the other user had sent up to `mid`; `None` if the sequencer no longer knew (PROTOCOL R5), and in a group.
    pub ordinal: Option<Ordinal>,
}

impl ReadPosition {
    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.uid)
    }
}

impl ReadPosition {
    /// The columns of its table.
    pub const COLUMNS: &[Column<Self>] = crate::columns! {
        uid: User(|p| Some(p.uid)), "the reader";
        peer: User(|p| p.to.uid_or_gid().0), "the other user; null in a group";
        gid: Group(|p| p.to.uid_or_gid().1), "the group; null between two users";
        device: Word(|p| Some(p.device.as_str())), "pc or mobile";
        mid: Number(|p| Some(p.mid.get())), "the newest message read";
        n: Number(|p| p.ordinal.map(Ordinal::get)),
            "how many messages the other user had sent up to it; null if that was no longer known, and in a group";
    };
}

impl TryFrom<proto::ReadAck> for ReadAck {
    type Error = Malformed;

    fn try_from(ack: proto::ReadAck) -> Result<Self, Malformed> {
        Ok(Self {
            uid: uid("uid", ack.uid)?,
            to: Recipient::from_proto("peer", ack.peer, ack.gid)?,
            device: device_class(ack.device)?,
            mid: ack.mid.map(mid).transpose()?,
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

impl TryFrom<proto::ReadPositionMoved> for ReadPosition {
    type Error = Malformed;

    fn try_from(position: proto::ReadPositionMoved) -> Result<Self, Malformed> {
        Ok(Self {
            uid: uid("uid", position.uid)?,
            to: Recipient::from_proto("peer", position.peer, position.gid)?,
            device: device_class(position.device)?,
            mid: mid(position.mid)?,
            ordinal: ordinal_between_users(position.n, position.gid)?,
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
            n: position.ordinal.map(Ordinal::get),
            gid,
        }
    }
}

impl CommandKind for ReadAck {
    fn label(&self) -> &'static str {
        "read_ack"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.uid, self.to)
    }

    fn author_field(&self) -> &'static str {
        "uid"
    }

    fn rule_version(&self) -> u32 {
        1
    }

    fn set_by_user(&mut self, _by_user: bool) {}

    /// A position never falls, so an old one is safe.
    fn redrive(&self) -> Redrive {
        match self.mid {
            Some(mid) => Redrive::IfMessageExisted(mid),
            None => {
                Redrive::Never("it means all messages of its time, and would take in those since")
            }
        }
    }

    fn retry(&self) -> Retry {
        match self.mid {
            Some(_) => Retry::CommandId,
            None => Retry::CommandIdOfLatest,
        }
    }
}

impl EventKind for ReadPosition {
    fn label(&self) -> &'static str {
        "read_position"
    }

    fn scope(&self) -> CommandScope {
        CommandScope::of_conversation(self.uid, self.to)
    }

    fn is_for_author(&self) -> bool {
        true
    }

    fn extra_bytes(&self) -> usize {
        0
    }

    fn read_positions(&self) -> [Option<ReadPosition>; 2] {
        let is_between_users = matches!(self.to, Recipient::User(_));
        [is_between_users.then_some(*self), None]
    }
}

impl ReadPosition {
    /// The read positions of both device classes, if `uid` has read the conversation with `peer` up to `mid`. None in a note to oneself.
    pub(crate) fn of_both_classes(
        uid: UserId,
        peer: UserId,
        mid: Mid,
        ordinal: Option<Ordinal>,
    ) -> [Option<Self>; 2] {
        DeviceClass::ALL.map(|device| {
            (uid != peer).then_some(Self {
                uid,
                to: Recipient::User(peer),
                device,
                mid,
                ordinal,
            })
        })
    }
}

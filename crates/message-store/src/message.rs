use schemas::{
    Change, ChangeSeq, ClientMsgId, ConversationId, MessageChange, Mid, Ordinal, Reactions,
    Recipient, TimestampMs, UserId, event::Message, proto::ChangeKind,
};

/// A row of `chat_msg_<n>` or `group_msg_<n>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// The offset of the message's event in its partition of `chat.events`.
    pub id: i64,
    /// The event's time.
    pub ts: TimestampMs,
    /// The sender.
    pub srcid: UserId,
    /// The recipient, which determines the table.
    pub to: Recipient,
    /// The sender's own id of the send.
    pub client_msg_id: ClientMsgId,
    /// The newest text; empty once the message is recalled or deleted.
    pub msg: String,
    /// The message's number in the conversation: 1, 2, 3 …
    pub mid: Mid,
    /// The message's number among those of its sender; `None` in a group.
    pub ordinal: Option<Ordinal>,
    /// Whether the message is shown.
    pub state: MessageState,
    /// When the message was last edited. `None` if it never was, and once it is recalled or deleted.
    pub edited_ts: Option<TimestampMs>,
    /// The reactions to the message; none once it is recalled or deleted. Only changes write them.
    pub reactions: Reactions,
}

impl MessageRow {
    /// The row of an unchanged message.
    #[must_use]
    pub fn new(id: i64, ts: TimestampMs, message: Message) -> Self {
        Self {
            id,
            ts,
            srcid: message.srcid,
            to: message.to,
            client_msg_id: message.client_msg_id,
            msg: message.msg,
            mid: message.mid,
            ordinal: match message.to {
                Recipient::User(_) => Some(message.ordinal),
                Recipient::Group(_) => None,
            },
            state: MessageState::Shown,
            edited_ts: None,
            reactions: Reactions::new(),
        }
    }

    /// The conversation it belongs to.
    #[must_use]
    pub fn conversation(&self) -> ConversationId {
        self.to.conversation_with(self.srcid)
    }
}

/// Whether a message is shown. Once recalled or deleted it stays so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MessageState {
    /// With its text, edited or not.
    #[default]
    Shown,
    /// Without its text.
    Recalled,
    /// Not at all.
    Deleted,
}

impl MessageState {
    /// The state after a change; `None` if the change is not to the text.
    #[must_use]
    pub fn after(change: &Change) -> Option<Self> {
        match change {
            Change::Edit(_) => Some(Self::Shown),
            Change::Recall => Some(Self::Recalled),
            Change::Delete => Some(Self::Deleted),
            Change::Hide | Change::Clear | Change::React(_) => None,
        }
    }

    pub(crate) fn to_column(self) -> i8 {
        match self {
            Self::Shown => 0,
            Self::Recalled => 1,
            Self::Deleted => 2,
        }
    }

    pub(crate) fn from_column(value: i8) -> Option<Self> {
        let all = [Self::Shown, Self::Recalled, Self::Deleted];
        all.into_iter().find(|state| state.to_column() == value)
    }
}

/// A change to a message, or to what a user sees of a conversation, with its offset in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRow {
    /// The offset of the change's event in its partition of `chat.events`.
    pub id: i64,
    /// The event's time.
    pub ts: TimestampMs,
    /// The conversation.
    pub conversation: ConversationId,
    /// The user who made the change: between two users, the sender of the message, for a hide or clear the user who no longer sees it, or the user
    /// who reacted.
    pub by: UserId,
    /// The message.
    pub mid: Mid,
    /// The change itself.
    pub change: Change,
    /// The number of the change in the conversation; 0 if it has none.
    pub change_seq: ChangeSeq,
}

impl ChangeRow {
    /// The row of a change.
    #[must_use]
    pub fn new(id: i64, ts: TimestampMs, change: MessageChange) -> Self {
        Self {
            id,
            ts,
            conversation: change.conversation(),
            by: change.by,
            mid: change.mid,
            change: change.change,
            change_seq: change.change_seq,
        }
    }

    pub(crate) fn number(&self) -> i64 {
        number(self.change_seq, self.id)
    }
}

/// The column `chg` of `msg_change_<n>`. A change without a number has its negative offset there, which is unique in the conversation.
fn number(change_seq: ChangeSeq, id: i64) -> i64 {
    if change_seq == ChangeSeq::ZERO {
        -id
    } else {
        change_seq.get()
    }
}

/// A row of `msg_change_<n>`. It has no text: the text of an edit is in `chat_msg_<n>` or `group_msg_<n>` only, so that a recalled text is nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChange {
    /// The conversation.
    pub conversation: ConversationId,
    /// The number of the change in the conversation; 0 if it has none.
    pub change_seq: ChangeSeq,
    /// The message.
    pub mid: Mid,
    /// The user who made the change.
    pub by: UserId,
    /// What kind of change it was.
    pub kind: ChangeKind,
    /// The time of the change's event.
    pub ts: TimestampMs,
    /// The offset of the change's event.
    pub id: i64,
    /// For an edit: the message's newest text, possibly that of a later edit. `None` if the message was recalled since or is gone, for other kinds of
    /// change, and in scans.
    pub msg: Option<String>,
}

impl StoredChange {
    /// The stored part of a change.
    #[must_use]
    pub fn of(row: &ChangeRow) -> Self {
        Self {
            conversation: row.conversation,
            change_seq: row.change_seq,
            mid: row.mid,
            by: row.by,
            kind: row.change.kind_in_proto(),
            ts: row.ts,
            id: row.id,
            msg: None,
        }
    }

    /// The position of the row in its conversation: `chg`; without a `chg`, a negative number that is the lower the later the change.
    #[must_use]
    pub fn number(&self) -> i64 {
        number(self.change_seq, self.id)
    }
}

//! The datasets: which events each has a row of, and the columns that are not a kind's own.

use std::{fmt, str::FromStr};

use schemas::{
    Change, ChangeSeq, Column, ContactChange, ConversationId, GroupChange, MessageChange, Mid,
    Partition, Profile, UserId,
    event::{Body, Event, Message, ReadPosition},
};

use crate::columns::{ColumnGroup, Columns};

/// A table of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dataset {
    /// Messages, each in its newest state.
    Messages,
    /// Changes to messages: recalls, edits, reactions, what users hide.
    Changes,
    /// Read positions that moved up.
    ReadPositions,
    /// Changes of groups and their members.
    Groups,
    /// What users say about their contacts.
    Contacts,
    /// Profiles that were set.
    Profiles,
    /// All events, without what they say.
    Events,
}

impl Dataset {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Messages,
        Self::Changes,
        Self::ReadPositions,
        Self::Groups,
        Self::Contacts,
        Self::Profiles,
        Self::Events,
    ];

    /// Its name: that of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Changes => "changes",
            Self::ReadPositions => "read-positions",
            Self::Groups => "groups",
            Self::Contacts => "contacts",
            Self::Profiles => "profiles",
            Self::Events => "events",
        }
    }

    /// Whether it has a row of this event.
    pub(crate) fn has(self, body: &Body) -> bool {
        let own = match body {
            Body::Message(_) => Self::Messages,
            Body::MessageChange(_) => Self::Changes,
            Body::ReadPosition(_) => Self::ReadPositions,
            Body::GroupChange(_) => Self::Groups,
            Body::ContactChange(_) => Self::Contacts,
            Body::Profile(_) => Self::Profiles,
            Body::Control(_) | Body::Progress => Self::Events,
        };
        self == own || self == Self::Events
    }

    /// The columns after the event's position and time.
    pub(crate) fn column_groups(self) -> Vec<Box<dyn ColumnGroup>> {
        macro_rules! own_columns {
            ($kind:ident, $body:ident) => {
                Columns::boxed($kind::COLUMNS, |row| match &row.event.body {
                    Body::$body(own) => Some(own),
                    _ => None,
                })
            };
        }
        let of_row = |columns| Columns::boxed(columns, |row: &Row| Some(row));
        match self {
            Self::Messages => vec![own_columns!(Message, Message), of_row(STATE_COLUMNS)],
            Self::Changes => vec![own_columns!(MessageChange, MessageChange)],
            Self::ReadPositions => vec![own_columns!(ReadPosition, ReadPosition)],
            Self::Groups => vec![own_columns!(GroupChange, GroupChange)],
            Self::Contacts => vec![own_columns!(ContactChange, ContactChange)],
            Self::Profiles => vec![own_columns!(Profile, Profile)],
            Self::Events => vec![of_row(EVENT_COLUMNS)],
        }
    }

    /// Whether a row depends on later changes to its message: its text depends on a recall, and a row of [`Self::Messages`] on all of the message's state.
    pub(crate) fn has_texts_of_messages(self) -> bool {
        matches!(self, Self::Messages | Self::Changes)
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dataset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.map(Self::name).into();
            format!("must be one of {}", names.join(", "))
        })
    }
}

/// An event and its place in `chat.events`, with what became of its message.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) partition: Partition,
    pub(crate) offset: i64,
    pub(crate) event: Event,
    pub(crate) state: MessageState,
}

impl Row {
    /// The message that the row is about, if the dataset shows its text.
    pub(crate) fn message(&self) -> Option<(ConversationId, Mid)> {
        match &self.event.body {
            Body::Message(message) => Some((message.conversation(), message.mid)),
            Body::MessageChange(change) => Some((change.conversation(), change.mid)),
            _ => None,
        }
    }

    /// About how many bytes it takes until it is written.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.event.body.extra_bytes()
    }

    /// Takes a later change to the same message.
    pub(crate) fn change(&mut self, change: &MessageChange) {
        let state = &mut self.state;
        match &change.change {
            Change::Recall | Change::Delete => state.recalled = Some(change.change.kind()),
            Change::Edit(text) => {
                state.edited = true;
                if let Body::Message(message) = &mut self.event.body {
                    message.msg.clone_from(text);
                }
            }
            Change::React(emoji) => {
                state.reactions.retain(|(uid, _)| *uid != change.by);
                if !emoji.is_empty() {
                    state.reactions.push((change.by, emoji.clone()));
                }
            }
            Change::Hide | Change::Clear => return,
        }
        state.change_seq = change.change_seq;
    }
}

/// What later changes have made of a message.
#[derive(Debug, Default)]
pub(crate) struct MessageState {
    pub(crate) edited: bool,
    /// `recall` or `delete`.
    pub(crate) recalled: Option<&'static str>,
    pub(crate) change_seq: ChangeSeq,
    /// In the order in which they were set.
    pub(crate) reactions: Vec<(UserId, String)>,
}

/// The columns of messages besides the kind's own.
pub(crate) const STATE_COLUMNS: &[Column<Row>] = schemas::columns! {
    edited: Flag(|row| row.state.edited), "the text was edited";
    recalled: Word(|row| row.state.recalled), "recall or delete if the message was; null otherwise";
    chg: Number(|row| Some(row.state.change_seq.get()).filter(|chg| *chg > 0)),
        "the number of the newest change to the message among the changes of the conversation; null if there is none";
    reaction_uids: Users(|row| row.state.reactions.iter().map(|(uid, _)| *uid).collect()), "the users whose reactions stand";
    reactions: Words(|row| row.state.reactions.iter().map(|(_, emoji)| emoji.as_str()).collect()),
        "their emojis, in the same order";
    words: Word(|row| row.event.words.map(|words| if words.masked { "masked" } else { "flagged" })),
        "what the word filter did with the text as it was sent: masked or flagged; null if nothing";
};

/// The columns of all events.
pub(crate) const EVENT_COLUMNS: &[Column<Row>] = schemas::columns! {
    kind: Word(|row| Some(row.event.body.label())),
        "message, message_change, read_position, contact_change, group_change, profile, control or progress";
    author: User(|row| row.event.body.scope()?.author), "the user whose command it answers; null of control and progress";
    peer: User(|row| row.event.body.scope()?.to?.uid_or_gid().0), "the other user of the conversation; null otherwise";
    gid: Group(|row| row.event.body.scope()?.to?.uid_or_gid().1), "the group; null otherwise";
    command_id: ChosenId(|row| match &row.event.body {
        Body::Message(message) => Some(message.client_msg_id.as_str()),
        _ => row.event.command.as_ref().map(|command| command.id.as_str()),
    }),
        "the id by which a repeat of the command is recognised: the client_msg_id of a message; null if there is none";
    inbound_epoch: Number(|row| Some(row.event.src.offset.epoch.into())),
        "the epoch of the record of chat.inbound that caused it";
    inbound_offset: Number(|row| Some(row.event.src.offset.offset)),
        "the offset of that record, in the same partition; -1 is before the first";
};

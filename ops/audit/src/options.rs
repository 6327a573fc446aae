use std::{fmt, time::Duration};

use event_log::KafkaConfig;
use message_store::MessageStore;
use schemas::{ConversationId, DirectConversation, GroupId, Partition, UserId};
use serde::Serialize;
use unread_store::UnreadStore;

/// The log and the stores that are compared with it.
pub struct Sources {
    /// The log.
    pub kafka: KafkaConfig,
    /// MySQL.
    pub messages: MessageStore,
    /// Redis.
    pub unread: UnreadStore,
}

/// How an audit compares.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much it compares.
    pub scope: Scope,
    /// How long to wait for the sequencer, and then for the projections; `None` compares only up to the slowest projection.
    pub wait: Option<Duration>,
    /// How many examples of differences each area names.
    pub examples: usize,
    /// How long to wait before values that look wrong are read a second time.
    pub pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scope: Scope::All,
            wait: Some(Duration::from_secs(120)),
            examples: 10,
            pause: Duration::from_secs(2),
        }
    }
}

/// How much is compared. The log of a partition is always checked as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    #[default]
    All,
    /// One conversation, for both of its users.
    Conversation(DirectConversation),
    /// One user, in all conversations; in groups only the user's membership, not the messages of others.
    User(UserId),
}

impl Scope {
    /// The partitions of the log that have to be read.
    pub(crate) fn partitions(self) -> Vec<Partition> {
        match self {
            Self::Conversation(conversation) => vec![conversation.partition()],
            Self::All | Self::User(_) => Partition::all().collect(),
        }
    }

    /// Whether the messages of a conversation are compared.
    pub(crate) fn has_conversation(self, conversation: DirectConversation) -> bool {
        match self {
            Self::All => true,
            Self::Conversation(one) => one == conversation,
            Self::User(uid) => conversation.has(uid),
        }
    }

    pub(crate) fn has(self, conversation: ConversationId) -> bool {
        match conversation {
            ConversationId::Direct(id) => self.has_conversation(id),
            ConversationId::Group(gid) => self.has_group(gid),
        }
    }

    /// Whether a group and its messages are compared.
    pub(crate) fn has_group(self, _: GroupId) -> bool {
        self == Self::All
    }

    /// Whether the values of a user in a group are compared.
    pub(crate) fn has_member(self, gid: GroupId, uid: UserId) -> bool {
        self == Self::User(uid) || self.has_group(gid)
    }

    /// Whether what `uid` sees of `peer` is compared.
    pub(crate) fn has_contact(self, uid: UserId, peer: UserId) -> bool {
        match self {
            Self::All => true,
            Self::Conversation(one) => one == DirectConversation::new(uid, peer),
            Self::User(one) => one == uid,
        }
    }

    /// The only users that are compared; `None` for all.
    pub(crate) fn users(self) -> Option<Vec<UserId>> {
        match self {
            Self::All => None,
            Self::Conversation(one) => Some(one.users().collect()),
            Self::User(uid) => Some(vec![uid]),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("everything"),
            Self::Conversation(one) => write!(f, "conversation {one}"),
            Self::User(uid) => write!(f, "user {uid}"),
        }
    }
}

impl Serialize for Scope {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What an audit is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The ends of the log have been read: they fix how much is compared.
    Fixed {
        /// Events, repeats and progress records included.
        events: i64,
    },
    /// A projection has yet to pass the ends.
    Waiting { what: String },
    /// A partition is folded, and its messages are compared.
    Partition { done: usize, of: usize },
    /// Something is compared.
    Comparing { what: &'static str },
    /// Values that looked wrong are read a second time.
    SecondLook { values: usize },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { events } => write!(f, "the log's ends are fixed: {events} events"),
            Self::Waiting { what } => write!(f, "waiting: {what}"),
            Self::Partition { done, of } => write!(f, "partition {done} of {of}"),
            Self::Comparing { what } => write!(f, "comparing {what}"),
            Self::SecondLook { values } => write!(f, "looking again at {values} values"),
        }
    }
}

#![doc = include_str!("../README.md")]

mod batch;
pub mod device;
mod endpoints;
mod error;
mod events;
mod groups;
mod http;
mod line;
mod outcome;
mod profiles;
mod queries;
mod query;
mod retry;
mod sync;

pub use api::{
    AcceptedBody, ChangeItem, ChangesAfter, ChangesPage, ConversationItem, ConversationsPage,
    DeviceItem, Flags, GroupAnswer, GroupItem, GroupMembersPage, GroupsPage, InboundOutcome,
    MemberItem, MessageItem, MessagesPage, NextMessages, Outcome, OwnProfile, ProfileItem,
    ProfileItems, RawJson, SyncAnswer, SyncedConversation,
};
pub use batch::{AcceptedLine, Batch, LineResult, LineResults, RejectedLine};
pub use error::{ClientError, FieldError, Problem};
pub use events::{line, message, message_to, new_client_msg_id};
pub use groups::{GroupsQuery, MembersQuery};
pub use http::{Builder, Client};
pub use queries::{ChangesQuery, ConversationsQuery, MessagesQuery, Order, ReadOptions, Unread};
pub use query::Query;
pub use retry::Retry;

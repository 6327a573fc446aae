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
mod retry;
mod sync;

pub use api::{
    AcceptedBody, ChangeItem, ChangesAfter, ChangesPage, ContactChangeBody, ConversationItem,
    ConversationsPage, DeviceItem, Flags, GroupAnswer, GroupBody, GroupChangeBody, GroupItem,
    GroupMembersPage, GroupsPage, InboundOutcome, MemberItem, MessageBody, MessageChangeBody,
    MessageItem, MessagesPage, MuteBody, NextMessages, Object, OptionsBody, Outcome, ProfileItem,
    ProfileItems, RawJson, ReadAckBody, RoleBody, SyncAnswer, SyncedConversation,
};
pub use batch::{AcceptedLine, Batch, LineResult, LineResults, RejectedLine};
pub use error::{ClientError, FieldError, Problem};
pub use events::{line, message, message_to, new_client_msg_id, new_command_id};
pub use groups::{GroupsQuery, MembersQuery};
pub use http::{Builder, Client};
pub use queries::{ChangesQuery, ConversationsQuery, MessagesQuery, Order, ReadOptions, Unread};
pub use retry::Retry;

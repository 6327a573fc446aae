#![doc = include_str!("../README.md")]

mod batch;
pub mod device;
mod endpoints;
mod error;
mod events;
mod group_json;
mod groups;
mod http;
mod line;
mod outcome;
mod profiles;
mod queries;
mod retry;
mod sync;

pub use batch::{AcceptedLine, Batch, LineResult, LineResults, RejectedLine};
pub use error::{ClientError, FieldError, Problem};
pub use events::{Accepted, line, message, message_to, new_client_msg_id};
pub use groups::{Group, Groups, GroupsQuery, ListedGroup, Member, Members, MembersQuery};
pub use http::{Builder, Client};
pub use outcome::{InboundOutcome, Outcome};
pub use profiles::UserProfile;
pub use queries::{
    Change, Changes, ChangesAfter, ChangesQuery, Conversation, Conversations, ConversationsQuery,
    Flags, Message, Messages, MessagesQuery, Order, ReadOptions, Unread,
};
pub use retry::Retry;
pub use sync::{OwnProfile, SyncAnswer, SyncedConversation, UserDevice};

#![doc = include_str!("../README.md")]

mod accepted;
mod contact;
mod conversation;
mod device;
mod event;
mod fields;
mod from_device;
mod from_gateway;
mod group;
mod group_change;
mod inbound;
mod message;
mod message_change;
mod profile;
mod read_ack;
mod sync;
mod unread;
mod values;

pub use accepted::AcceptedBody;
pub use contact::{ContactChangeBody, ContactEvent, Flags};
pub use conversation::{ConversationItem, ConversationsPage};
pub use device::{DeviceItem, Devices};
pub use event::{EventBody, EventFrame, FramedEvent};
pub use from_device::{
    ClientFrame, Device, FocusFrame, Hello, ReadFrame, Resume, SendFrame, Since, TypingFrame,
};
pub use from_gateway::{HeadFrame, PresenceBody, ServerFrame};
pub use group::{GroupAnswer, GroupItem, GroupMembersPage, GroupsPage, MemberItem};
pub use group_change::{
    GroupBody, GroupCall, GroupChangeBody, GroupChangeEvent, MEMBERS_IN_FRAME, MemberEvent,
    MuteBody, OptionsBody, RoleBody,
};
pub use inbound::{InboundOutcome, Outcome, Reader};
pub use message::{MessageBody, MessageEvent, MessageItem, MessagesPage, NextMessages};
pub use message_change::{ChangeEvent, ChangeItem, ChangesAfter, ChangesPage, MessageChangeBody};
pub use profile::{
    ProfileBody, ProfileEvent, ProfileItem, ProfileItems, Profiles, UserProfile, UserProfileBody,
};
pub use read_ack::{ReadAckBody, ReadEvent};
pub use sync::{OwnProfile, SyncAnswer, SyncedConversation};
pub use unread::UnreadAnswer;
pub use values::{Object, RawJson, ShortText, utc};

//! A line of a batch, and an event as it happens.

use schemas::{
    EventPosition, UserId,
    command::Command,
    event::{Body, Event},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    contact::{ContactChangeBody, ContactEvent},
    group_change::{GroupBody, GroupCall, GroupChangeBody, GroupChangeEvent},
    message::{MessageBody, MessageEvent},
    message_change::{ChangeEvent, MessageChangeBody},
    profile::{ProfileEvent, UserProfileBody},
    read_ack::{ReadAckBody, ReadEvent},
    values::{At, Object},
};

/// One line of a batch: exactly one of the seven.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventBody {
    /// A text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MessageBody>)]
    pub message: Option<Object<MessageBody>>,
    /// A read position.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReadAckBody>)]
    pub read_ack: Option<Object<ReadAckBody>>,
    /// A change to a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MessageChangeBody>)]
    pub message_change: Option<Object<MessageChangeBody>>,
    /// A change to a contact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ContactChangeBody>)]
    pub contact_change: Option<Object<ContactChangeBody>>,
    /// A profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<UserProfileBody>)]
    pub profile: Option<Object<UserProfileBody>>,
    // Rare and large: in a box they do not make the others' lines more expensive to read.
    /// A group that begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<GroupBody>)]
    pub group: Option<Box<Object<GroupBody>>>,
    /// A change of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<GroupChangeBody>)]
    pub group_change: Option<Box<Object<GroupChangeBody>>>,
}

impl From<&Command> for EventBody {
    /// Of a control it has nothing: operators append controls themselves.
    fn from(command: &Command) -> Self {
        let mut body = Self::default();
        match command {
            Command::Send(send) => body.message = Some(Object(send.into())),
            Command::ReadAck(ack) => body.read_ack = Some(Object(ack.into())),
            Command::ChangeMessage(change) => body.message_change = Some(Object(change.into())),
            Command::ChangeContact(change) => body.contact_change = Some(Object(change.into())),
            Command::SetProfile(profile) => body.profile = Some(Object(profile.into())),
            Command::ChangeGroup(change) => match change.into() {
                GroupCall::Begin(group) => body.group = Some(Box::new(Object(group))),
                GroupCall::Change(change) => body.group_change = Some(Box::new(Object(*change))),
            },
            Command::Control(_) => {}
        }
        body
    }
}

/// Something has happened. The device's token moves behind `at`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(from = "EventMembers<'static>")]
pub struct EventFrame<'a> {
    /// Its position in `chat.events`.
    #[schema(value_type = At)]
    pub at: EventPosition,
    /// None concerns a device without one.
    #[serde(flatten)]
    #[schema(value_type = FramedEvent)]
    pub body: Option<FramedEvent<'a>>,
}

/// What has happened, by the name of its member.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FramedEvent<'a> {
    Message(MessageEvent<'a>),
    ReadPosition(ReadEvent),
    MessageChange(ChangeEvent<'a>),
    GroupChange(GroupChangeEvent<'a>),
    ContactChange(ContactEvent),
    Profile(ProfileEvent<'a>),
}

/// As a frame is read, of which a later version may have other members: what is flattened could not have JSON as it was written.
#[derive(Deserialize)]
struct EventMembers<'a> {
    at: EventPosition,
    message: Option<MessageEvent<'a>>,
    read_position: Option<ReadEvent>,
    message_change: Option<ChangeEvent<'a>>,
    group_change: Option<GroupChangeEvent<'a>>,
    contact_change: Option<ContactEvent>,
    profile: Option<ProfileEvent<'a>>,
}

impl<'a> From<EventMembers<'a>> for EventFrame<'a> {
    fn from(members: EventMembers<'a>) -> Self {
        let message = members.message.map(FramedEvent::Message);
        let read = members.read_position.map(FramedEvent::ReadPosition);
        let message_change = members.message_change.map(FramedEvent::MessageChange);
        let group_change = members.group_change.map(FramedEvent::GroupChange);
        let contact_change = members.contact_change.map(FramedEvent::ContactChange);
        let profile = members.profile.map(FramedEvent::Profile);
        Self {
            at: members.at,
            body: message
                .or(read)
                .or(message_change)
                .or(group_change)
                .or(contact_change)
                .or(profile),
        }
    }
}

impl<'a> EventFrame<'a> {
    /// The frame of an event, for any user, or for one whom a change of a group names.
    #[must_use]
    pub fn new(at: EventPosition, event: &'a Event, named: Option<UserId>) -> Self {
        let body = match &event.body {
            Body::Message(message) => {
                Some(FramedEvent::Message(MessageEvent::new(message, event.ts)))
            }
            Body::ReadPosition(read) => Some(FramedEvent::ReadPosition(ReadEvent::new(read))),
            Body::MessageChange(change) => {
                let change = ChangeEvent::new(change, event.ts);
                Some(FramedEvent::MessageChange(change))
            }
            Body::GroupChange(change) => {
                let change = GroupChangeEvent::new(change, named);
                Some(FramedEvent::GroupChange(change))
            }
            Body::ContactChange(change) => {
                Some(FramedEvent::ContactChange(ContactEvent::new(change)))
            }
            Body::Profile(profile) => Some(FramedEvent::Profile(ProfileEvent::new(profile))),
            Body::Control(_) | Body::Progress => None,
        };
        Self { at, body }
    }
}

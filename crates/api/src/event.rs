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
    group_change::{GroupBody, GroupCall, GroupChangeBody, GroupChangeEvent, MEMBERS_IN_FRAME},
    message::{MessageBody, MessageEvent},
    message_change::{ChangeEvent, MessageChangeBody, ReactionBody},
    profile::{ProfileEvent, UserProfileBody},
    read_ack::{ReadAckBody, ReadEvent},
    values::{At, Object, RawJson},
};

/// One line of a batch: exactly one of its members.
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
    // Rarer than messages and read-acks: in a box they do not make the lines of those more expensive to read.
    /// A change to a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MessageChangeBody>)]
    pub message_change: Option<Box<Object<MessageChangeBody>>>,
    /// A reaction to a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReactionBody>)]
    pub reaction: Option<Box<Object<ReactionBody>>>,
    /// A change to a contact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ContactChangeBody>)]
    pub contact_change: Option<Box<Object<ContactChangeBody>>>,
    /// A profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<UserProfileBody>)]
    pub profile: Option<Box<Object<UserProfileBody>>>,
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
            Command::ChangeMessage(change) => match ReactionBody::of(change) {
                Some(reaction) => body.reaction = Some(Box::new(Object(reaction))),
                None => body.message_change = Some(Box::new(Object(change.into()))),
            },
            Command::ChangeContact(change) => {
                body.contact_change = Some(Box::new(Object(change.into())));
            }
            Command::SetProfile(profile) => body.profile = Some(Box::new(Object(profile.into()))),
            Command::ChangeGroup(change) => match change.into() {
                GroupCall::Begin(group) => body.group = Some(Box::new(Object(group))),
                GroupCall::Change(change) => body.group_change = Some(Box::new(Object(*change))),
            },
            Command::Control(_) => {}
        }
        body
    }
}

/// The call that posts one command.
#[derive(Clone, Debug)]
pub struct Call {
    /// It is a PUT; otherwise it is a POST.
    pub is_put: bool,
    /// Its path at ingest.
    pub path: String,
    /// Its body.
    pub body: RawJson,
}

impl Call {
    fn post(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self {
            is_put: false,
            path: path.into(),
            body: RawJson::of(body),
        }
    }
}

impl EventBody {
    /// The call that posts the same by itself; `None` if the line has no member, or a change of a group without a gid.
    #[must_use]
    pub fn into_call(self) -> Option<Call> {
        let Self {
            message,
            read_ack,
            message_change,
            reaction,
            contact_change,
            profile,
            group,
            group_change,
        } = self;
        let all = [
            message.map(|body| Call::post("/v1/messages", &body)),
            read_ack.map(|body| Call::post("/v1/read-acks", &body)),
            message_change.map(|body| Call::post("/v1/message-changes", &body)),
            reaction.map(|body| Call::post("/v1/reactions", &body)),
            contact_change.map(|body| Call::post("/v1/contact-changes", &body)),
            profile.map(|body| Call {
                is_put: true,
                ..Call::post(
                    format!("/v1/users/{}/profile", body.0.uid),
                    &body.0.without_user(),
                )
            }),
            group.map(|body| Call::post("/v1/groups", &body)),
            group_change.and_then(|body| {
                let path = format!("/v1/groups/{}/changes", body.0.gid?);
                Some(Call::post(path, &body))
            }),
        ];
        all.into_iter().flatten().next()
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

    /// The most bytes that the frame of an event has: its texts in JSON, and at most this much besides. A test of the gateway compares it with frames.
    #[must_use]
    pub fn max_bytes(event: &Event) -> usize {
        match &event.body {
            Body::Message(message) => {
                230 + json_bytes(&message.msg) + json_bytes(message.client_msg_id.as_str())
            }
            Body::ReadPosition(_) => 190,
            Body::MessageChange(change) => 255 + json_bytes(change.change.content()),
            Body::ContactChange(_) => 255,
            Body::Profile(profile) => {
                let avatar = profile.avatar.as_deref().map_or(0, json_bytes);
                // JSON already.
                let extra = profile.extra.as_ref().map_or(0, String::len);
                120 + json_bytes(&profile.nick) + avatar + extra
            }
            Body::GroupChange(change) => {
                let members = change.members.len().min(MEMBERS_IN_FRAME);
                360 + json_bytes(&change.settings.name) + 76 * members
            }
            Body::Control(_) | Body::Progress => 0,
        }
    }
}

/// At least the length of a text in JSON, without quotes.
fn json_bytes(text: &str) -> usize {
    let length = |byte| match byte {
        b'"' | b'\\' => 2,
        ..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

#[cfg(test)]
mod tests {
    use schemas::{
        Change, ChangeContact, ChangeGroup, ChangeMessage, CreateGroup, DeviceClass, GroupAction,
        GroupId, GroupRole, Mid, Profile, Recipient, SetGroupOptions,
        command::{ReadAck, SendMessage},
    };

    use super::*;

    fn user(uid: i64) -> UserId {
        uid.try_into().unwrap()
    }

    fn recipients() -> [Recipient; 2] {
        let gid = GroupId::try_from(5000).unwrap();
        [Recipient::User(user(1001)), Recipient::Group(gid)]
    }

    fn messages() -> Vec<Command> {
        let mid = Mid::ZERO.next();
        let mut all = Vec::new();
        for to in recipients() {
            all.push(Command::Send(SendMessage {
                srcid: user(1000),
                to,
                client_msg_id: "a".to_owned().try_into().unwrap(),
                msg: "hello".to_owned(),
                by_user: false,
            }));
            all.extend([None, Some(mid)].map(|mid| {
                Command::ReadAck(ReadAck {
                    uid: user(1000),
                    to,
                    device: DeviceClass::Mobile,
                    mid,
                })
            }));
            let edit = Change::Edit("new".to_owned());
            let changes = [
                edit,
                Change::React("👍".to_owned()),
                Change::React(String::new()),
                Change::Recall,
                Change::Delete,
                Change::Hide,
                Change::Clear,
            ];
            all.extend(changes.map(|change| {
                Command::ChangeMessage(ChangeMessage {
                    by: user(1000),
                    to,
                    mid,
                    change,
                })
            }));
        }
        all
    }

    fn groups() -> Vec<Command> {
        let create = |client_id: Option<&str>| {
            GroupAction::Create(CreateGroup {
                name: "Lunch".to_owned(),
                members: vec![user(1001)],
                open: true,
                whole_history: false,
                client_id: client_id.map(str::to_owned),
            })
        };
        let options = SetGroupOptions {
            open: None,
            whole_history: Some(true),
        };
        let by = user(1000);
        let actions = [
            create(None),
            create(Some("a")),
            GroupAction::Add(vec![user(7)]),
            GroupAction::Remove(vec![user(7)]),
            GroupAction::Join,
            GroupAction::Leave,
            GroupAction::SetRole {
                uid: user(7),
                role: GroupRole::Admin,
            },
            GroupAction::Rename("Tea".to_owned()),
            GroupAction::Mute(None),
            GroupAction::Mute(Some(user(7))),
            GroupAction::Unmute(None),
            GroupAction::SetOptions(options),
            GroupAction::Dissolve,
        ];
        let change = |action: GroupAction| {
            let gid = match &action {
                GroupAction::Create(CreateGroup {
                    client_id: Some(id),
                    ..
                }) => GroupId::of_owner(by, id),
                _ => GroupId::try_from(5000).unwrap(),
            };
            Command::ChangeGroup(ChangeGroup {
                gid,
                by,
                by_user: false,
                action,
            })
        };
        actions.into_iter().map(change).collect()
    }

    fn of_users() -> Vec<Command> {
        let contact = ChangeContact {
            uid: user(1000),
            peer: user(1001),
            favourite: Some(true),
            pinned: Some(false),
            muted: None,
            blocked: None,
            deleted: true,
            by_user: false,
        };
        let profile = Profile {
            uid: user(1000),
            nick: "Ann".to_owned(),
            avatar: None,
            extra: Some(r#"{ "n": 1.50 }"#.to_owned()),
        };
        vec![
            Command::ChangeContact(contact),
            Command::SetProfile(profile),
        ]
    }

    fn command(body: EventBody) -> Command {
        if let Some(Object(body)) = body.message {
            Command::Send(body.into_command().unwrap().0)
        } else if let Some(Object(body)) = body.read_ack {
            Command::ReadAck(body.into_command().unwrap())
        } else if let Some(body) = body.message_change {
            Command::ChangeMessage(body.0.into_command().unwrap())
        } else if let Some(body) = body.reaction {
            Command::ChangeMessage(body.0.into_command().unwrap())
        } else if let Some(body) = body.contact_change {
            Command::ChangeContact(body.0.into_command().unwrap())
        } else if let Some(body) = body.profile {
            Command::SetProfile(body.0.into_command())
        } else if let Some(body) = body.group {
            Command::ChangeGroup(body.0.into_command().unwrap())
        } else {
            Command::ChangeGroup(body.group_change.unwrap().0.into_command().unwrap())
        }
    }

    #[test]
    fn the_body_of_a_command_makes_that_command() {
        for posted in [messages(), groups(), of_users()].concat() {
            let line = serde_json::to_string(&EventBody::from(&posted)).unwrap();
            let read: EventBody = serde_json::from_str(&line).unwrap();
            assert_eq!(command(read), posted, "{line}");
        }
    }
}

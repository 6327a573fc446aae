use schemas::{
    DeviceClass, GroupChange, GroupId, GroupMember, Ordinal, Recipient, UserId,
    event::{Body, Event},
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::values::{At, Id, Time};
use crate::hub::{Head, MEMBERS_IN_FRAME, RingEvent};

/// A frame to the device.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerFrame<'a> {
    /// The stream begins, with what the device missed: `resumed` is true, since who cannot resume has to sync. A ping comes at the latest every
    /// `ping_seconds`: a device that hears nothing for longer, and some seconds, has lost its connection.
    Welcome {
        resumed: bool,
        token: &'a str,
        /// Frames a second that the user's devices may send together, in the long run, and for ten seconds' worth at once; beyond it they are
        /// closed (4003).
        frames_per_s: u32,
        /// Bytes a second, likewise.
        bytes_per_s: u32,
        ping_seconds: u32,
    },
    /// The device has to sync over HTTP, in so many milliseconds at the earliest, and then to say `resume`. The token is the one that was kept for a
    /// device that has none: it syncs from there. Pings come as after `welcome`.
    SyncRequired {
        after_ms: u64,
        ping_seconds: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<&'a str>,
    },
    /// A send or a read is on `chat.inbound`, at this position.
    Accepted {
        #[serde(rename = "ref")]
        reference: &'a str,
        at: At,
    },
    /// A send has its number. A repeat has that of the first one, which is not said where that was long ago.
    Sent {
        #[serde(rename = "ref")]
        reference: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mid: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ts: Option<Time>,
    },
    /// A send or a read is not done, for this reason. With `retry` it may be sent again, the same with the same `client_msg_id`.
    Refused {
        #[serde(rename = "ref")]
        reference: &'a str,
        /// For good: `invalid-field`, `unprocessable-field` (words that are not taken), `forbidden`; or as decided on the log: `malformed`, `too-large`,
        /// `conflict` (the `client_msg_id` is of another message), `too-many-conversations`, `blocked`, `unknown-group`, `not-a-member`, `muted`,
        /// `dissolved`. For the moment, with `retry`: `too-many-under-way`, `too-many-requests`, `rate-limited`, `unavailable`, `unknown-outcome`,
        /// `internal`. A later version may have others.
        reason: &'a str,
        detail: &'a str,
        #[serde(skip_serializing_if = "is_false")]
        #[schema(value_type = Option<bool>)]
        retry: bool,
    },
    /// What the device sent is no frame, nor a send or a read whose `ref` can be read, which is refused; the connection goes on, but for a first
    /// frame that is no `hello`.
    Error {
        detail: &'a str,
    },
    /// A token that covers everything before it; none before the stream begins. The device answers `pong`.
    Ping {
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<&'a str>,
    },
    /// How far a group has come, in place of messages and changes that did not fit: from `at` to `until`.
    Head {
        at: At,
        until: At,
        #[schema(value_type = Id)]
        gid: GroupId,
        /// The newest message among them, or that was changed.
        mid: i64,
        /// The last change among them; 0 where there is none.
        chg: i64,
        /// The newest message of the user's own among them; 0 where there is none.
        own_mid: i64,
    },
    Event(EventFrame<'a>),
    /// A user types, to this one or into a group.
    Typing {
        #[schema(value_type = Id)]
        from: UserId,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Id>)]
        to: Option<UserId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Id>)]
        gid: Option<GroupId>,
    },
    /// Whether the user that the device looks at is connected.
    Presence(PresenceBody),
    /// Another connection of the device, or of its class, has taken its place.
    Replaced,
    /// The gateway ends: connect again in so many milliseconds.
    Reconnect {
        after_ms: u64,
    },
}

/// Whether a user is connected to any gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct PresenceBody {
    #[schema(value_type = Id)]
    pub(crate) uid: UserId,
    /// `null` where that is not known, or not to be told.
    #[schema(required = true)]
    pub(crate) online: Option<bool>,
    /// Of the devices that are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<super::values::DeviceClass>>)]
    pub(crate) classes: Vec<DeviceClass>,
    /// Of a user who is not: when he was seen last, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_seen: Option<Time>,
}

impl PresenceBody {
    pub(crate) fn unknown(uid: UserId) -> Self {
        Self {
            uid,
            online: None,
            classes: Vec::new(),
            last_seen: None,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

impl ServerFrame<'_> {
    pub(crate) fn typing(from: UserId, to: Recipient) -> Self {
        let (to, gid) = ids(to);
        Self::Typing { from, to, gid }
    }
}

/// How far a group has come, in place of what does not fit.
pub(crate) fn head_frame(head: &Head) -> ServerFrame<'static> {
    ServerFrame::Head {
        at: At((head.gid.partition(), head.offset)),
        until: At((head.gid.partition(), head.last_offset)),
        gid: head.gid,
        mid: head.mid.get(),
        chg: head.chg.get(),
        own_mid: head.own_mid.get(),
    }
}

/// An event with its position in `chat.events`, for any user, or for one whom a change of a group names.
pub(crate) fn event_frame(event: &RingEvent, named: Option<UserId>) -> ServerFrame<'_> {
    ServerFrame::Event(EventFrame {
        at: event.at.into(),
        body: EventBody::of(&event.event, named),
        event: &event.event,
        named,
    })
}

/// Of the members that a change names as many as a frame has, the one whose frame it is among them.
pub(super) fn listed(
    change: &GroupChange,
    named: Option<UserId>,
) -> impl Iterator<Item = &GroupMember> {
    let first = &change.members[..change.members.len().min(MEMBERS_IN_FRAME)];
    let is_own = |member: &&GroupMember| Some(member.uid) == named;
    let mut further = change.members[first.len()..].iter();
    let own = further.find(is_own);
    first[..first.len() - usize::from(own.is_some())]
        .iter()
        .chain(own)
}

/// How many a frame leaves out.
pub(super) fn omitted(change: &GroupChange) -> usize {
    change.members.len().saturating_sub(MEMBERS_IN_FRAME)
}

/// Something has happened. The device's token moves behind `at`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct EventFrame<'a> {
    /// Its position in `chat.events`.
    pub(super) at: At,
    /// None concerns a device without one.
    #[serde(flatten)]
    #[schema(value_type = EventBody)]
    body: Option<EventBody<'a>>,
    #[serde(skip)]
    pub(super) event: &'a Event,
    #[serde(skip)]
    pub(super) named: Option<UserId>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum EventBody<'a> {
    Message(MessageBody<'a>),
    ReadPosition(ReadBody),
    MessageChange(ChangeBody<'a>),
    GroupChange(GroupChangeBody<'a>),
    ContactChange(ContactBody),
    Profile(ProfileBody<'a>),
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct MessageBody<'a> {
    mid: i64,
    /// Its number among those of the sender; absent in a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
    #[schema(value_type = Id)]
    srcid: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    destid: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    gid: Option<GroupId>,
    msg: &'a str,
    ts: Time,
    client_msg_id: &'a str,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct ReadBody {
    #[schema(value_type = Id)]
    uid: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    peer: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    gid: Option<GroupId>,
    #[schema(value_type = super::values::DeviceClass)]
    device: DeviceClass,
    mid: i64,
    /// How many messages the peer had sent up to there; absent where that is not known, and in a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct ChangeBody<'a> {
    #[schema(value_type = Id)]
    by: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    peer: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    gid: Option<GroupId>,
    mid: i64,
    kind: &'static str,
    /// 0 of a hide or a clear from rule version 4 on: they have no number among the changes of the conversation.
    chg: i64,
    ts: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'a str>,
    /// Of a clear, as of a read position.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct GroupChangeBody<'a> {
    #[schema(value_type = Id)]
    gid: GroupId,
    #[schema(value_type = Id)]
    by: UserId,
    kind: &'static str,
    name: &'a str,
    #[schema(value_type = Id)]
    owner: UserId,
    open: bool,
    whole_history: bool,
    muted: bool,
    dissolved: bool,
    member_count: i64,
    last_mid: i64,
    /// Of those whom the change names at most sixteen; the device's own user is among them where it names him.
    members: Vec<MemberBody>,
    /// How many more it names; absent where it names no more.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(value_type = Option<u32>)]
    members_omitted: usize,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct MemberBody {
    #[schema(value_type = Id)]
    uid: UserId,
    /// `null` for who is no member any more.
    #[schema(required)]
    role: Option<&'static str>,
    muted: bool,
    joined: bool,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct ContactBody {
    #[schema(value_type = Id)]
    uid: UserId,
    #[schema(value_type = Id)]
    peer: UserId,
    favourite: bool,
    pinned: bool,
    muted: bool,
    blocked: bool,
    /// The newest message when the contact was deleted with this change.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_mid: Option<i64>,
    /// How many messages the peer had sent up to there.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_n: Option<i64>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct ProfileBody<'a> {
    #[schema(value_type = Id)]
    uid: UserId,
    nick: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    avatar: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    extra: Option<&'a RawValue>,
}

impl<'a> EventBody<'a> {
    fn of(event: &'a Event, named: Option<UserId>) -> Option<Self> {
        Some(match &event.body {
            Body::Message(message) => {
                let (destid, gid) = ids(message.to);
                Self::Message(MessageBody {
                    mid: message.mid.get(),
                    n: destid.map(|_| message.n.get()),
                    srcid: message.srcid,
                    destid,
                    gid,
                    msg: &message.msg,
                    ts: Time(event.ts),
                    client_msg_id: message.client_msg_id.as_str(),
                })
            }
            Body::ReadPosition(read) => {
                let (peer, gid) = ids(read.to);
                Self::ReadPosition(ReadBody {
                    uid: read.uid,
                    peer,
                    gid,
                    device: read.device,
                    mid: read.mid.get(),
                    n: read.n.map(Ordinal::get),
                })
            }
            Body::MessageChange(change) => {
                let (peer, gid) = ids(change.to);
                Self::MessageChange(ChangeBody {
                    by: change.by,
                    peer,
                    gid,
                    mid: change.mid.get(),
                    kind: change.change.kind(),
                    chg: change.chg.get(),
                    ts: Time(event.ts),
                    msg: change.change.msg(),
                    n: change.n.map(Ordinal::get),
                })
            }
            Body::GroupChange(change) => Self::GroupChange(GroupChangeBody::new(change, named)),
            Body::ContactChange(change) => Self::ContactChange(ContactBody {
                uid: change.uid,
                peer: change.peer,
                favourite: change.flags.favourite,
                pinned: change.flags.pinned,
                muted: change.flags.muted,
                blocked: change.flags.blocked,
                deleted_mid: change.deleted.map(|deleted| deleted.mid.get()),
                deleted_n: change.deleted.map(|deleted| deleted.n.get()),
            }),
            Body::Profile(profile) => Self::Profile(ProfileBody {
                uid: profile.uid,
                nick: &profile.nick,
                avatar: profile.avatar.as_deref(),
                extra: profile
                    .extra
                    .as_deref()
                    .and_then(|extra| serde_json::from_str(extra).ok()),
            }),
            Body::Control(_) | Body::Progress => return None,
        })
    }
}

/// The uid or the gid.
fn ids(to: Recipient) -> (Option<UserId>, Option<GroupId>) {
    match to {
        Recipient::User(uid) => (Some(uid), None),
        Recipient::Group(gid) => (None, Some(gid)),
    }
}

impl<'a> GroupChangeBody<'a> {
    fn new(change: &'a GroupChange, named: Option<UserId>) -> Self {
        let settings = &change.settings;
        let members = listed(change, named).map(|member| MemberBody {
            uid: member.uid,
            role: member.role.map(schemas::GroupRole::as_str),
            muted: member.muted,
            joined: member.joined,
        });
        Self {
            gid: change.gid,
            by: change.by,
            kind: change.kind.as_str(),
            name: &settings.name,
            owner: settings.owner,
            open: settings.open,
            whole_history: settings.whole_history,
            muted: settings.muted,
            dissolved: settings.dissolved,
            member_count: change.member_count,
            last_mid: change.last_mid.get(),
            members: members.collect(),
            members_omitted: omitted(change),
        }
    }
}

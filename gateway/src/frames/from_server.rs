use schemas::{
    DeviceClass, GroupChange, GroupId, Ordinal, Partition, Recipient, TimestampMs, UserId,
    event::{Body, Event},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::hub::{Head, RingEvent};

/// A frame to the device, but for those of events, which are encoded once for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerFrame<'a> {
    /// The stream begins: with what the device missed where it `resumed`.
    Welcome { resumed: bool, token: &'a str },
    /// The device has to sync over HTTP, in so many milliseconds at the earliest, and then to say `resume`. The token is the one that was kept for a
    /// device that has none: it syncs from there.
    SyncRequired {
        after_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<&'a str>,
    },
    /// A send or a read is on `chat.inbound`, at this position.
    Accepted {
        #[serde(rename = "ref")]
        reference: &'a str,
        at: &'a str,
    },
    /// A send has its number. A repeat has that of the first one, which is not said where that was long ago.
    Sent {
        #[serde(rename = "ref")]
        reference: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mid: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ts: Option<&'a str>,
    },
    /// A send or a read is not done, for this reason. With `retry` it may be sent again, the same with the same `client_msg_id`.
    Refused {
        #[serde(rename = "ref")]
        reference: &'a str,
        reason: &'a str,
        detail: &'a str,
        #[serde(skip_serializing_if = "is_false")]
        retry: bool,
    },
    /// What the device sent is no frame; the connection goes on.
    Error { detail: &'a str },
    /// A user types, to this one or into a group.
    Typing {
        from: UserId,
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<UserId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        gid: Option<GroupId>,
    },
    /// Whether the user that the device looks at is connected.
    Presence(PresenceBody),
    /// Another connection of the device, or of its class, has taken its place.
    Replaced,
    /// The gateway ends: connect again in so many milliseconds.
    Reconnect { after_ms: u64 },
}

/// Whether a user is connected to any gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PresenceBody {
    pub(crate) uid: UserId,
    /// `null` where that is not known, or not to be told.
    pub(crate) online: Option<bool>,
    /// Of the devices that are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) classes: Vec<DeviceClass>,
    /// Of a user who is not: when he was seen last, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_seen: Option<String>,
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

impl ServerFrame<'_> {
    pub(crate) fn typing(from: UserId, to: Recipient) -> Self {
        let (to, gid) = ids(to);
        Self::Typing { from, to, gid }
    }

    pub(crate) fn to_json(&self) -> String {
        json(self)
    }
}

fn json(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).expect("frames have string keys and no other failures")
}

/// A token that covers all that came before it; none for a device without a stream.
pub(crate) fn ping_frame(token: Option<&str>) -> String {
    #[derive(Serialize)]
    #[serde(tag = "type", rename = "ping")]
    struct Ping<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        token: Option<&'a str>,
    }
    json(&Ping { token })
}

/// How far a group has come, in place of what does not fit.
pub(crate) fn head_frame(head: &Head) -> String {
    #[derive(Serialize)]
    #[serde(tag = "type", rename = "head")]
    struct Frame {
        at: String,
        gid: GroupId,
        mid: i64,
        chg: i64,
    }
    json(&Frame {
        at: at(head.gid.partition(), head.offset),
        gid: head.gid,
        mid: head.mid.get(),
        chg: head.chg.get(),
    })
}

/// An event with its position in `chat.events`.
pub(crate) fn event_frame(event: &RingEvent) -> String {
    #[derive(Serialize)]
    #[serde(tag = "type", rename = "event")]
    struct Frame<'a> {
        at: String,
        #[serde(flatten)]
        body: EventBody<'a>,
    }
    json(&Frame {
        at: at(event.partition, event.offset),
        body: EventBody::of(&event.event),
    })
}

fn at(partition: Partition, offset: i64) -> String {
    format!("{}:{offset}", partition.get())
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum EventBody<'a> {
    Message(MessageBody<'a>),
    ReadPosition(ReadBody),
    MessageChange(ChangeBody<'a>),
    GroupChange(GroupChangeBody<'a>),
    ContactChange(ContactBody),
    Profile(ProfileBody<'a>),
    /// Concerns nobody.
    Nothing {},
}

#[derive(Serialize)]
struct MessageBody<'a> {
    mid: i64,
    /// Its number among those of the sender; absent in a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
    srcid: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    destid: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<GroupId>,
    msg: &'a str,
    ts: String,
    client_msg_id: &'a str,
}

#[derive(Serialize)]
struct ReadBody {
    uid: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<GroupId>,
    device: DeviceClass,
    mid: i64,
    /// How many messages the peer had sent up to there; absent where that is not known, and in a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
}

#[derive(Serialize)]
struct ChangeBody<'a> {
    by: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<GroupId>,
    mid: i64,
    kind: &'static str,
    chg: i64,
    ts: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'a str>,
    /// Of a clear, as of a read position.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
}

#[derive(Serialize)]
struct GroupChangeBody<'a> {
    gid: GroupId,
    by: UserId,
    kind: &'static str,
    name: &'a str,
    owner: UserId,
    open: bool,
    whole_history: bool,
    muted: bool,
    dissolved: bool,
    member_count: i64,
    last_mid: i64,
    members: Vec<MemberBody>,
}

#[derive(Serialize)]
struct MemberBody {
    uid: UserId,
    /// `null` for who is no member any more.
    role: Option<&'static str>,
    muted: bool,
    joined: bool,
}

#[derive(Serialize)]
struct ContactBody {
    uid: UserId,
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

#[derive(Serialize)]
struct ProfileBody<'a> {
    uid: UserId,
    nick: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    avatar: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a RawValue>,
}

impl<'a> EventBody<'a> {
    fn of(event: &'a Event) -> Self {
        match &event.body {
            Body::Message(message) => {
                let (destid, gid) = ids(message.to);
                Self::Message(MessageBody {
                    mid: message.mid.get(),
                    n: destid.map(|_| message.n.get()),
                    srcid: message.srcid,
                    destid,
                    gid,
                    msg: &message.msg,
                    ts: utc(event.ts),
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
                    ts: utc(event.ts),
                    msg: change.change.msg(),
                    n: change.n.map(Ordinal::get),
                })
            }
            Body::GroupChange(change) => Self::GroupChange(GroupChangeBody::new(change)),
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
            Body::Control(_) | Body::Progress => Self::Nothing {},
        }
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
    fn new(change: &'a GroupChange) -> Self {
        let settings = &change.settings;
        let members = change.members.iter().map(|member| MemberBody {
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
        }
    }
}

/// RFC 3339 in UTC; a time that has no such form, which no store takes, is the epoch.
fn utc(ts: TimestampMs) -> String {
    ts.rfc3339()
        .or_else(|| TimestampMs(0).rfc3339())
        .unwrap_or_default()
}

//! Frames of a gateway, as a device reads them.

use std::borrow::Cow;

use schemas::{Chg, DeviceClass, GroupId, GroupRole, Mid, Partition, UserId};
use serde::{Deserialize, Deserializer, de::Error};

use crate::{Flags, profiles::raw, queries::at};

/// A frame from a gateway. A kind that this version does not know is [`Self::Unknown`], and is passed over.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerFrame {
    /// The stream begins.
    Welcome {
        /// With everything since the device's token.
        resumed: bool,
        /// How often the gateway pings at least, seconds; `None` of an earlier version.
        #[serde(default)]
        ping_seconds: Option<u32>,
        /// How many frames a second the device may write; `None` of an earlier version.
        #[serde(default)]
        frames_per_s: Option<u32>,
        /// How many bytes a second.
        #[serde(default)]
        bytes_per_s: Option<u32>,
    },
    /// The device has to sync, in so many milliseconds at the earliest, and then to say `resume`.
    SyncRequired {
        /// Milliseconds.
        after_ms: u64,
        /// The one that was kept for a device that has lost its own: it syncs from there.
        #[serde(default)]
        token: Option<String>,
        /// How often the gateway pings at least, seconds; `None` of an earlier version.
        #[serde(default)]
        ping_seconds: Option<u32>,
    },
    /// An event of the device's user.
    Event(Box<EventFrame>),
    /// How far a group has come, in place of messages and changes.
    Head(HeadFrame),
    /// The answer is `pong`.
    Ping {
        /// It covers everything before it; `None` before the stream begins.
        token: Option<String>,
    },
    /// A send or a read is on the log.
    Accepted {
        /// Of the device's frame.
        #[serde(rename = "ref")]
        reference: String,
        /// `partition:offset` in `chat.inbound`.
        at: String,
    },
    /// A send has its number.
    Sent {
        /// Of the device's frame.
        #[serde(rename = "ref")]
        reference: String,
        /// The message's number; `None` where it is a repeat whose number is not known any more.
        #[serde(default)]
        mid: Option<i64>,
    },
    /// A send or a read will not be done.
    Refused {
        /// Of the device's frame.
        #[serde(rename = "ref")]
        reference: String,
        /// `not-a-member`, `blocked` …
        reason: String,
        /// For people.
        detail: String,
        /// It may be sent again.
        #[serde(default)]
        retry: bool,
    },
    /// The device's frame is not understood.
    Error {
        /// What is wrong.
        detail: String,
    },
    /// A user types.
    Typing {
        /// Who.
        from: UserId,
        /// Into this group; `None` where it is to the device's user.
        #[serde(default)]
        gid: Option<GroupId>,
    },
    /// Whether the user that the device looks at is connected.
    Presence(Presence),
    /// Another device of the class has taken this one's place.
    Replaced,
    /// The gateway ends: connect again in so many milliseconds.
    Reconnect {
        /// Milliseconds.
        after_ms: u64,
    },
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

impl ServerFrame {
    /// Reads a frame.
    ///
    /// # Errors
    /// It is none.
    pub fn read(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(rename = "type", borrow)]
            kind: Cow<'a, str>,
        }
        let Kind { kind } = serde_json::from_str(text)?;
        if kind != "event" {
            return serde_json::from_str(text);
        }
        // From the text itself: beside a tag, numbers of any length in a profile would become those of a type.
        Ok(Self::Event(serde_json::from_str(text)?))
    }
}

/// Whether a user is connected to any gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Presence {
    /// The user.
    pub uid: UserId,
    /// `None` where that is not known, or not to be told.
    pub online: Option<bool>,
    /// Of the devices that are.
    #[serde(default)]
    pub classes: Vec<DeviceClass>,
    /// When a user who is not was seen last: RFC 3339, UTC.
    #[serde(default)]
    pub last_seen: Option<String>,
}

/// An event, and where it is in `chat.events`. One of the others is there, unless it is of a later version.
#[derive(Clone, Debug, Deserialize)]
pub struct EventFrame {
    /// Where it is.
    #[serde(deserialize_with = "at")]
    pub at: (Partition, i64),
    /// A message.
    pub message: Option<MessageEvent>,
    /// A read position of the user.
    pub read_position: Option<ReadPositionEvent>,
    /// A change of a message.
    pub message_change: Option<MessageChangeEvent>,
    /// A change of a group.
    pub group_change: Option<GroupChangeEvent>,
    /// What the user says about a contact.
    pub contact_change: Option<ContactChangeEvent>,
    /// What others see of a user from here on.
    pub profile: Option<ProfileEvent>,
}

/// How far a group has come.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct HeadFrame {
    /// Where the first of the events is that are left out.
    #[serde(deserialize_with = "at")]
    pub at: (Partition, i64),
    /// Where the last of them is.
    #[serde(deserialize_with = "at")]
    pub until: (Partition, i64),
    /// The group.
    pub gid: GroupId,
    /// The newest message among them, or that was changed.
    pub mid: Mid,
    /// The last change among them; 0 where there is none.
    pub chg: Chg,
    /// The newest message of the user's own among them; 0 where there is none.
    pub own_mid: Mid,
}

/// A message.
#[derive(Clone, Debug, Deserialize)]
pub struct MessageEvent {
    /// Its number.
    pub mid: Mid,
    /// Its number among those of the sender; `None` in a group.
    pub n: Option<i64>,
    /// The sender.
    pub srcid: UserId,
    /// The receiver; `None` in a group.
    pub destid: Option<UserId>,
    /// The group.
    pub gid: Option<GroupId>,
    /// The text.
    pub msg: String,
    /// When it was sequenced: RFC 3339, UTC.
    pub ts: String,
    /// The sender's id.
    pub client_msg_id: String,
}

/// A read position that moved up.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ReadPositionEvent {
    /// Of a conversation with this user.
    pub peer: Option<UserId>,
    /// Of this group.
    pub gid: Option<GroupId>,
    /// The class.
    pub device: DeviceClass,
    /// The newest message read.
    pub mid: Mid,
    /// How many messages the peer had sent up to there; `None` where it is not known, and in a group.
    pub n: Option<i64>,
}

/// A change of a message, or of what the user sees.
#[derive(Clone, Debug, Deserialize)]
pub struct MessageChangeEvent {
    /// Who made it.
    pub by: UserId,
    /// The other user of the conversation, seen from `by`; `None` in a group.
    pub peer: Option<UserId>,
    /// The group.
    pub gid: Option<GroupId>,
    /// The message; of a clear the newest that is cleared.
    pub mid: Mid,
    /// `recall`, `edit`, `delete`, `hide` or `clear`.
    pub kind: String,
    /// Its number; 0 of a hide or a clear that has none.
    pub chg: Chg,
    /// When: RFC 3339, UTC.
    pub ts: String,
    /// The new text of an edit.
    pub msg: Option<String>,
    /// Of a clear: how many messages the peer had sent up to there; `None` where it is not known, and in a group.
    pub n: Option<i64>,
}

/// A change of a group: its settings from there on, and the members that it concerns.
#[derive(Clone, Debug, Deserialize)]
pub struct GroupChangeEvent {
    /// The group.
    pub gid: GroupId,
    /// Who made it.
    pub by: UserId,
    /// `create`, `add`, `remove` …
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: UserId,
    /// Anybody joins.
    pub open: bool,
    /// Members see what was sent before they joined.
    pub whole_history: bool,
    /// Only its owner and its admins send.
    pub muted: bool,
    /// It has ended.
    pub dissolved: bool,
    /// How many members there are.
    pub member_count: i64,
    /// Its newest message.
    pub last_mid: Mid,
    /// Those whom it concerns.
    pub members: Vec<ChangedMember>,
}

/// A user whom a change of a group concerns, from there on.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ChangedMember {
    /// The user.
    pub uid: UserId,
    /// `None` for who is no member any more.
    #[serde(deserialize_with = "role")]
    pub role: Option<GroupRole>,
    /// Does not send.
    pub muted: bool,
    /// Became a member with this change.
    pub joined: bool,
}

/// What the user says about a contact, all of it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ContactChangeEvent {
    /// The contact.
    pub peer: UserId,
    /// All flags as they are from here on.
    #[serde(flatten)]
    pub flags: Flags,
    /// The newest message, where the contact was deleted.
    pub deleted_mid: Option<i64>,
    /// How many messages the peer had sent up to there.
    pub deleted_n: Option<i64>,
}

/// What others see of a user, whole.
#[derive(Clone, Debug, Deserialize)]
pub struct ProfileEvent {
    /// Whose it is.
    pub uid: UserId,
    /// For people.
    pub nick: String,
    /// A URL.
    pub avatar: Option<String>,
    /// An object of the application's own: JSON, as it was posted.
    #[serde(default, deserialize_with = "raw")]
    pub extra: Option<String>,
}

fn role<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<GroupRole>, D::Error> {
    let role: Option<String> = Option::deserialize(deserializer)?;
    role.map(|role| role.parse().map_err(D::Error::custom))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_its_numbers_as_they_were_posted() {
        let extra = r#"{"id":123456789012345678901234567890,"price":1.50}"#;
        let profile = format!(r#"{{"uid":"1","nick":"Ann","extra":{extra}}}"#);
        let text = format!(r#"{{"at":"1:7","profile":{profile},"type":"event"}}"#);
        let Ok(ServerFrame::Event(frame)) = ServerFrame::read(&text) else {
            panic!("{text} is no event");
        };
        assert_eq!(frame.profile.unwrap().extra.as_deref(), Some(extra));
        let ping = ServerFrame::read(r#"{"type":"ping","token":"t"}"#).unwrap();
        assert!(matches!(ping, ServerFrame::Ping { token: Some(_) }));
        let later = ServerFrame::read(r#"{"type":"of later"}"#).unwrap();
        assert!(matches!(later, ServerFrame::Unknown));
        assert!(ServerFrame::read("[]").is_err());
    }
}

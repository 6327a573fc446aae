//! Frames from a gateway to a device.

use std::borrow::Cow;

use schemas::{
    ChangeSeq, DeviceClass, EventPosition, GroupId, InboundPosition, Mid, Recipient, UserId,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    event::EventFrame,
    values::{At, DeviceClassName, Id, Time, is_false, null_as_default},
};

/// A frame to the device.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerFrame<'a> {
    /// The stream begins, with what the device missed: `resumed` is true, since who cannot resume has to sync. A ping comes at the latest every
    /// `ping_seconds`: a device that hears nothing for longer, and some seconds, has lost its connection.
    Welcome {
        resumed: bool,
        #[serde(default)]
        #[schema(required = true)]
        token: Cow<'a, str>,
        /// Frames a second that the user's devices may send together, in the long run, and for ten seconds' worth at once; beyond it they are
        /// closed (4003).
        #[serde(default, deserialize_with = "null_as_default")]
        #[schema(required = true)]
        frames_per_s: u32,
        /// Bytes a second, likewise.
        #[serde(default, deserialize_with = "null_as_default")]
        #[schema(required = true)]
        bytes_per_s: u32,
        #[serde(default, deserialize_with = "null_as_default")]
        #[schema(required = true)]
        ping_seconds: u32,
    },
    /// The device has to sync over HTTP, in so many milliseconds at the earliest, and then to say `resume`. The token is the one that was kept for a
    /// device that has none: it syncs from there. Pings come as after `welcome`.
    SyncRequired {
        after_ms: u64,
        #[serde(default, deserialize_with = "null_as_default")]
        #[schema(required = true)]
        ping_seconds: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Cow<'a, str>>,
    },
    /// The command of the frame with this `ref` is on `chat.inbound`, at this position.
    Accepted {
        #[serde(rename = "ref")]
        reference: Cow<'a, str>,
        #[schema(value_type = At)]
        at: InboundPosition,
    },
    /// A send has its number. A repeat has that of the first one, which is not said where that was long ago.
    Sent {
        #[serde(rename = "ref")]
        reference: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mid: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Time>)]
        ts: Option<String>,
    },
    /// The command of the frame with this `ref` is not done, for this reason. With `retry` it may be sent again, the same with the same `client_msg_id`.
    Refused {
        #[serde(rename = "ref")]
        reference: Cow<'a, str>,
        /// For good: `invalid-field`, `unprocessable-field` (words that are not taken), `forbidden`; or as decided on the log: `malformed`, `too-large`,
        /// `conflict` (the `client_msg_id` is of another message), `too-many-conversations`, `blocked`, `unknown-group`, `not-a-member`, `muted`,
        /// `dissolved`. For the moment, with `retry`: `too-many-under-way`, `too-many-requests`, `rate-limited`, `unavailable`, `unknown-outcome`,
        /// `internal`. A later version may have others.
        reason: Cow<'a, str>,
        detail: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "is_false")]
        #[schema(value_type = Option<bool>)]
        retry: bool,
    },
    /// What the device sent is no frame, and is not `refused`, since it has no `ref` or none that can be read; the connection goes on, but for a first
    /// frame that is no `hello`.
    Error {
        detail: Cow<'a, str>,
    },
    /// A token that covers everything before it; none before the stream begins. The device answers `pong`.
    Ping {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<Cow<'a, str>>,
    },
    /// How far a group has come, in place of messages and changes that did not fit: from `at` to `until`.
    Head(HeadFrame),
    Event(EventFrame<'a>),
    /// A user types, to this one or into a group.
    Typing {
        #[schema(value_type = Id)]
        from: UserId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Id>)]
        to: Option<UserId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Of a later version, and passed over.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// How far a group has come, in place of what did not fit: from `at` to `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeadFrame {
    #[schema(value_type = At)]
    pub at: EventPosition,
    #[schema(value_type = At)]
    pub until: EventPosition,
    #[schema(value_type = Id)]
    pub gid: GroupId,
    /// The newest message among them, or that was changed.
    #[schema(value_type = i64)]
    pub mid: Mid,
    /// The last change among them; 0 where there is none.
    #[schema(value_type = i64)]
    #[serde(rename = "chg")]
    pub change_seq: ChangeSeq,
    /// The newest message of the user's own among them; 0 where there is none.
    #[schema(value_type = i64)]
    pub own_mid: Mid,
}

/// Whether a user is connected to any gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PresenceBody {
    #[schema(value_type = Id)]
    pub uid: UserId,
    /// `null` where that is not known, or not to be told.
    #[schema(required = true)]
    pub online: Option<bool>,
    /// Of the devices that are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<DeviceClassName>>)]
    pub classes: Vec<DeviceClass>,
    /// Of a user who is not: when he was seen last, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Time>)]
    pub last_seen: Option<String>,
}

impl PresenceBody {
    /// Nothing is known of the user, or may be told.
    #[must_use]
    pub fn unknown(uid: UserId) -> Self {
        Self {
            uid,
            online: None,
            classes: Vec::new(),
            last_seen: None,
        }
    }
}

impl ServerFrame<'_> {
    /// A user types, to this one or into a group.
    #[must_use]
    pub fn typing(from: UserId, to: Recipient) -> Self {
        let (to, gid) = to.uid_or_gid();
        Self::Typing { from, to, gid }
    }
}

impl ServerFrame<'static> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FramedEvent;

    #[test]
    fn a_profile_has_its_numbers_as_they_were_posted() {
        let extra = r#"{"id":123456789012345678901234567890,"price":1.50}"#;
        let profile = format!(r#"{{"uid":"1","nick":"Ann","extra":{extra}}}"#);
        let text = format!(r#"{{"type":"event","at":"1:7","profile":{profile}}}"#);
        let frame = ServerFrame::read(&text).unwrap();
        assert_eq!(serde_json::to_string(&frame).unwrap(), text);
        let ServerFrame::Event(EventFrame {
            body: Some(FramedEvent::Profile(profile)),
            ..
        }) = frame
        else {
            panic!("{text} is no profile");
        };
        assert_eq!(profile.extra.unwrap().get(), extra);
        let ping = ServerFrame::read(r#"{"type":"ping","token":"t"}"#).unwrap();
        assert!(matches!(ping, ServerFrame::Ping { token: Some(_) }));
        for later in [
            r#"{"type":"of later"}"#,
            r#"{"type":"event","at":"1:7","later":{}}"#,
        ] {
            let frame = ServerFrame::read(later).unwrap();
            let is_nothing = matches!(
                frame,
                ServerFrame::Unknown | ServerFrame::Event(EventFrame { body: None, .. })
            );
            assert!(is_nothing, "{later}");
        }
        assert!(ServerFrame::read("[]").is_err());
    }
}

use schemas::{
    ClientMsgId, DeviceClass, DeviceId, DirectConversation, GroupId, Partition, Recipient, UserId,
};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use utoipa::ToSchema;

use super::values::{Id, ShortId};

/// A frame from the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ClientFrame {
    /// The first frame: which device it is, and its token, if it has one.
    Hello(Hello),
    /// After `sync_required`: the token of the sync's last answer.
    Resume { since: String },
    /// A message.
    Send(SendFrame),
    /// A read-ack.
    Read(ReadFrame),
    /// The answer to a ping: everything before it is handled.
    Pong {},
    /// The user types.
    Typing(TypingFrame),
    /// What the user looks at, in place of what it was before.
    Focus(FocusFrame),
}

/// Which device it is, and what it has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hello {
    pub(crate) device: Device,
    /// Its token. Where the field is absent the device has lost its token and not what it knows: it goes on from the one that was kept for it. Null: it
    /// knows nothing.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub(crate) since: Option<Option<String>>,
}

/// A device of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    /// Its own id; no two devices of a user have the same.
    #[schema(value_type = ShortId)]
    pub(crate) id: DeviceId,
    #[schema(value_type = super::values::DeviceClass)]
    pub(crate) class: DeviceClass,
    /// For people.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 64)]
    pub(crate) name: DeviceName,
}

/// What a user calls a device: at most 64 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct DeviceName(pub(crate) String);

impl TryFrom<String> for DeviceName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        if name.chars().count() > 64 {
            return Err("device.name must be 64 characters at most");
        }
        Ok(Self(name))
    }
}

fn present<'de, D: Deserializer<'de>>(since: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(since).map(Some)
}

/// A message to a user or into a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendFrame {
    /// Of the device's own choice; answers have it.
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    /// A user.
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(crate) to: Option<UserId>,
    /// In place of `to`: a group.
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(crate) gid: Option<String>,
    /// The author's own id of this send: with the same one it is the same message.
    #[schema(min_length = 1, max_length = 64)]
    pub(crate) client_msg_id: String,
    pub(crate) msg: String,
}

/// A read-ack of a direct conversation or a group, on the class of the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFrame {
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    /// The other user of a direct conversation.
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(crate) peer: Option<UserId>,
    /// In place of `peer`: a group.
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(crate) gid: Option<String>,
    /// The newest message that is read.
    #[schema(minimum = 0)]
    pub(crate) mid: i64,
}

/// The user types a message to a user or into a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypingFrame {
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(super) to: Option<UserId>,
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(super) gid: Option<GroupId>,
}

/// The conversation or group that the user looks at; with neither, at none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FocusFrame {
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(super) peer: Option<UserId>,
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(super) gid: Option<GroupId>,
}

impl TypingFrame {
    /// To whom.
    ///
    /// # Errors
    /// It does not say, or says two things.
    pub(crate) fn recipient(&self) -> Result<Recipient, &'static str> {
        let to = one_of(self.to, self.gid, "typing has to or gid, not both")?;
        to.ok_or("typing has to or gid")
    }
}

impl FocusFrame {
    /// At what.
    ///
    /// # Errors
    /// It says two things.
    pub(crate) fn at(&self) -> Result<Option<Recipient>, &'static str> {
        one_of(self.peer, self.gid, "focus has peer or gid, not both")
    }
}

fn one_of(
    uid: Option<UserId>,
    gid: Option<GroupId>,
    both: &'static str,
) -> Result<Option<Recipient>, &'static str> {
    match (uid, gid) {
        (Some(_), Some(_)) => Err(both),
        (Some(uid), None) => Ok(Some(Recipient::User(uid))),
        (None, gid) => Ok(gid.map(Recipient::Group)),
    }
}

impl SendFrame {
    /// The event that ingest takes: a line of `POST /v1/events`.
    pub(crate) fn to_event(&self, srcid: UserId) -> String {
        let mut message = json!({
            "srcid": srcid, "client_msg_id": self.client_msg_id, "msg": self.msg,
        });
        if let Some(to) = self.to {
            message["destid"] = json!(to);
        }
        if let Some(gid) = &self.gid {
            message["gid"] = json!(gid);
        }
        json!({ "message": message }).to_string()
    }

    /// The group, where it is for one and ingest takes it.
    pub(crate) fn group(&self) -> Option<GroupId> {
        self.gid.as_ref()?.parse().ok()
    }

    /// The partition of its record.
    pub(crate) fn partition(&self, srcid: UserId) -> Option<Partition> {
        match self.group() {
            Some(gid) => Some(gid.partition()),
            None => Some(DirectConversation::new(srcid, self.to?).partition()),
        }
    }

    pub(crate) fn client_msg_id(&self) -> Option<ClientMsgId> {
        self.client_msg_id.clone().try_into().ok()
    }
}

impl ReadFrame {
    /// The event that ingest takes.
    pub(crate) fn to_event(&self, uid: UserId, class: DeviceClass) -> String {
        let mut ack = json!({"uid": uid, "device": class, "mid": self.mid});
        if let Some(peer) = self.peer {
            ack["peer"] = json!(peer);
        }
        if let Some(gid) = &self.gid {
            ack["gid"] = json!(gid);
        }
        json!({ "read_ack": ack }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::json::parse;

    fn since(hello: &str) -> Option<Option<String>> {
        let text = format!(r#"{{"type":"hello","device":{{"id":"a","class":"pc"}}{hello}}}"#);
        match parse(&text).unwrap() {
            ClientFrame::Hello(hello) => hello.since,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_token_that_is_lost_is_another_thing_than_none() {
        assert_eq!(since(""), None);
        assert_eq!(since(r#","since":null"#), Some(None));
        assert_eq!(since(r#","since":"x""#), Some(Some("x".to_owned())));
    }

    #[test]
    fn what_is_no_frame_is_named() {
        let long = "x".repeat(65);
        for (text, word) in [
            ("", "EOF"),
            ("[]", "type"),
            (r#"{"type":"dance"}"#, "dance"),
            (r#"{"type":"pong","token":"a"}"#, "token"),
            (r#"{"type":"send","ref":"1","to":"2"}"#, "client_msg_id"),
            (
                r#"{"type":"hello","device":{"id":"a b","class":"pc"}}"#,
                "1 to 64",
            ),
            (r#"{"type":"hello","device":{"id":"a","class":"tv"}}"#, "tv"),
            (
                &format!(
                    r#"{{"type":"hello","device":{{"id":"a","class":"pc","name":"{long}"}}}}"#
                ),
                "device.name",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_send_is_a_line_of_a_batch() {
        let text = r#"{"type":"send","ref":"1","gid":"7","client_msg_id":"a","msg":"hello"}"#;
        let Ok(ClientFrame::Send(send)) = parse(text) else {
            panic!("no send");
        };
        assert_eq!(
            send.to_event(5.try_into().unwrap()),
            r#"{"message":{"client_msg_id":"a","gid":"7","msg":"hello","srcid":"5"}}"#
        );
        assert_eq!(send.group(), Some(7.try_into().unwrap()));
    }
}

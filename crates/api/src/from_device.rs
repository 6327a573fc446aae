//! Frames from a device to a gateway.

use schemas::{
    ClientMsgId, DeviceClass, DeviceId, GroupId, Mid, Recipient, UserId,
    command::{Command, Malformed, ReadAck, SendMessage},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use utoipa::ToSchema;

use crate::values::{
    DeviceClassName, Id, Object, ShortId, ShortText, recipient, recipient_or_none,
};

/// A frame from the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientFrame {
    /// The first frame: which device it is, and its token, if it has one.
    Hello(Hello),
    /// After `sync_required`: the token of the sync's last answer.
    Resume(Resume),
    /// A message. One of `to` and `gid` is there.
    Send(SendFrame),
    /// A read-ack. One of `peer` and `gid` is there.
    Read(ReadFrame),
    /// The answer to a ping: everything before it is handled.
    Pong {},
    /// The user types. One of `to` and `gid` is there.
    Typing(TypingFrame),
    /// What the user looks at, in place of what it was before. At most one of `peer` and `gid` is there.
    Focus(FocusFrame),
}

/// From where a device goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    pub since: String,
}

/// Which device it is, and what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    #[schema(value_type = Device)]
    pub device: Object<Device>,
    /// Its token. Where the field is absent the device has lost its token and not what it knows: it goes on from the one that was kept for it. Null: it
    /// knows nothing.
    #[serde(default, skip_serializing_if = "Since::is_lost")]
    #[schema(value_type = Option<String>)]
    pub since: Since,
}

/// From where a device goes on that says hello.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<String>", into = "Option<String>")]
pub enum Since {
    /// The device has lost its token, and not what it knows.
    #[default]
    Lost,
    /// It knows nothing.
    Nothing,
    Token(String),
}

impl Since {
    fn is_lost(&self) -> bool {
        *self == Self::Lost
    }
}

impl From<Option<String>> for Since {
    fn from(since: Option<String>) -> Self {
        since.map_or(Self::Nothing, Self::Token)
    }
}

impl From<Since> for Option<String> {
    fn from(since: Since) -> Self {
        match since {
            Since::Token(token) => Some(token),
            Since::Lost | Since::Nothing => None,
        }
    }
}

/// A device of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its own id; no two devices of a user have the same.
    #[schema(value_type = ShortId)]
    pub id: DeviceId,
    #[schema(value_type = DeviceClassName)]
    pub class: DeviceClass,
    /// For people.
    #[serde(default, skip_serializing_if = "ShortText::is_empty")]
    #[schema(value_type = Option<String>, max_length = 64)]
    pub name: ShortText,
}

/// A message to a user or into a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendFrame {
    /// Of the device's own choice; answers have it.
    #[serde(rename = "ref")]
    #[schema(value_type = String, max_length = 64)]
    pub reference: ShortText,
    /// A user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub to: Option<UserId>,
    /// In place of `to`: a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub gid: Option<GroupId>,
    /// The author's own id of this send: with the same one it is the same message. 1 to 64 bytes of UTF-8 without control characters.
    #[schema(value_type = String, min_length = 1, max_length = 64)]
    pub client_msg_id: ClientMsgId,
    /// The text: UTF-8 without NUL, at most 16,384 bytes of it where the operator has set no other limit (`ingest.max_msg_bytes`).
    #[schema(min_length = 1, max_length = 65_535)]
    pub msg: String,
}

/// A read-ack of a direct conversation or a group, on the class of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFrame {
    #[serde(rename = "ref")]
    #[schema(value_type = String, max_length = 64)]
    pub reference: ShortText,
    /// The other user of a direct conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub peer: Option<UserId>,
    /// In place of `peer`: a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub gid: Option<GroupId>,
    /// The newest message that is read.
    #[serde(deserialize_with = "mid_of_frame")]
    #[schema(value_type = i64, minimum = 1)]
    pub mid: Mid,
}

/// The user types a message to a user or into a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TypingFrame {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub to: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub gid: Option<GroupId>,
}

/// The conversation or group that the user looks at; with neither, at none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FocusFrame {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub peer: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Id>)]
    pub gid: Option<GroupId>,
}

impl TypingFrame {
    /// To whom.
    ///
    /// # Errors
    /// It does not say, or says two things.
    pub fn recipient(&self) -> Result<Recipient, Malformed> {
        recipient("to", self.to, self.gid)
    }
}

impl FocusFrame {
    /// At what.
    ///
    /// # Errors
    /// It says two things.
    pub fn at(&self) -> Result<Option<Recipient>, Malformed> {
        recipient_or_none("peer", self.peer, self.gid)
    }
}

impl SendFrame {
    /// To whom.
    ///
    /// # Errors
    /// It does not say, or says two things.
    pub fn recipient(&self) -> Result<Recipient, Malformed> {
        recipient("to", self.to, self.gid)
    }

    /// The command of this user; `to` is [`Self::recipient`].
    pub fn into_command(self, srcid: UserId, to: Recipient) -> Command {
        Command::Send(SendMessage {
            srcid,
            to,
            client_msg_id: self.client_msg_id,
            msg: self.msg,
            by_user: false,
        })
    }
}

impl ReadFrame {
    /// The command of this user, on this class of devices.
    ///
    /// # Errors
    /// It names no conversation, or two.
    pub fn command(&self, uid: UserId, device: DeviceClass) -> Result<Command, Malformed> {
        Ok(Command::ReadAck(ReadAck {
            uid,
            to: recipient("peer", self.peer, self.gid)?,
            device,
            mid: Some(self.mid),
        }))
    }
}

/// A number, or what is right in the words of ingest.
fn mid_of_frame<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mid, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let mid = value.as_i64().and_then(|mid| Mid::try_from(mid).ok());
    mid.filter(|mid| *mid > Mid::ZERO).ok_or_else(|| {
        D::Error::custom(format!("is {value}; must be a message's number, 1 or more"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(hello: &str) -> Since {
        let text = format!(r#"{{"type":"hello","device":{{"id":"a","class":"pc"}}{hello}}}"#);
        match serde_json::from_str(&text).unwrap() {
            ClientFrame::Hello(hello) => hello.since,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_token_that_is_lost_is_another_thing_than_none() {
        assert_eq!(since(""), Since::Lost);
        assert_eq!(since(r#","since":null"#), Since::Nothing);
        assert_eq!(since(r#","since":"x""#), Since::Token("x".to_owned()));
    }

    #[test]
    fn a_send_and_a_read_are_to_a_user_or_into_a_group() {
        for (to, right) in [
            (r#""to":"2""#, Ok(Recipient::User(2.try_into().unwrap()))),
            (r#""gid":"7""#, Ok(Recipient::Group(7.try_into().unwrap()))),
            (
                r#""to":"2","gid":"7""#,
                Err(("gid", "is given beside to; must be absent")),
            ),
            (
                r#""gid":null"#,
                Err((
                    "to",
                    "is missing; must be a user, or gid in its place a group",
                )),
            ),
        ] {
            let text =
                format!(r#"{{"type":"send","ref":"1","client_msg_id":"a","msg":"hello",{to}}}"#);
            let Ok(ClientFrame::Send(send)) = serde_json::from_str(&text) else {
                panic!("no send: {text}");
            };
            assert_eq!(
                send.recipient(),
                right.map_err(|(field, problem)| Malformed::new(field, problem))
            );
        }
    }
}

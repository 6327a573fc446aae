use std::fmt;

use problem::json::Object;
use schemas::{
    ClientMsgId, DeviceClass, DeviceId, GroupId, Mid, Recipient, UserId,
    command::{Command, ReadAck, SendMessage},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use utoipa::ToSchema;

use super::values::{Id, ShortId, ShortText};

/// What a frame may be.
pub(super) const TYPES: &str = "hello, resume, send, read, pong, typing or focus";

/// A frame from the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ClientFrame {
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

/// What is no frame: why, for the developer of the device, and the `ref` of a send or a read where that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoFrame {
    pub(crate) reference: Option<ShortText>,
    pub(crate) detail: String,
}

impl From<String> for NoFrame {
    fn from(detail: String) -> Self {
        Self {
            reference: None,
            detail,
        }
    }
}

/// From where a device goes on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {
    pub(crate) since: String,
}

/// Which device it is, and what it has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hello {
    #[schema(value_type = Device)]
    pub(crate) device: Object<Device>,
    /// Its token. Where the field is absent the device has lost its token and not what it knows: it goes on from the one that was kept for it. Null: it
    /// knows nothing.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub(crate) since: Since,
}

/// From where a device goes on that says hello.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<String>")]
pub(crate) enum Since {
    /// The device has lost its token, and not what it knows.
    #[default]
    Lost,
    /// It knows nothing.
    Nothing,
    Token(String),
}

impl From<Option<String>> for Since {
    fn from(since: Option<String>) -> Self {
        since.map_or(Self::Nothing, Self::Token)
    }
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
    pub(crate) name: ShortText,
}

/// A message to a user or into a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendFrame {
    /// Of the device's own choice; answers have it.
    #[serde(rename = "ref")]
    #[schema(value_type = String, max_length = 64)]
    pub(crate) reference: ShortText,
    /// A user.
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(crate) to: Option<UserId>,
    /// In place of `to`: a group.
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(crate) gid: Option<GroupId>,
    /// The author's own id of this send: with the same one it is the same message. 1 to 64 bytes of UTF-8 without control characters.
    #[schema(value_type = String, min_length = 1, max_length = 64)]
    pub(crate) client_msg_id: ClientMsgId,
    /// The text: UTF-8 without NUL, at most 16,384 bytes of it where the operator has set no other limit (`ingest.max_msg_bytes`).
    #[schema(min_length = 1, max_length = 65_535)]
    pub(crate) msg: String,
}

/// A read-ack of a direct conversation or a group, on the class of the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFrame {
    #[serde(rename = "ref")]
    #[schema(value_type = String, max_length = 64)]
    pub(crate) reference: ShortText,
    /// The other user of a direct conversation.
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(crate) peer: Option<UserId>,
    /// In place of `peer`: a group.
    #[serde(default)]
    #[schema(value_type = Option<Id>)]
    pub(crate) gid: Option<GroupId>,
    /// The newest message that is read.
    #[serde(deserialize_with = "mid")]
    #[schema(value_type = i64, minimum = 1)]
    pub(crate) mid: Mid,
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
    pub(crate) fn recipient(&self) -> Result<Recipient, String> {
        one_of("to", self.to, self.gid)
    }
}

impl FocusFrame {
    /// At what.
    ///
    /// # Errors
    /// It says two things.
    pub(crate) fn at(&self) -> Result<Option<Recipient>, String> {
        at_most_one_of("peer", self.peer, self.gid)
    }
}

impl SendFrame {
    /// To whom.
    ///
    /// # Errors
    /// It does not say, or says two things.
    pub(crate) fn recipient(&self) -> Result<Recipient, String> {
        one_of("to", self.to, self.gid)
    }

    /// The command of this user; `to` is [`Self::recipient`].
    pub(crate) fn into_command(self, srcid: UserId, to: Recipient) -> Command {
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
    /// Of a conversation with whom.
    ///
    /// # Errors
    /// It does not say, or says two things.
    pub(crate) fn recipient(&self) -> Result<Recipient, String> {
        one_of("peer", self.peer, self.gid)
    }

    /// The command of this user, on this class of devices.
    ///
    /// # Errors
    /// It names no conversation, or two.
    pub(crate) fn command(&self, uid: UserId, device: DeviceClass) -> Result<Command, String> {
        Ok(Command::ReadAck(ReadAck {
            uid,
            to: self.recipient()?,
            device,
            mid: Some(self.mid),
        }))
    }
}

/// A number, or what is right in the words of ingest.
fn mid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mid, D::Error> {
    let value = Value::deserialize(deserializer)?;
    checked_mid(value.as_i64(), &value).map_err(D::Error::custom)
}

pub(super) fn checked_mid(mid: Option<i64>, given: &impl fmt::Display) -> Result<Mid, String> {
    let wrong = || format!("is {given}; must be a message's number, 1 or more");
    let mid = mid.and_then(|mid| Mid::try_from(mid).ok());
    mid.filter(|mid| *mid > Mid::ZERO).ok_or_else(wrong)
}

/// What `field` says, or `gid` in its place.
fn one_of(field: &str, uid: Option<UserId>, gid: Option<GroupId>) -> Result<Recipient, String> {
    at_most_one_of(field, uid, gid)?
        .ok_or_else(|| format!("{field} is missing; must be a user, or gid in its place a group"))
}

fn at_most_one_of(
    field: &str,
    uid: Option<UserId>,
    gid: Option<GroupId>,
) -> Result<Option<Recipient>, String> {
    match (uid, gid) {
        (Some(_), Some(_)) => Err(format!("gid is given beside {field}; must be absent")),
        (Some(uid), None) => Ok(Some(Recipient::User(uid))),
        (None, gid) => Ok(gid.map(Recipient::Group)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::json::parse;

    fn since(hello: &str) -> Since {
        let text = format!(r#"{{"type":"hello","device":{{"id":"a","class":"pc"}}{hello}}}"#);
        match parse(&text).unwrap() {
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
                Err("gid is given beside to; must be absent"),
            ),
            (
                r#""gid":null"#,
                Err("to is missing; must be a user, or gid in its place a group"),
            ),
        ] {
            let text =
                format!(r#"{{"type":"send","ref":"1","client_msg_id":"a","msg":"hello",{to}}}"#);
            let Ok(ClientFrame::Send(send)) = parse(&text) else {
                panic!("no send: {text}");
            };
            assert_eq!(send.recipient(), right.map_err(str::to_owned));
        }
    }
}

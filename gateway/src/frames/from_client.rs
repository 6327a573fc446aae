use schemas::{DeviceClass, UserId};
use serde::Deserialize;
use serde_json::json;

/// A frame from the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
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
}

/// Which device it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hello {
    pub(crate) device: Device,
    #[serde(default)]
    pub(crate) since: Option<String>,
}

/// A device of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    /// 1 to 64 characters of `A-Z a-z 0-9 . _ -`.
    pub(crate) id: String,
    pub(crate) class: DeviceClass,
    /// At most 64 characters, for people.
    #[serde(default)]
    pub(crate) name: Option<String>,
}

/// A message to a user or into a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendFrame {
    /// Of the device's own choice; answers have it.
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    #[serde(default)]
    pub(crate) to: Option<UserId>,
    #[serde(default)]
    pub(crate) gid: Option<String>,
    pub(crate) client_msg_id: String,
    pub(crate) msg: String,
}

/// A read-ack of a direct conversation or a group, on the class of the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFrame {
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    #[serde(default)]
    pub(crate) peer: Option<UserId>,
    #[serde(default)]
    pub(crate) gid: Option<String>,
    pub(crate) mid: i64,
}

/// Reads a frame.
///
/// # Errors
/// What is wrong, for the developer of the device.
pub(crate) fn parse(text: &str) -> Result<ClientFrame, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Device {
    /// Whether id and name are right.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_right = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=64).contains(&self.id.len()) || !self.id.bytes().all(is_right) {
            return Err("device.id must be 1 to 64 of A-Z a-z 0-9 . _ -".to_owned());
        }
        if self
            .name
            .as_ref()
            .is_some_and(|name| name.chars().count() > 64)
        {
            return Err("device.name must be 64 characters at most".to_owned());
        }
        Ok(())
    }
}

/// The reference of a send, and the event that ingest takes: a line of `POST /v1/events`.
pub(crate) fn post_of_send(srcid: UserId, frame: SendFrame) -> (String, String) {
    let mut message = json!({
        "srcid": srcid, "client_msg_id": frame.client_msg_id, "msg": frame.msg,
    });
    if let Some(to) = frame.to {
        message["destid"] = json!(to);
    }
    if let Some(gid) = frame.gid {
        message["gid"] = json!(gid);
    }
    (frame.reference, json!({ "message": message }).to_string())
}

/// The same of a read-ack.
pub(crate) fn post_of_read(uid: UserId, class: DeviceClass, frame: ReadFrame) -> (String, String) {
    let mut ack = json!({"uid": uid, "device": class, "mid": frame.mid});
    if let Some(peer) = frame.peer {
        ack["peer"] = json!(peer);
    }
    if let Some(gid) = frame.gid {
        ack["gid"] = json!(gid);
    }
    (frame.reference, json!({ "read_ack": ack }).to_string())
}

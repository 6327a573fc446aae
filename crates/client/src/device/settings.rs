use schemas::{DeviceClass, DeviceId};

use crate::ClientError;

/// `ingest.max_msg_bytes` where nothing else is configured.
pub const MAX_MSG_BYTES: usize = 16 * 1024;
const MAX_NAME_CHARS: usize = 64;

/// Which device, and where its gateways are.
#[derive(Clone, Debug)]
pub struct DeviceSettings {
    /// `ws://127.0.0.1:7308`, in the order in which they are tried.
    pub gateways: Vec<String>,
    /// The device's own id.
    pub device: DeviceId,
    /// Its class.
    pub class: DeviceClass,
    /// What the user calls it.
    pub name: String,
    /// The token to authenticate with; without one the stack is an open one, and the user is believed.
    pub token: Option<String>,
    /// The longest text of a message in bytes: `ingest.max_msg_bytes`, or [`MAX_MSG_BYTES`].
    pub max_msg_bytes: usize,
}

impl DeviceSettings {
    /// Whether there is a gateway, and it would not refuse the device each time.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        if self.gateways.is_empty() {
            return Err(ClientError::InvalidSettings("there is no gateway".into()));
        }
        if self.name.chars().count() > MAX_NAME_CHARS {
            let wrong = format!("must be {MAX_NAME_CHARS} characters at most");
            return Err(ClientError::invalid_field("name", wrong));
        }
        Ok(())
    }

    /// Whether ingest would take the text.
    pub(super) fn check_message(&self, msg: &str) -> Result<(), ClientError> {
        let (bytes, most) = (msg.len(), self.max_msg_bytes);
        let wrong = if !(1..=most).contains(&bytes) {
            format!("has {bytes} bytes; must be 1 to {most} bytes of UTF-8")
        } else if msg.contains('\0') {
            "has a NUL character; must be UTF-8 without NUL".to_owned()
        } else {
            return Ok(());
        };
        Err(ClientError::invalid_field("msg", wrong))
    }
}

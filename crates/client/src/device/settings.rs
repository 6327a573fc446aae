use schemas::{DeviceClass, DeviceId};
use tokio_tungstenite::tungstenite::http::{HeaderValue, Uri};

use crate::ClientError;

/// `ingest.max_msg_bytes` if nothing else is configured.
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
    /// Fails if a setting would fail at each attempt.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        let wrong = self.gateways.iter().find(|url| !is_base(url));
        let wrong = match self.gateways.is_empty() {
            true => Some("nothing".to_owned()),
            false => wrong.map(|url| format!("{url:?}")),
        };
        if let Some(wrong) = wrong {
            let right = format!("must be like ws://127.0.0.1:7308, not {wrong}");
            return Err(ClientError::invalid_field("gateways", right));
        }
        if self.name.chars().count() > MAX_NAME_CHARS {
            let wrong = format!("must be {MAX_NAME_CHARS} characters at most");
            return Err(ClientError::invalid_field("name", wrong));
        }
        let token = self.token.as_deref().unwrap_or_default();
        if HeaderValue::from_str(token).is_err() {
            let wrong = "must fit into a header: ASCII without line breaks";
            return Err(ClientError::invalid_field("token", wrong));
        }
        if self.max_msg_bytes == 0 {
            let wrong = "must be 1 or more";
            return Err(ClientError::invalid_field("max_msg_bytes", wrong));
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

/// Whether a path can be added to it.
fn is_base(url: &str) -> bool {
    url.parse().is_ok_and(|uri: Uri| {
        let authority = uri.authority();
        matches!(uri.scheme_str(), Some("ws" | "wss"))
            && authority.is_some_and(|authority| !authority.as_str().contains('@'))
            && uri.query().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::device_settings as settings;

    #[test]
    fn a_setting_that_cannot_work_is_named() {
        let mut good = settings();
        good.gateways = vec!["wss://chat.example.org/im/".to_owned()];
        good.check().unwrap();
        let wrong_urls = ["junk", "http://h", "ws://h/?a", "ws://u:p@h", "ws://"];
        let wrong_urls = wrong_urls.map(|url| DeviceSettings {
            gateways: vec![good.gateways[0].clone(), url.to_owned()],
            ..settings()
        });
        for wrong in wrong_urls {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.starts_with("gateways must be like ws:"), "{error}");
        }
        for (name, wrong) in [
            (
                "gateways",
                DeviceSettings {
                    gateways: Vec::new(),
                    ..settings()
                },
            ),
            (
                "name",
                DeviceSettings {
                    name: "x".repeat(65),
                    ..settings()
                },
            ),
            (
                "token",
                DeviceSettings {
                    token: Some("a\nb".to_owned()),
                    ..settings()
                },
            ),
            (
                "max_msg_bytes",
                DeviceSettings {
                    max_msg_bytes: 0,
                    ..settings()
                },
            ),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} must")), "{error}");
        }
    }
}

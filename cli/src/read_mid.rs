//! Numbers of messages on the command line.

use std::str::FromStr;

use schemas::Mid;

/// Up to which message a user has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMid {
    Latest,
    Mid(Mid),
}

impl ReadMid {
    /// `None` for the latest.
    pub(crate) fn up_to(self) -> Option<Mid> {
        match self {
            Self::Latest => None,
            Self::Mid(mid) => Some(mid),
        }
    }
}

impl FromStr for ReadMid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "latest" => Ok(Self::Latest),
            _ => message_number(text)
                .map(Self::Mid)
                .map_err(|wrong| format!("{wrong}, or `latest`")),
        }
    }
}

/// The number of a message.
///
/// # Errors
/// What would be right.
pub(crate) fn message_number(text: &str) -> Result<Mid, String> {
    let mid = text
        .parse()
        .ok()
        .and_then(|mid: i64| Mid::try_from(mid).ok());
    mid.filter(|mid| *mid > Mid::ZERO)
        .ok_or_else(|| "must be a message's number, 1 or more".to_owned())
}

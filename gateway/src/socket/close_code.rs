//! Why the gateway closes a connection, and how.

use std::{future::pending, time::Duration};

use axum::{
    Error,
    extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket},
};
use futures::SinkExt as _;
use tokio::time::timeout;
use tungstenite::error::{CapacityError, ProtocolError};

use crate::metrics;

/// How long a device may take to answer a close.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// What a close has room for, besides its code.
const MAX_REASON_BYTES: usize = 123;

/// Makes the enum, the list of all codes, and what the gateway says with each.
macro_rules! close_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $reason:literal;)*) => {
        /// Why the gateway closes. Below 4100 the device comes back with its token, from there on it does not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum CloseCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl CloseCode {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            pub(crate) fn reason(self) -> &'static str {
                match self {
                    $(Self::$name => $reason,)*
                }
            }
        }
    };
}

close_codes! {
    /// A frame breaks the rules of WebSocket itself.
    ProtocolError = 1002, "protocol error";
    /// The gateway ends.
    GoingAway = 4000, "the gateway ends: come back with your token";
    /// The device takes its frames too slowly.
    QueueFull = 4001, "too much waits: come back with your token";
    /// No hello, pong, resume or progress in time.
    TimedOut = 4002, "no answer in time: come back with your token";
    /// The user's devices send too much.
    TooFast = 4003, "too many frames or bytes of this user: come back later";
    /// All devices together send too much.
    Overloaded = 4004, "too many frames or bytes of all devices: come back later";
    /// The token or key of the connection has ended.
    Expired = 4005, "the token has expired: come back with a new one";
    /// What was read of a partition is gone from the log, or the gateway goes on at another place of it.
    Forgotten = 4006, "events of the stream are gone: come back with your token";
    /// Texts that are not frames, or no hello first.
    Malformed = 4100, "frames that are none";
    /// Another connection has taken its place.
    Replaced = 4101, "another connection has taken its place";
    /// A frame is larger than a frame may be.
    TooLarge = 4103, "a frame is too large";
    /// A binary frame.
    WrongKind = 4104, "frames of tidemark.v1.json are text";
}

/// A close by the gateway.
#[derive(Debug)]
pub(super) struct Close {
    code: CloseCode,
    /// What exactly was wrong, if the code leaves that open.
    detail: String,
}

/// How a connection ends: with a close by the gateway, or `None` if it is gone.
pub(super) type Ended = Option<Close>;

impl From<CloseCode> for Close {
    fn from(code: CloseCode) -> Self {
        code.because(String::new())
    }
}

impl Close {
    /// As much of the reason as fits.
    fn reason(&self) -> Utf8Bytes {
        let Self { code, detail } = self;
        if detail.is_empty() {
            return Utf8Bytes::from_static(code.reason());
        }
        let mut reason = format!("{}: {detail}", code.reason());
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        reason.into()
    }
}

impl CloseCode {
    /// Whether the device comes back with its token.
    pub(crate) fn comes_back(self) -> bool {
        (self as u16) < 4100
    }

    pub(super) fn because(self, detail: String) -> Close {
        Close { code: self, detail }
    }
}

/// How a connection ends after an error of reading.
pub(super) fn of_error(error: Error) -> Ended {
    use tungstenite::Error::{Capacity, Protocol, Utf8};
    match error.into_inner().downcast_ref() {
        Some(Capacity(CapacityError::MessageTooLong { max_size, .. })) => {
            let limit = format!("the limit is {max_size} bytes");
            Some(CloseCode::TooLarge.because(limit))
        }
        Some(Utf8(_)) => {
            let wrong = "the text is not UTF-8".to_owned();
            Some(CloseCode::Malformed.because(wrong))
        }
        Some(Protocol(ProtocolError::ResetWithoutClosingHandshake)) => None,
        Some(Protocol(broken)) => Some(CloseCode::ProtocolError.because(broken.to_string())),
        _ => None,
    }
}

/// Ends a connection, and reads what still comes: a socket that is closed with something unread may lose what was written.
pub(super) async fn close(mut socket: WebSocket, ended: Ended) {
    let Some(ended) = ended else {
        // The answer to the device's own close is in the buffer.
        let _ = timeout(CLOSE_TIME, socket.flush()).await;
        return;
    };
    let code = ended.code as u16;
    metrics::closed(code);
    let frame = CloseFrame {
        code,
        reason: ended.reason(),
    };
    // A device that does not take it is gone anyway.
    let _ = timeout(CLOSE_TIME, async {
        if socket.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(read) = socket.recv().await {
                if read.is_err() {
                    // The rest of a refused frame stays unread: the device has until the end of `CLOSE_TIME` to read the reason.
                    return pending().await;
                }
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_detail_as_far_as_there_is_room() {
        assert_eq!(
            Close::from(CloseCode::Replaced).reason().as_str(),
            CloseCode::Replaced.reason()
        );
        let close = |detail: &str| CloseCode::Malformed.because(detail.to_owned());
        let reason = close("to is 0").reason();
        assert_eq!(reason.as_str(), "frames that are none: to is 0");
        let reason = close(&"ü".repeat(100)).reason();
        assert!((122..=123).contains(&reason.len()), "{reason}");
    }
}

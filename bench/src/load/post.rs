//! The requests that a client posts, and the answers that it accepts.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use hyper::StatusCode;
use prost::Message as _;
use schemas::{
    InboundPosition,
    proto::{self, event_result},
};
use serde_json::Value;

use super::{connection::Connection, traffic::Traffic};

/// Posts the next message alone. Returns its position.
///
/// # Errors
/// If the message is not accepted.
pub(crate) async fn post_single(to: &mut Connection, traffic: &Traffic) -> Result<InboundPosition> {
    let body = Post::Single.body(traffic);
    let answer = to.post(
        "/v1/messages",
        "application/json",
        body,
        StatusCode::ACCEPTED,
    );
    let answer: Value = serde_json::from_slice(&answer.await?)?;
    let at = format!("{}:{}", answer["partition"], answer["offset"]);
    Ok(at.parse()?)
}

/// How messages are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// One message in a request.
    Single,
    /// A batch of this many lines.
    Ndjson(usize),
    /// A batch of this many items.
    Protobuf(usize),
}

impl Post {
    /// Posts the next messages. Returns how many that were; all of them were accepted.
    ///
    /// # Errors
    /// If a message is not accepted.
    pub(crate) async fn post(self, to: &mut Connection, traffic: &Traffic) -> Result<u64> {
        let (path, content_type, expected) = match self {
            Self::Single => ("/v1/messages", "application/json", StatusCode::ACCEPTED),
            Self::Ndjson(_) => ("/v1/events", "application/x-ndjson", StatusCode::OK),
            Self::Protobuf(_) => ("/v1/events", "application/x-protobuf", StatusCode::OK),
        };
        let answer = to
            .post(path, content_type, self.body(traffic), expected)
            .await?;
        let count = self.count();
        let accepted = self.accepted(answer)?;
        ensure!(accepted == count, "{accepted} of {count} accepted");
        Ok(count)
    }

    /// How many messages a request has.
    pub(crate) fn count(self) -> u64 {
        match self {
            Self::Single => 1,
            Self::Ndjson(lines) | Self::Protobuf(lines) => lines as u64,
        }
    }

    fn body(self, traffic: &Traffic) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.count() as usize * 256);
        for _ in 0..self.count() {
            let message = traffic.next_message();
            match self {
                Self::Single => message.write_json(&mut body),
                Self::Ndjson(_) => message.write_line(&mut body),
                Self::Protobuf(_) => message.write_item(&mut body),
            }
        }
        body
    }

    /// How many messages were accepted, according to an answer with the expected status.
    fn accepted(self, mut answer: Bytes) -> Result<u64> {
        match self {
            Self::Single => Ok(1),
            Self::Ndjson(_) => {
                let mut lines = answer.trim_ascii_end().rsplit(|&byte| byte == b'\n');
                let summary: Value = serde_json::from_slice(lines.next().unwrap_or_default())?;
                summary["accepted"].as_u64().context("no summary")
            }
            Self::Protobuf(_) => loop {
                let result = proto::EventResult::decode_length_delimited(&mut answer)?.result;
                if let Some(event_result::Result::Summary(summary)) = result {
                    return Ok(summary.accepted.cast_unsigned());
                }
            },
        }
    }
}

//! Appends to `chat.inbound`.

use std::fmt::Write as _;

use event_log::{AppendRecord, ProducerSettings};
use schemas::{CommandId, CommandScope, Partition, command::InboundValue, kind::Retry};

use crate::{byte_budget::cost_bytes, config::IngestConfig, post::Post};

/// `chat.inbound` takes records of up to 1 MiB. Tidemark's own limits keep every record far below that.
const MAX_RECORD_BYTES: usize = 1_000_000;

/// A command, encoded for the log.
pub struct InboundRecord {
    /// The label of its kind in metrics.
    pub label: &'static str,
    /// By what a repeat of it is recognised.
    pub retry: Retry,
    /// The partition of its conversation, or of its user.
    pub partition: Partition,
    key: String,
    value: Vec<u8>,
}

impl From<Post> for InboundRecord {
    fn from(post: Post) -> Self {
        let (kind, scope) = (post.command.kind(), post.command.scope());
        Self {
            label: kind.label(),
            retry: kind.retry(),
            partition: scope.partition().expect("no post is a control"),
            key: key_of(scope),
            value: InboundValue {
                command: post.command,
                id: post
                    .command_id
                    .map_or_else(String::new, CommandId::into_string),
                words: post.words,
            }
            .encode(),
        }
    }
}

/// With room for two uids: a key that grew would cost more than the text.
fn key_of(scope: CommandScope) -> String {
    let mut key = String::with_capacity(40);
    write!(key, "{}", scope.key()).expect("a string takes anything");
    key
}

impl InboundRecord {
    /// The value, as it is on the log.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// As it is appended to `topic`, which is `chat.inbound`.
    #[must_use]
    pub fn append<'a>(&'a self, topic: &'a str) -> AppendRecord<'a> {
        AppendRecord {
            topic,
            partition: self.partition,
            key: self.key.as_bytes(),
            value: Some(&self.value),
            // The broker sets the time.
            timestamp: None,
            headers: &[],
        }
    }

    /// The bytes that it takes while it is in flight.
    #[must_use]
    pub fn cost_bytes(&self) -> u32 {
        cost_bytes(self.key.len() + self.value.len())
    }
}

/// The settings of a producer of `chat.inbound`. Its queue is as large as the byte budgets, so it is never full before the budgets are used up.
#[must_use]
pub fn producer_settings(config: &IngestConfig, linger_ms: u32) -> ProducerSettings {
    ProducerSettings {
        linger_ms,
        message_timeout_ms: config.message_timeout_ms,
        queue_bytes: config.in_flight_bytes as usize,
        max_message_bytes: MAX_RECORD_BYTES,
        gapless: false,
    }
}

//! What a record on `chat.dead-letters` says of itself: Kafka Connect's header names, and ours for the reason.

use std::{fmt, str::FromStr};

use crate::Partition;

/// The topic it came from.
pub const HEADER_TOPIC: &str = "__connect.errors.topic";
/// The partition it came from.
pub const HEADER_PARTITION: &str = "__connect.errors.partition";
/// Its offset there. (topic, partition, offset) is its identity.
pub const HEADER_OFFSET: &str = "__connect.errors.offset";
/// Which service gave up on it.
pub const HEADER_STAGE: &str = "__connect.errors.stage";
/// The reason again, where existing tools look for it.
pub const HEADER_CLASS: &str = "__connect.errors.exception.class.name";
/// What was wrong, for people.
pub const HEADER_MESSAGE: &str = "__connect.errors.exception.message";
/// A [`Reason`].
pub const HEADER_REASON: &str = "tidemark.reason";

/// Why a record could not be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its bytes are no command or no event.
    Malformed,
    /// It lies in another partition than its conversation's.
    WrongPartition,
    /// Its msg is larger than the rules allow.
    TooLarge,
    /// Its client_msg_id was used before, with another payload.
    Conflict,
    /// A control record asks for rules outside their bounds.
    InvalidControl,
}

impl Reason {
    const ALL: [Self; 5] = [
        Self::Malformed,
        Self::WrongPartition,
        Self::TooLarge,
        Self::Conflict,
        Self::InvalidControl,
    ];

    /// Its name in the header.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::WrongPartition => "wrong-partition",
            Self::TooLarge => "too-large",
            Self::Conflict => "conflict",
            Self::InvalidControl => "invalid-control",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = crate::InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| {
                crate::InvalidId::new(format!("is {text:?}; must be a dead letter's reason"))
            })
    }
}

/// Where a dead letter came from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The topic's full name.
    pub topic: &'a str,
    /// The partition, which the dead letter keeps.
    pub partition: Partition,
    /// The offset.
    pub offset: i64,
    /// The service that gave up.
    pub stage: &'a str,
}

/// The headers that a dead letter has after the original ones.
#[must_use]
pub fn headers(
    origin: &Origin<'_>,
    reason: Reason,
    message: &str,
) -> Vec<(String, Option<Vec<u8>>)> {
    [
        (HEADER_TOPIC, origin.topic),
        (HEADER_PARTITION, &origin.partition.to_string()),
        (HEADER_OFFSET, &origin.offset.to_string()),
        (HEADER_STAGE, origin.stage),
        (HEADER_CLASS, reason.as_str()),
        (HEADER_MESSAGE, message),
        (HEADER_REASON, reason.as_str()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), Some(value.as_bytes().to_vec())))
    .collect()
}

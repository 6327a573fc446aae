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
/// How many bytes the value had, where only its beginning was kept.
pub const HEADER_VALUE_BYTES: &str = "tidemark.value-bytes";

/// A record with more bytes than this is not kept whole: compressed, a broker takes far larger ones than uncompressed.
const WHOLE_BYTES: usize = 1_100_000;
/// What is kept of the value and of the key of such a record.
const KEPT_VALUE_BYTES: usize = 64 * 1024;
const KEPT_KEY_BYTES: usize = 256;

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

/// What is put on `chat.dead-letters`: the original record and, behind its headers, those that say why. Of a record that is too large for
/// the topic only the beginning of key and value, without its headers.
/// The original may have headers of the same names: of each name the last one is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterRecord {
    /// The key; empty for none.
    pub key: Vec<u8>,
    /// The value; `None` for a null one.
    pub value: Option<Vec<u8>>,
    /// Names and values, in order.
    pub headers: Vec<Header>,
}

/// A header's name and value.
pub type Header = (String, Option<Vec<u8>>);

/// A record as its reader got it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Original<'a> {
    /// The key; `None` for none.
    pub key: Option<&'a [u8]>,
    /// The value; `None` for a null one.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: &'a [Header],
}

impl Original<'_> {
    fn len(&self) -> usize {
        let header = |(name, value): &Header| name.len() + value.as_ref().map_or(0, Vec::len);
        self.key.map_or(0, <[u8]>::len)
            + self.value.map_or(0, <[u8]>::len)
            + self.headers.iter().map(header).sum::<usize>()
    }
}

impl DeadLetterRecord {
    /// The dead letter of `original`; `message` says what was wrong, for people.
    #[must_use]
    pub fn new(
        origin: &Origin<'_>,
        reason: Reason,
        message: &str,
        original: &Original<'_>,
    ) -> Self {
        let is_whole = original.len() <= WHOLE_BYTES;
        let kept = |bytes: &[u8], most: usize| {
            let end = if is_whole {
                bytes.len()
            } else {
                bytes.len().min(most)
            };
            bytes[..end].to_vec()
        };
        let mut headers = Vec::new();
        if is_whole {
            headers.extend_from_slice(original.headers);
        }
        headers.extend(headers_of(origin, reason, message));
        if !is_whole {
            let bytes = original.value.map_or(0, <[u8]>::len).to_string();
            headers.push((HEADER_VALUE_BYTES.to_owned(), Some(bytes.into_bytes())));
        }
        Self {
            key: original
                .key
                .map_or_else(Vec::new, |key| kept(key, KEPT_KEY_BYTES)),
            value: original.value.map(|value| kept(value, KEPT_VALUE_BYTES)),
            headers,
        }
    }
}

fn headers_of(origin: &Origin<'_>, reason: Reason, message: &str) -> Vec<Header> {
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

/// What the headers of a dead letter say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The full name of the topic that the original came from.
    pub topic: String,
    /// The original's partition.
    pub partition: Partition,
    /// The original's offset.
    pub offset: i64,
    /// The service that gave up.
    pub stage: String,
    /// Why.
    pub reason: Reason,
    /// What was wrong, for people.
    pub message: String,
    /// How many bytes the original's value had, where only its beginning was kept.
    pub cut_from: Option<u64>,
}

impl Told {
    /// Reads the headers, by name the last one; `None` where they are not those of a dead letter of ours.
    pub fn read<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let number = |name| header(name)?.parse::<i64>().ok();
        Some(Self {
            topic: header(HEADER_TOPIC)?.to_owned(),
            partition: number(HEADER_PARTITION)?.try_into().ok()?,
            offset: number(HEADER_OFFSET)?,
            stage: header(HEADER_STAGE)?.to_owned(),
            reason: header(HEADER_REASON)?.parse().ok()?,
            message: header(HEADER_MESSAGE)?.to_owned(),
            cut_from: header(HEADER_VALUE_BYTES).and_then(|bytes| bytes.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(value: &[u8]) -> DeadLetterRecord {
        let origin = Origin {
            topic: "chat.inbound",
            partition: 5.try_into().unwrap(),
            offset: 7,
            stage: "sequencer",
        };
        let original = Original {
            key: Some(b"1,2"),
            value: Some(value),
            headers: &[("trace".to_owned(), Some(b"x".to_vec()))],
        };
        DeadLetterRecord::new(&origin, Reason::Malformed, "junk", &original)
    }

    fn header(letter: &DeadLetterRecord, name: &str) -> Option<String> {
        let (_, value) = letter.headers.iter().find(|(found, _)| found == name)?;
        Some(String::from_utf8(value.clone()?).unwrap())
    }

    #[test]
    fn a_letter_is_its_original_and_says_why() {
        let letter = letter(b"value");
        assert_eq!(letter.key, b"1,2");
        assert_eq!(letter.value.as_deref(), Some(b"value".as_slice()));
        assert_eq!(letter.headers[0].0, "trace");
        assert_eq!(header(&letter, HEADER_OFFSET).unwrap(), "7");
        assert_eq!(header(&letter, HEADER_REASON).unwrap(), "malformed");
        assert_eq!(header(&letter, HEADER_VALUE_BYTES), None);
    }

    #[test]
    fn what_is_said_of_it_is_read_back_whatever_the_original_says() {
        let origin = Origin {
            topic: "chat.inbound",
            partition: 5.try_into().unwrap(),
            offset: 7,
            stage: "sequencer",
        };
        let forged = [HEADER_TOPIC, HEADER_OFFSET, HEADER_REASON]
            .map(|name| (name.to_owned(), Some(b"1".to_vec())));
        let original = Original {
            headers: &forged,
            ..Original::default()
        };
        let letter = DeadLetterRecord::new(&origin, Reason::TooLarge, "too large", &original);
        let find = |name: &str| {
            let (_, value) = letter.headers.iter().rfind(|(found, _)| found == name)?;
            std::str::from_utf8(value.as_deref()?).ok()
        };
        let told = Told {
            topic: "chat.inbound".to_owned(),
            partition: origin.partition,
            offset: 7,
            stage: "sequencer".to_owned(),
            reason: Reason::TooLarge,
            message: "too large".to_owned(),
            cut_from: None,
        };
        assert_eq!(Told::read(find), Some(told));
        assert_eq!(Told::read(|_| None), None);
    }

    #[test]
    fn what_is_too_large_for_the_topic_is_cut() {
        let letter = letter(&vec![0xff; 3_000_000]);
        assert_eq!(letter.value.as_ref().unwrap().len(), KEPT_VALUE_BYTES);
        assert_eq!(header(&letter, HEADER_VALUE_BYTES).unwrap(), "3000000");
        assert_eq!(header(&letter, HEADER_PARTITION).unwrap(), "5");
        assert_eq!(header(&letter, "trace"), None);
    }
}

//! Records of `chat.dead-letters` and their headers: Kafka Connect's names, and our own for the reason.

use std::{fmt, str::FromStr};

use crate::{InboundPosition, Partition};

/// The original record's topic.
pub const HEADER_TOPIC: &str = "__connect.errors.topic";
/// The original record's partition.
pub const HEADER_PARTITION: &str = "__connect.errors.partition";
/// The original record's offset. (topic, partition, offset) identifies a dead-letter record.
pub const HEADER_OFFSET: &str = "__connect.errors.offset";
/// The service that could not process the record.
pub const HEADER_STAGE: &str = "__connect.errors.stage";
/// The reason again, under the name that tools for Kafka Connect read.
pub const HEADER_CLASS: &str = "__connect.errors.exception.class.name";
/// What was wrong, as a sentence for people.
pub const HEADER_MESSAGE: &str = "__connect.errors.exception.message";
/// The [`Reason`] by its name.
pub const HEADER_REASON: &str = "tidemark.reason";
/// The length of the original value in bytes, present only if the value was truncated.
pub const HEADER_VALUE_BYTES: &str = "tidemark.value-bytes";

/// Larger records are truncated. They exist because a broker checks the compressed size only.
const MAX_WHOLE_BYTES: usize = 1_100_000;
/// What a truncated record keeps of its value and of its key.
const TRUNCATED_VALUE_BYTES: usize = 64 * 1024;
const TRUNCATED_KEY_BYTES: usize = 256;

/// Declares the reasons with their names.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        /// Why a record could not be processed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $reason,)*
        }

        impl Reason {
            const ALL: &[Self] = &[$(Self::$reason,)*];

            /// The name in the header.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// Its value is not a valid command or event.
    Malformed = "malformed",
    /// Its partition is not the partition of its conversation.
    WrongPartition = "wrong-partition",
    /// Its msg is larger than the rules allow.
    TooLarge = "too-large",
    /// Its client_msg_id was used before with another payload.
    Conflict = "conflict",
    /// A control record with rules outside their bounds.
    InvalidControl = "invalid-control",
    /// Its sender has begun as many conversations as a user may in a day.
    TooManyConversations = "too-many-conversations",
    /// Its receiver has blocked its sender.
    Blocked = "blocked",
    /// It changes a message that does not exist.
    UnknownMessage = "unknown-message",
    /// It changes another user's message.
    NotTheAuthor = "not-the-author",
    /// It recalls a message after the recall window.
    TooLate = "too-late",
    /// It recalls or edits a message that is not among the newest 4,096 of its conversation.
    TooOld = "too-old",
    /// It edits a message that was recalled.
    Recalled = "recalled",
    /// The rules do not allow it.
    NotAllowed = "not-allowed",
    /// It names a group that does not exist.
    UnknownGroup = "unknown-group",
    /// It creates a group with the gid of another group.
    GroupExists = "group-exists",
    /// Its user, or a user that it names, is not a member of the group.
    NotAMember = "not-a-member",
    /// Its user may not do that in the group.
    NoRight = "no-right",
    /// Its user is muted in the group.
    Muted = "muted",
    /// The group already has the maximum number of members.
    GroupFull = "group-full",
    /// The group was dissolved.
    Dissolved = "dissolved",
    /// It creates a group whose gid its user may not choose.
    WrongGid = "wrong-gid",
    /// It makes more users members of groups than its user may in a day, or adds a user who has the maximum number of memberships by others.
    TooManyMemberships = "too-many-memberships",
    /// It adds a user who left the group voluntarily.
    HasLeft = "has-left",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = crate::InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| {
                crate::InvalidValue::new(format!(
                    "is {text:?}; must be a reason of a dead-letter record"
                ))
            })
    }
}

/// Where the original record is, and which service could not process it.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The topic's full name.
    pub topic: &'a str,
    /// The partition; the dead-letter record has the same.
    pub partition: Partition,
    /// The offset in that partition.
    pub offset: i64,
    /// The service.
    pub stage: &'a str,
}

impl<'a> Origin<'a> {
    /// Of a record of `chat.inbound` that the sequencer refuses.
    #[must_use]
    pub fn of_inbound(topic: &'a str, position: InboundPosition) -> Self {
        Self {
            topic,
            partition: position.partition,
            offset: position.offset,
            stage: "sequencer",
        }
    }
}

/// A record of `chat.dead-letters`: the original record with further headers that give the reason. A record too large for the topic is
/// truncated: it keeps the beginning of key and value, and none of its own headers.
/// The original may have headers of the same names, so of each name the last header counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterRecord {
    /// The key; empty if the original has none.
    pub key: Vec<u8>,
    /// The value; `None` for a null one.
    pub value: Option<Vec<u8>>,
    /// Names and values, in order.
    pub headers: Vec<Header>,
}

/// A header's name and value.
pub type Header = (String, Option<Vec<u8>>);

/// A record as it was read from its topic.
#[derive(Clone, Copy, Debug, Default)]
pub struct OriginalRecord<'a> {
    /// The key; `None` for none.
    pub key: Option<&'a [u8]>,
    /// The value; `None` for a null one.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: &'a [Header],
}

impl OriginalRecord<'_> {
    fn len(&self) -> usize {
        let header = |(name, value): &Header| name.len() + value.as_ref().map_or(0, Vec::len);
        self.key.map_or(0, <[u8]>::len)
            + self.value.map_or(0, <[u8]>::len)
            + self.headers.iter().map(header).sum::<usize>()
    }
}

impl DeadLetterRecord {
    /// The dead-letter record of `original`. `message` says what was wrong, for people.
    #[must_use]
    pub fn new(
        origin: &Origin<'_>,
        reason: Reason,
        message: &str,
        original: &OriginalRecord<'_>,
    ) -> Self {
        let is_whole = original.len() <= MAX_WHOLE_BYTES;
        let truncate = |bytes: &[u8], most: usize| {
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
                .map_or_else(Vec::new, |key| truncate(key, TRUNCATED_KEY_BYTES)),
            value: original
                .value
                .map(|value| truncate(value, TRUNCATED_VALUE_BYTES)),
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

/// The headers of a dead-letter record, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterHeaders {
    /// The full name of the original's topic.
    pub topic: String,
    /// The original's partition.
    pub partition: Partition,
    /// The original's offset.
    pub offset: i64,
    /// The service that could not process it.
    pub stage: String,
    /// The reason, for programs.
    pub reason: Reason,
    /// What was wrong, for people.
    pub message: String,
    /// The length of the original value, if it was truncated.
    pub original_value_bytes: Option<u64>,
}

impl DeadLetterHeaders {
    /// Parses the headers. `header` returns the last header of a name. `None` if they are not those of a dead-letter record of ours.
    pub fn read<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Self> {
        let number = |name| header(name)?.parse::<i64>().ok();
        Some(Self {
            topic: header(HEADER_TOPIC)?.to_owned(),
            partition: number(HEADER_PARTITION)?.try_into().ok()?,
            offset: number(HEADER_OFFSET)?,
            stage: header(HEADER_STAGE)?.to_owned(),
            reason: header(HEADER_REASON)?.parse().ok()?,
            message: header(HEADER_MESSAGE)?.to_owned(),
            original_value_bytes: header(HEADER_VALUE_BYTES).and_then(|bytes| bytes.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead_letter(value: &[u8]) -> DeadLetterRecord {
        let origin = Origin::of_inbound("chat.inbound", "5:7".parse().unwrap());
        let original = OriginalRecord {
            key: Some(b"1,2"),
            value: Some(value),
            headers: &[("trace".to_owned(), Some(b"x".to_vec()))],
        };
        DeadLetterRecord::new(&origin, Reason::Malformed, "junk", &original)
    }

    fn header(record: &DeadLetterRecord, name: &str) -> Option<String> {
        let (_, value) = record.headers.iter().find(|(found, _)| found == name)?;
        Some(String::from_utf8(value.clone()?).unwrap())
    }

    #[test]
    fn a_dead_letter_record_is_the_original_with_the_reason() {
        let record = dead_letter(b"value");
        assert_eq!(record.key, b"1,2");
        assert_eq!(record.value.as_deref(), Some(b"value".as_slice()));
        assert_eq!(record.headers[0].0, "trace");
        assert_eq!(header(&record, HEADER_OFFSET).unwrap(), "7");
        assert_eq!(header(&record, HEADER_REASON).unwrap(), "malformed");
        assert_eq!(header(&record, HEADER_VALUE_BYTES), None);
    }

    #[test]
    fn headers_are_parsed_even_if_the_original_has_the_same_names() {
        let origin = Origin::of_inbound("chat.inbound", "5:7".parse().unwrap());
        let forged = [HEADER_TOPIC, HEADER_OFFSET, HEADER_REASON]
            .map(|name| (name.to_owned(), Some(b"1".to_vec())));
        let original = OriginalRecord {
            headers: &forged,
            ..OriginalRecord::default()
        };
        let record = DeadLetterRecord::new(&origin, Reason::TooLarge, "too large", &original);
        let find = |name: &str| {
            let (_, value) = record.headers.iter().rfind(|(found, _)| found == name)?;
            std::str::from_utf8(value.as_deref()?).ok()
        };
        let expected = DeadLetterHeaders {
            topic: "chat.inbound".to_owned(),
            partition: origin.partition,
            offset: 7,
            stage: "sequencer".to_owned(),
            reason: Reason::TooLarge,
            message: "too large".to_owned(),
            original_value_bytes: None,
        };
        assert_eq!(DeadLetterHeaders::read(find), Some(expected));
        assert_eq!(DeadLetterHeaders::read(|_| None), None);
    }

    #[test]
    fn a_record_too_large_for_the_topic_is_truncated() {
        let record = dead_letter(&vec![0xff; 3_000_000]);
        assert_eq!(record.value.as_ref().unwrap().len(), TRUNCATED_VALUE_BYTES);
        assert_eq!(header(&record, HEADER_VALUE_BYTES).unwrap(), "3000000");
        assert_eq!(header(&record, HEADER_PARTITION).unwrap(), "5");
        assert_eq!(header(&record, "trace"), None);
    }
}

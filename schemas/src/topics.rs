//! The topics, as code: `tidemark topics apply` makes a cluster agree with this file.

use crate::PARTITIONS;

/// What a topic is for; names and settings follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Accepted commands, as posted.
    Inbound,
    /// The sequenced log, the record of truth.
    Events,
    /// Sequencer state as of an offset of `Events`.
    Snapshots,
    /// What could not be processed.
    DeadLetters,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Self; 4] = [
        Self::Inbound,
        Self::Events,
        Self::Snapshots,
        Self::DeadLetters,
    ];

    /// Its frozen name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Inbound => "chat.inbound",
            Self::Events => "chat.events",
            Self::Snapshots => "chat.snapshots",
            Self::DeadLetters => "chat.dead-letters",
        }
    }

    /// How many partitions it has.
    #[must_use]
    pub fn partitions(self) -> u8 {
        PARTITIONS
    }

    /// The settings that matter to exactness, by Kafka's names. None is compacted: compaction would let a paused
    /// owner's late record delete the truth.
    #[must_use]
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Inbound => &[
                ("cleanup.policy", "delete"),
                ("retention.ms", "604800000"),
                ("message.timestamp.type", "LogAppendTime"),
                ("max.message.bytes", "1048588"),
            ],
            // Event time is the log's clock, which may run ahead of a broker's.
            Self::Events => &[
                ("cleanup.policy", "delete"),
                ("retention.ms", "-1"),
                ("retention.bytes", "-1"),
                ("message.timestamp.type", "CreateTime"),
                ("message.timestamp.after.max.ms", "9223372036854775807"),
                ("message.timestamp.before.max.ms", "9223372036854775807"),
                ("max.message.bytes", "1048588"),
            ],
            Self::Snapshots => &[
                ("cleanup.policy", "delete"),
                ("retention.ms", "-1"),
                ("message.timestamp.type", "LogAppendTime"),
                ("max.message.bytes", "1048588"),
            ],
            Self::DeadLetters => &[
                ("cleanup.policy", "delete"),
                ("retention.ms", "7776000000"),
                ("message.timestamp.type", "LogAppendTime"),
                ("max.message.bytes", "2097152"),
            ],
        }
    }
}

/// The names of the topics of one deployment: the frozen ones, behind a prefix where several share a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicNames {
    prefix: String,
}

impl TopicNames {
    /// Names that begin with `prefix`, which may be empty.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    /// The name of a topic here.
    #[must_use]
    pub fn name(&self, topic: Topic) -> String {
        format!("{}{}", self.prefix, topic.name())
    }
}

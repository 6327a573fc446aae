//! The topics and their settings. `tidemark topics apply` creates or alters them as declared here.

use crate::PARTITIONS;

/// The setting for how many replicas must have a record before it is acknowledged.
pub const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// A replica that is not in sync never becomes the leader: the acknowledged records that it lacks would be lost.
pub const NO_UNCLEAN_ELECTION: (&str, &str) = ("unclean.leader.election.enable", "false");

/// A topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Commands, as ingest accepted them.
    Inbound,
    /// The sequenced log, from which everything else is derived.
    Events,
    /// The sequencer's state as of an offset of `Events`.
    Snapshots,
    /// Records that could not be processed.
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

    /// Its name without a prefix.
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

    /// The least [`MIN_INSYNC_REPLICAS`] of a topic with this many copies: with three or more, no acknowledged record is on one disk only.
    #[must_use]
    pub fn min_insync_replicas(copies: usize) -> u32 {
        if copies < 3 { 1 } else { 2 }
    }

    /// Its other settings by Kafka's names. None is compacted: a late record of a paused owner would replace the valid one.
    #[must_use]
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Inbound => &[
                ("cleanup.policy", "delete"),
                NO_UNCLEAN_ELECTION,
                ("retention.ms", "604800000"),
                ("message.timestamp.type", "LogAppendTime"),
                ("max.message.bytes", "1048588"),
            ],
            // The time of an event is log time, which may be ahead of the broker's clock.
            Self::Events => &[
                ("cleanup.policy", "delete"),
                NO_UNCLEAN_ELECTION,
                ("retention.ms", "-1"),
                ("retention.bytes", "-1"),
                ("message.timestamp.type", "CreateTime"),
                ("message.timestamp.after.max.ms", "9223372036854775807"),
                ("message.timestamp.before.max.ms", "9223372036854775807"),
                ("max.message.bytes", "1048588"),
            ],
            Self::Snapshots => &[
                ("cleanup.policy", "delete"),
                NO_UNCLEAN_ELECTION,
                ("retention.ms", "-1"),
                ("message.timestamp.type", "LogAppendTime"),
                ("max.message.bytes", "1048588"),
            ],
            Self::DeadLetters => &[
                ("cleanup.policy", "delete"),
                NO_UNCLEAN_ELECTION,
                ("retention.ms", "7776000000"),
                ("message.timestamp.type", "LogAppendTime"),
                ("max.message.bytes", "2097152"),
            ],
        }
    }
}

/// The names of the topics of one deployment. Deployments that share a cluster have different prefixes.
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

    /// The name of a topic, with the prefix.
    #[must_use]
    pub fn name(&self, topic: Topic) -> String {
        format!("{}{}", self.prefix, topic.name())
    }
}

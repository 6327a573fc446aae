use std::net::SocketAddr;

use event_log::KafkaConfig;
use garde::Validate;
use serde::{Deserialize, Serialize};
use service_runtime::{ConfigError, ConfigSource};

use crate::shell::ShellConfig;

/// What the sequencer is configured with.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// Section `kafka`.
    pub kafka: KafkaConfig,
    /// Section `sequencer`.
    pub sequencer: SequencerConfig,
}

impl Config {
    /// Reads the sections that the sequencer needs.
    ///
    /// # Errors
    /// [`ConfigError`] names the key and what is right.
    pub fn load(source: &ConfigSource) -> Result<Self, ConfigError> {
        Ok(Self {
            kafka: source.section("kafka")?,
            sequencer: source.section("sequencer")?,
        })
    }
}

/// Section `sequencer`.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct SequencerConfig {
    /// Where probes, metrics and status are served.
    #[garde(skip)]
    pub listen: SocketAddr,
    /// A snapshot of a partition is taken after this many events, or after half the number of entries of its last snapshot, if that is more …
    #[garde(range(min = 1000, max = 1_000_000_000))]
    pub snapshot_events: u64,
    /// … or when the state has changed and this time has passed, milliseconds; longer in proportion if more events are needed.
    #[garde(range(min = 1000, max = 86_400_000))]
    pub snapshot_interval_ms: u64,
    /// The producer's `linger.ms`: a larger one makes larger batches while a backlog is processed.
    #[garde(range(max = 1000))]
    pub linger_ms: u32,
}

impl Default for SequencerConfig {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 7303).into(),
            snapshot_events: 100_000,
            snapshot_interval_ms: 5 * 60 * 1000,
            linger_ms: 0,
        }
    }
}

impl SequencerConfig {
    pub(crate) fn shell(&self) -> ShellConfig {
        ShellConfig {
            snapshot_events: self.snapshot_events,
            snapshot_interval_ms: self.snapshot_interval_ms,
            // All 64 partitions together stay below what the producer queues.
            max_in_flight_bytes: 1 << 20,
            max_waiting_bytes: 2 << 20,
            ..ShellConfig::default()
        }
    }
}

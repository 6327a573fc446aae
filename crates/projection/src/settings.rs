//! The settings of a projection.

use std::time::Duration;

use event_log::KafkaConfig;
use schemas::Partition;

/// How a projection is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The consumer group, without the deployment's prefix.
    pub group: String,
    /// A worker flushes when its sink's pending count reaches this.
    pub max_pending: usize,
    /// A worker flushes when its oldest batch has waited this long.
    pub interval: Duration,
    /// How often a worker has its sink verify that the store is unchanged.
    pub verify_every: Duration,
    /// How much may be queued for a worker before its partitions are paused, bytes.
    pub max_queued_bytes: usize,
    /// The remedy in the error about records that were deleted before they were read.
    pub if_deleted: &'static str,
    /// The remedy in the error about a partition whose log has lost its end; it follows "To go on: ".
    pub if_truncated: fn(Partition) -> String,
}

/// The longest time that brokers may delay an empty fetch response.
const LONGEST_FETCH_WAIT: Duration = Duration::from_millis(250);

impl Settings {
    /// The settings of the fetcher. Records that wait for the next flush need not come at once, and each response costs the broker the same.
    pub(crate) fn fetcher_config(&self, kafka: &KafkaConfig) -> KafkaConfig {
        let wait = (self.interval / 2).min(LONGEST_FETCH_WAIT);
        KafkaConfig {
            fetch_wait_ms: kafka.fetch_wait_ms.max(wait.as_millis() as u32),
            ..kafka.clone()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings() -> Settings {
        Settings {
            group: "test".to_owned(),
            max_pending: 1,
            interval: Duration::ZERO,
            verify_every: Duration::from_secs(1),
            max_queued_bytes: 1 << 20,
            if_deleted: "",
            if_truncated: |_| String::new(),
        }
    }

    #[test]
    fn a_fetch_waits_for_half_of_the_flush_interval_at_most() {
        let wait = |interval_ms| {
            let settings = Settings {
                interval: Duration::from_millis(interval_ms),
                ..settings()
            };
            let kafka = KafkaConfig {
                fetch_wait_ms: 5,
                ..KafkaConfig::default()
            };
            settings.fetcher_config(&kafka).fetch_wait_ms
        };
        assert_eq!([5, 50, 30_000].map(wait), [5, 25, 250]);
    }
}

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use event_log::KafkaConfig;
use garde::Validate;
use message_store::MySqlConfig;
use projection::Settings;
use serde::{Deserialize, Serialize};
use service_runtime::{ConfigError, ConfigSource};
use unread_rebuild::RebuildConfig;
use unread_store::RedisConfig;

/// The configuration of projector-unread.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Config {
    /// Section `projector_unread`.
    pub projector_unread: ProjectorUnreadConfig,
    /// Section `kafka`.
    pub kafka: KafkaConfig,
    /// Section `redis`.
    pub redis: RedisConfig,
    /// Section `mysql`: absent users are rebuilt from there.
    pub mysql: MySqlConfig,
}

impl Config {
    /// Reads the sections that projector-unread uses.
    ///
    /// # Errors
    /// A value of these sections that is unknown, of the wrong type or out of bounds.
    pub fn load(source: &ConfigSource) -> Result<Self, ConfigError> {
        Ok(Self {
            projector_unread: source.section("projector_unread")?,
            kafka: source.section("kafka")?,
            redis: source.section("redis")?,
            mysql: source.section("mysql")?,
        })
    }
}

/// Section `projector_unread`.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectorUnreadConfig {
    /// Address of health and metrics, `address:port`.
    #[garde(skip)]
    pub listen: SocketAddr,
    /// How long an event may wait for others before its batch is applied, milliseconds.
    #[garde(range(min = 1, max = 60_000))]
    pub interval_ms: u32,
    /// How many counts (one for each receiver and sender) may wait before they are applied at once.
    #[garde(range(min = 1, max = 10_000_000))]
    pub max_pending: usize,
    /// How often the positions are verified while no events come, milliseconds. A Redis that was emptied is noticed after this time.
    #[garde(range(min = 10, max = 3_600_000))]
    pub verify_interval_ms: u32,
    /// How much of the log may be read ahead, bytes.
    #[garde(range(min = 65_536, max = 1_073_741_824))]
    pub max_queued_bytes: usize,
    /// How absent users are rebuilt.
    #[garde(dive)]
    pub rebuild: RebuildConfig,
}

impl Default for ProjectorUnreadConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7304)),
            interval_ms: 5,
            max_pending: 20_000,
            verify_interval_ms: 500,
            max_queued_bytes: 16 << 20,
            rebuild: RebuildConfig::default(),
        }
    }
}

impl ProjectorUnreadConfig {
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            group: "projector-unread".to_owned(),
            max_pending: self.max_pending,
            interval: Duration::from_millis(self.interval_ms.into()),
            verify_every: Duration::from_millis(self.verify_interval_ms.into()),
            max_queued_bytes: self.max_queued_bytes,
            if_deleted: "To go on without them, empty this Redis: counts come back from the contacts; and raise the \
                         topic's retention.ms",
            if_truncated: |_partition| {
                "`tidemark rebuild contacts`, and only then empty this Redis: counts come back from the contacts"
                    .to_owned()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_unknown_keys_are_rejected() {
        let config = Config::load(&ConfigSource::default()).unwrap();
        assert_eq!(config.projector_unread.listen.to_string(), "127.0.0.1:7304");
        let set = |key: &str, value: &str| {
            let overrides = [(format!("projector_unread.{key}"), value.to_owned())];
            Config::load(&ConfigSource::from_parts(None, [], &overrides).unwrap())
        };
        assert!(set("rebuild.lease_ms", "5000").is_ok());
        assert!(set("rebuild.lease_ms", "5").is_err());
        assert!(set("rebuild.lease", "5000").is_err());
        assert!(set("interval", "1").is_err());
    }
}

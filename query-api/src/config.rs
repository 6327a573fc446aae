use std::net::{Ipv4Addr, SocketAddr};

use access::AuthConfig;
use event_log::KafkaConfig;
use garde::Validate;
use message_store::MySqlConfig;
use serde::{Deserialize, Serialize};
use service_runtime::{ConfigError, ConfigSource};
use unread_rebuild::RebuildConfig;
use unread_store::RedisConfig;

/// The configuration of the query API.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Config {
    /// Section `query_api`.
    pub query_api: QueryApiConfig,
    /// Section `kafka`.
    pub kafka: KafkaConfig,
    /// Section `mysql`.
    pub mysql: MySqlConfig,
    /// Section `redis`.
    pub redis: RedisConfig,
    /// Section `auth`.
    pub auth: AuthConfig,
}

impl Config {
    /// Reads the sections that the query API uses.
    ///
    /// # Errors
    /// A value of one of them that is unknown, of the wrong type or out of bounds.
    pub fn load(source: &ConfigSource) -> Result<Self, ConfigError> {
        Ok(Self {
            query_api: source.section("query_api")?,
            kafka: source.section("kafka")?,
            mysql: source.section("mysql")?,
            redis: source.section("redis")?,
            auth: source.section("auth")?,
        })
    }
}

/// Section `query_api`.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct QueryApiConfig {
    /// Address of the API, `address:port`.
    #[garde(skip)]
    pub listen: SocketAddr,
    /// How many calls are processed at a time; more are answered 429. A call that waits (for a store that lags, for a reader of the log, or for an
    /// earlier call of its user) does not count.
    #[garde(range(min = 1, max = 100_000))]
    pub max_requests: usize,
    /// How many calls may wait beside those of `max_requests`; more are answered 429. A waiting call keeps its connection at the listener, so this
    /// should be well below `http.max_connections`.
    #[garde(range(min = 1, max = 1_000_000))]
    pub max_waiting: usize,
    /// How many calls one user, by their token, may have under way, waiting or not; more are answered 429.
    #[garde(range(min = 1, max = 100_000))]
    pub max_requests_of_user: usize,
    /// How many calls of `/v1/inbound` read the log at a time, each over a Kafka connection of its own. One user (by the token) may have a quarter of
    /// them, at least one. More calls wait; next is the account that has read for the shortest time. The minimum is two, so that one user never has
    /// all of them.
    #[garde(range(min = 2, max = 64))]
    pub inbound_lookups: usize,
    /// How many records one call of `/v1/inbound` reads at most before it gives up.
    #[garde(range(min = 1, max = 100_000_000))]
    pub inbound_scan_records: usize,
    /// After this time a projection that has not moved, while the log did, is stalled: unread counts are then those of the contact rows.
    /// Milliseconds.
    #[garde(range(min = 1_000, max = 3_600_000))]
    pub stalled_after_ms: u64,
    /// How users that Redis lacks are rebuilt.
    #[garde(dive)]
    pub rebuild: RebuildConfig,
}

impl Default for QueryApiConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7302)),
            max_requests: 256,
            max_waiting: 2_048,
            max_requests_of_user: 16,
            inbound_lookups: 4,
            inbound_scan_records: 20_000,
            stalled_after_ms: 30_000,
            rebuild: RebuildConfig::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(key: &str, value: &str) -> Result<Config, ConfigError> {
        let overrides = [(key.to_owned(), value.to_owned())];
        Config::load(&ConfigSource::from_parts(None, [], &overrides)?)
    }

    #[test]
    fn the_defaults_are_valid() {
        let config = Config::load(&ConfigSource::default()).unwrap();
        assert_eq!(config.query_api.listen.to_string(), "127.0.0.1:7302");
    }

    #[test]
    fn values_out_of_range_are_rejected() {
        assert!(load("query_api.max_requests", "1").is_ok());
        assert!(load("query_api.max_requests", "0").is_err());
        assert!(load("query_api.max_waiting", "0").is_err());
        assert!(load("query_api.max_requests_of_user", "0").is_err());
        assert!(load("query_api.inbound_lookups", "1").is_err());
        assert!(load("query_api.inbound_lookups", "65").is_err());
        assert!(load("query_api.no_such_key", "1").is_err());
    }
}

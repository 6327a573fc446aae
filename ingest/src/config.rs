use access::AuthConfig;
use event_log::KafkaConfig;
use message_store::MySqlConfig;
use posting::{GroupsConfig, IngestConfig};
use serde::Serialize;
use service_runtime::{ConfigError, ConfigSource};

/// Everything that ingest is configured by.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Config {
    /// Section `ingest`.
    pub ingest: IngestConfig,
    /// Section `kafka`.
    pub kafka: KafkaConfig,
    /// Section `auth`.
    pub auth: AuthConfig,
    /// Section `groups`: who may be added to them.
    pub groups: GroupsConfig,
    /// Section `mysql`: what users have done and say about that. If `groups` sets nothing, ingest does not connect to it.
    pub mysql: MySqlConfig,
}

impl Config {
    /// Reads the sections that ingest uses.
    ///
    /// # Errors
    /// A value of one of them that is unknown, of the wrong type or out of bounds.
    pub fn load(source: &ConfigSource) -> Result<Self, ConfigError> {
        let posting::Config { ingest, groups } = posting::Config::load(source)?;
        Ok(Self {
            ingest,
            groups,
            kafka: source.section("kafka")?,
            auth: source.section("auth")?,
            mysql: source.section("mysql")?,
        })
    }
}

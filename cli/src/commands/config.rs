use access::{AuthConfig, Verifier};
use dev_stack::StackConfig;
use event_log::{KafkaConfig, LogReader};
use gateway::GatewayConfig;
use message_store::MySqlConfig;
use posting::{GroupsConfig, IngestConfig, check_dictionary};
use projector_mysql::ProjectorMySqlConfig;
use projector_unread::ProjectorUnreadConfig;
use query_api::QueryApiConfig;
use sequencer::SequencerConfig;
use serde_json::Value;
use service_runtime::{
    ConfigError, ConfigSource, HttpConfig, RuntimeConfig, ValueError, telemetry::TelemetryConfig,
    with_causes,
};
use unread_store::{RedisConfig, UnreadStore};

use crate::{args::ConfigCommand, client_config::ClientConfig, listener_check};

pub(super) fn run(
    source: &ConfigSource,
    command: &ConfigCommand,
    json: bool,
) -> anyhow::Result<()> {
    let sections = effective(source)?;
    if matches!(command, ConfigCommand::Check) {
        listener_check::check(source)?;
        Verifier::open(&source.section::<AuthConfig>("auth")?)?;
        check_dictionary(&source.section::<IngestConfig>("ingest")?)?;
        check_libraries(source)?;
    }
    match command {
        ConfigCommand::Check if json => println!("{}", serde_json::json!({ "fine": true })),
        ConfigCommand::Print if json => println!("{sections}"),
        ConfigCommand::Check => println!("the configuration is fine"),
        ConfigCommand::Print => print!("{}", toml::to_string(&without_nulls(sections))?),
    }
    Ok(())
}

/// Checks settings that only a library can validate, such as the files that they name. Connects to nothing.
fn check_libraries(source: &ConfigSource) -> anyhow::Result<()> {
    if let Some(tls) = source.section::<HttpConfig>("http")?.tls {
        tls.check().map_err(|error| refused("http.tls", error))?;
    }
    let kafka: KafkaConfig = source.section("kafka")?;
    LogReader::new(&kafka).map_err(|error| refused("kafka", error))?;
    let redis: RedisConfig = source.section("redis")?;
    UnreadStore::new(&redis).map_err(|error| refused("redis", error))?;
    Ok(())
}

fn refused(key: &str, error: impl Into<anyhow::Error>) -> ConfigError {
    ConfigError::Values(vec![ValueError {
        origin: "the configuration".to_owned(),
        key: key.to_owned(),
        problem: format!("is refused: {}", with_causes(&error.into())),
    }])
}

/// Fails if any section has an invalid value.
pub(super) fn check_sections(source: &ConfigSource) -> Result<(), ConfigError> {
    effective(source).map(drop)
}

/// The effective settings of every section, secrets redacted.
fn effective(source: &ConfigSource) -> Result<Value, ConfigError> {
    let sections = [
        ("auth", source.effective::<AuthConfig>("auth")?),
        ("client", source.effective::<ClientConfig>("client")?),
        ("gateway", source.effective::<GatewayConfig>("gateway")?),
        ("groups", source.effective::<GroupsConfig>("groups")?),
        ("http", source.effective::<HttpConfig>("http")?),
        ("ingest", source.effective::<IngestConfig>("ingest")?),
        ("kafka", source.effective::<KafkaConfig>("kafka")?),
        ("mysql", source.effective::<MySqlConfig>("mysql")?),
        (
            "projector_mysql",
            source.effective::<ProjectorMySqlConfig>("projector_mysql")?,
        ),
        (
            "projector_unread",
            source.effective::<ProjectorUnreadConfig>("projector_unread")?,
        ),
        (
            "query_api",
            source.effective::<QueryApiConfig>("query_api")?,
        ),
        ("redis", source.effective::<RedisConfig>("redis")?),
        ("runtime", source.effective::<RuntimeConfig>("runtime")?),
        (
            "sequencer",
            source.effective::<SequencerConfig>("sequencer")?,
        ),
        ("stack", source.effective::<StackConfig>("stack")?),
        (
            "telemetry",
            source.effective::<TelemetryConfig>("telemetry")?,
        ),
    ];
    Ok(sections
        .into_iter()
        .map(|(name, section)| (name.to_owned(), section))
        .collect())
}

/// TOML has no null: absent settings are left out.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(settings) => settings
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_accepts_every_profile() {
        for profile in ["latency", "throughput"] {
            let overrides = [("runtime.profile".to_owned(), profile.to_owned())];
            let source = ConfigSource::from_parts(None, [], &overrides).unwrap();
            let sections = effective(&source).unwrap();
            assert_eq!(sections["runtime"]["profile"], profile);
        }
    }
}

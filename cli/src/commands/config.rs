use event_log::KafkaConfig;
use ingest::IngestConfig;
use message_store::MySqlConfig;
use native_stack::StackConfig;
use projector_mysql::ProjectorMySqlConfig;
use projector_unread::ProjectorUnreadConfig;
use query_api::QueryApiConfig;
use sequencer::SequencerConfig;
use serde_json::Value;
use service_runtime::{
    ConfigError, ConfigSource, HttpConfig, RuntimeConfig, telemetry::TelemetryConfig,
};
use unread_store::RedisConfig;

use crate::{args::ConfigCommand, client_config::ClientConfig, listeners};

pub(super) fn run(
    source: &ConfigSource,
    command: &ConfigCommand,
    json: bool,
) -> anyhow::Result<()> {
    let sections = effective(source)?;
    if matches!(command, ConfigCommand::Check) {
        listeners::check(source)?;
    }
    match command {
        ConfigCommand::Check if json => println!("{}", serde_json::json!({ "fine": true })),
        ConfigCommand::Print if json => println!("{sections}"),
        ConfigCommand::Check => println!("the configuration is fine"),
        ConfigCommand::Print => print!("{}", toml::to_string(&without_nulls(sections))?),
    }
    Ok(())
}

/// Every section as it is in force, secrets redacted.
fn effective(source: &ConfigSource) -> Result<Value, ConfigError> {
    let sections = [
        ("client", source.effective::<ClientConfig>("client")?),
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

/// TOML has no null: a setting that is absent is left out.
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

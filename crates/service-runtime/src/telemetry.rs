//! Structured logs on standard error.

use std::io::{self, IsTerminal as _};

use serde::{Deserialize, Serialize};
use tracing::info;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

/// Section `telemetry`.
#[derive(Debug, Clone, Serialize, Deserialize, garde::Validate)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// The form of a log line.
    #[garde(skip)]
    pub format: LogFormat,
    /// What is logged, in the form of `RUST_LOG` (which overrides it): `info`, `warn,ingest=debug`.
    #[garde(custom(is_filter))]
    pub filter: String,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON anywhere else.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            filter: "info".to_owned(),
        }
    }
}

/// Installs the log subscriber of this process. A second call changes nothing.
///
/// # Errors
/// If `RUST_LOG` or the configured filter is invalid.
pub fn init(config: &TelemetryConfig) -> anyhow::Result<()> {
    let filter = filter(config)?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // An internal error would go to the log itself, and panic if the log cannot be written.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    let installed = match config.format.on_this_stderr() {
        LogFormat::Json => subscriber
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .try_init(),
        LogFormat::Text | LogFormat::Auto => {
            subscriber.with_ansi(io::stderr().is_terminal()).try_init()
        }
    };
    if installed.is_err() {
        tracing::debug!("a log subscriber was installed before");
    }
    Ok(())
}

/// The first line of every process: what it is.
pub fn start_report(name: &str, version: &str) {
    info!(process = name, version, "starting");
}

/// The configuration in effect, once. Secrets are redacted by their type.
pub fn report_config(config: &impl Serialize) {
    match serde_json::to_string(config) {
        Ok(config) => info!(%config, "configuration in effect"),
        Err(error) => tracing::warn!(%error, "the configuration cannot be shown"),
    }
}

impl LogFormat {
    fn on_this_stderr(self) -> Self {
        match self {
            Self::Auto if io::stderr().is_terminal() => Self::Text,
            Self::Auto => Self::Json,
            chosen => chosen,
        }
    }
}

fn filter(config: &TelemetryConfig) -> Result<EnvFilter, ParseError> {
    match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(directives) if !directives.is_empty() => EnvFilter::builder().parse(directives),
        _ => EnvFilter::builder().parse(&config.filter),
    }
}

fn is_filter(filter: &str, _context: &()) -> garde::Result {
    // `EnvFilter` takes any other word for the name of a target, and then logs nothing else.
    let bare = |word: &&str| !word.is_empty() && !word.contains(['=', '[']);
    let mut bare = filter.split(',').map(str::trim).filter(bare);
    if let Some(word) = bare.find(|word| word.parse::<LevelFilter>().is_err()) {
        return Err(garde::Error::new(format!(
            "{word:?} is no level; must be off, error, warn, info, debug or trace, or a filter such as info,ingest=debug"
        )));
    }
    EnvFilter::builder()
        .parse(filter)
        .map(|_| ())
        .map_err(|error| {
            garde::Error::new(format!(
                "{error}; must be a filter such as info,ingest=debug"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for filter in ["info", "OFF", "warn,ingest=debug", "ingest[span]=info", ""] {
            assert!(is_filter(filter, &()).is_ok(), "{filter}");
        }
        for filter in ["inof", "1.5", "info,ingest"] {
            let refused = is_filter(filter, &()).unwrap_err().to_string();
            assert!(refused.contains("warn, info, debug"), "{refused}");
        }
    }
}

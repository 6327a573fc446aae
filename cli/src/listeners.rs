//! What a configuration says of listeners that could not all be opened.

use std::net::SocketAddr;

use ingest::IngestConfig;
use projector_mysql::ProjectorMySqlConfig;
use projector_unread::ProjectorUnreadConfig;
use query_api::QueryApiConfig;
use sequencer::SequencerConfig;
use service_runtime::{ConfigError, ConfigSource, HttpConfig, ValueError};

/// Refuses listeners that other machines can reach where nothing allows that, and two that are one.
pub(crate) fn check(source: &ConfigSource) -> Result<(), ConfigError> {
    let http: HttpConfig = source.section("http")?;
    let listeners = [
        ("ingest", source.section::<IngestConfig>("ingest")?.listen),
        (
            "sequencer",
            source.section::<SequencerConfig>("sequencer")?.listen,
        ),
        (
            "projector_unread",
            source
                .section::<ProjectorUnreadConfig>("projector_unread")?
                .listen,
        ),
        (
            "projector_mysql",
            source
                .section::<ProjectorMySqlConfig>("projector_mysql")?
                .listen,
        ),
        (
            "query_api",
            source.section::<QueryApiConfig>("query_api")?.listen,
        ),
    ];
    let mut refused = Vec::new();
    for (i, (section, listen)) in listeners.iter().enumerate() {
        let mut refuse = |problem: String| {
            refused.push(ValueError {
                origin: source.origin(section, "listen"),
                key: format!("{section}.listen"),
                problem,
            });
        };
        if !listen.ip().is_loopback() && !http.allow_non_loopback {
            refuse(format!(
                "is {listen}, which other machines can reach; must be on 127.0.0.1, or http.allow_non_loopback must be true"
            ));
        }
        for (other, _) in listeners[..i]
            .iter()
            .filter(|(_, other)| clash(*listen, *other))
        {
            refuse(format!(
                "is {listen}, as {other}.listen; must be an address of its own"
            ));
        }
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Values(refused))
    }
}

/// Port 0 is another one each time, and "every address" includes each.
fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let same_ip = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port() && a.port() != 0 && same_ip
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: &[(&str, &str)]) -> String {
        let settings: Vec<_> = settings
            .iter()
            .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
            .collect();
        let source = ConfigSource::from_parts(None, [], &settings).unwrap();
        check(&source).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn listeners_that_could_not_be_opened_are_refused() {
        assert_eq!(refused(&[]), "");
        let open = ("ingest.listen", "0.0.0.0:7301");
        assert!(refused(&[open]).starts_with("--set ingest.listen: ingest.listen is 0.0.0.0:7301"));
        assert_eq!(refused(&[open, ("http.allow_non_loopback", "true")]), "");
        let twice = refused(&[("sequencer.listen", "127.0.0.1:7301")]);
        assert!(twice.contains("as ingest.listen"), "{twice}");
    }
}

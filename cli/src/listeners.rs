//! What a configuration says of listeners that could not all be opened.

use std::net::SocketAddr;

use access::AuthConfig;
use ingest::IngestConfig;
use projector_mysql::ProjectorMySqlConfig;
use projector_unread::ProjectorUnreadConfig;
use query_api::QueryApiConfig;
use sequencer::SequencerConfig;
use service_runtime::{ConfigError, ConfigSource, HttpConfig, ValueError};

/// Refuses listeners that other machines can reach where nothing allows that, and two that are one.
pub(crate) fn check(source: &ConfigSource) -> Result<(), ConfigError> {
    let http: HttpConfig = source.section("http")?;
    let auth: AuthConfig = source.section("auth")?;
    let of_probes = (
        http.allow_non_loopback,
        "http.allow_non_loopback must be true",
    );
    let of_calls = (
        auth.is_configured() || auth.allow_anyone,
        "[auth] must say who may call",
    );
    let listeners = [
        (
            "ingest",
            source.section::<IngestConfig>("ingest")?.listen,
            of_calls,
        ),
        (
            "sequencer",
            source.section::<SequencerConfig>("sequencer")?.listen,
            of_probes,
        ),
        (
            "projector_unread",
            source
                .section::<ProjectorUnreadConfig>("projector_unread")?
                .listen,
            of_probes,
        ),
        (
            "projector_mysql",
            source
                .section::<ProjectorMySqlConfig>("projector_mysql")?
                .listen,
            of_probes,
        ),
        (
            "query_api",
            source.section::<QueryApiConfig>("query_api")?.listen,
            of_calls,
        ),
    ];
    let mut refused = Vec::new();
    for (i, (section, listen, (is_allowed, remedy))) in listeners.iter().enumerate() {
        let mut refuse = |problem: String| {
            refused.push(ValueError {
                origin: source.origin(section, "listen"),
                key: format!("{section}.listen"),
                problem,
            });
        };
        if !listen.ip().is_loopback() && !is_allowed {
            refuse(format!(
                "is {listen}, which other machines can reach; must be on 127.0.0.1, or {remedy}"
            ));
        }
        for (other, ..) in listeners[..i]
            .iter()
            .filter(|(_, other, _)| clash(*listen, *other))
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
        let probes = ("sequencer.listen", "0.0.0.0:7303");
        let allow_probes = ("http.allow_non_loopback", "true");
        assert_eq!(refused(&[probes, allow_probes]), "");
        assert!(refused(&[open, allow_probes]).ends_with("or [auth] must say who may call"));
        for way in [
            ("auth.keys_file", "keys.toml"),
            ("auth.allow_anyone", "true"),
        ] {
            assert_eq!(refused(&[open, way]), "");
            assert!(refused(&[probes, way]).contains("http.allow_non_loopback"));
        }
        let twice = refused(&[("sequencer.listen", "127.0.0.1:7301")]);
        assert!(twice.contains("as ingest.listen"), "{twice}");
    }
}

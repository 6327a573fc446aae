//! Checks the listeners of a configuration against each other and the listener policy.

use std::net::SocketAddr;

use access::AuthConfig;
use gateway::GatewayConfig;
use posting::IngestConfig;
use projector_mysql::ProjectorMySqlConfig;
use projector_unread::ProjectorUnreadConfig;
use query_api::QueryApiConfig;
use sequencer::SequencerConfig;
use service_runtime::{ConfigError, ConfigSource, HttpConfig, ValueError};

/// A listener, and the setting that allows other machines to reach it.
struct Listener {
    section: &'static str,
    listen: SocketAddr,
    may_be_open: bool,
    remedy: &'static str,
}

/// Refuses listeners that other machines can reach without permission, and two listeners on one address.
pub(crate) fn check(source: &ConfigSource) -> Result<(), ConfigError> {
    let listeners = listeners(source)?;
    let mut refused = Vec::new();
    for (i, listener) in listeners.iter().enumerate() {
        let Listener { section, .. } = listener;
        refused.extend(
            problems(listener, &listeners[..i]).map(|problem| ValueError {
                origin: source.origin(section, "listen"),
                key: format!("{section}.listen"),
                problem,
            }),
        );
    }
    if refused.is_empty() {
        Ok(())
    } else {
        Err(ConfigError::Values(refused))
    }
}

fn listeners(source: &ConfigSource) -> Result<[Listener; 6], ConfigError> {
    let http: HttpConfig = source.section("http")?;
    let auth: AuthConfig = source.section("auth")?;
    let of_probes = |section, listen| Listener {
        section,
        listen,
        may_be_open: http.allow_non_loopback,
        remedy: "http.allow_non_loopback must be true",
    };
    let of_calls = |section, listen| Listener {
        section,
        listen,
        may_be_open: auth.is_configured() || auth.allow_anyone,
        remedy: "[auth] must say who may call",
    };
    let ingest: IngestConfig = source.section("ingest")?;
    let sequencer: SequencerConfig = source.section("sequencer")?;
    let unread: ProjectorUnreadConfig = source.section("projector_unread")?;
    let mysql: ProjectorMySqlConfig = source.section("projector_mysql")?;
    let query: QueryApiConfig = source.section("query_api")?;
    let gateway: GatewayConfig = source.section("gateway")?;
    Ok([
        of_calls("ingest", ingest.listen),
        of_probes("sequencer", sequencer.listen),
        of_probes("projector_unread", unread.listen),
        of_probes("projector_mysql", mysql.listen),
        of_calls("query_api", query.listen),
        of_calls("gateway", gateway.listen),
    ])
}

/// The problems of a listener, given the others.
fn problems(listener: &Listener, others: &[Listener]) -> impl Iterator<Item = String> {
    let Listener {
        listen,
        may_be_open,
        remedy,
        ..
    } = listener;
    let is_open = !listen.ip().is_loopback() && !may_be_open;
    let open = is_open.then(|| {
        format!("is {listen}, which other machines can reach; must be on 127.0.0.1, or {remedy}")
    });
    let same = others.iter().filter(|other| clash(*listen, other.listen));
    let same = same.map(move |Listener { section, .. }| {
        format!("is {listen}, as {section}.listen; must be an address of its own")
    });
    open.into_iter().chain(same)
}

/// Port 0 never clashes, and an unspecified address clashes with every other.
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

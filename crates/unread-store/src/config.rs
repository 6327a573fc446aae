use std::{path::PathBuf, time::Duration};

use garde::Validate;
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    TlsCertificates,
};
use serde::{Deserialize, Serialize};
use service_runtime::{Secret, install_crypto_provider};

use crate::UnreadError;

/// Section `redis`.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct RedisConfig {
    /// `redis://host:port`, or `rediss://host:port` for TLS; without credentials. For a cluster, some of its nodes, which name the others:
    /// `redis://host:port,host:port`.
    #[garde(custom(is_plain_url(self.cluster)))]
    pub url: String,
    /// Whether it is a Redis Cluster. Every key then begins with the hash tag `{n}`, n = uid mod 64.
    #[garde(skip)]
    pub cluster: bool,
    /// PEM file with the authorities that may sign the server's certificate; absent: those of the system.
    #[garde(custom(is_readable), custom(needs_tls(&self.url)))]
    pub tls_ca: Option<PathBuf>,
    /// PEM file with this client's own certificate, for a server that asks for one.
    #[garde(custom(is_readable), custom(needs_tls(&self.url)), custom(comes_with("redis.tls_key", self.tls_key.is_some())))]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the key of that certificate, not encrypted.
    #[garde(custom(is_readable), custom(needs_tls(&self.url)), custom(comes_with("redis.tls_cert", self.tls_cert.is_some())))]
    pub tls_key: Option<PathBuf>,
    /// The user of Redis's access lists; without one, Redis's `default`.
    #[garde(inner(length(min = 1)), custom(comes_with("redis.password", self.password.is_some())))]
    pub username: Option<String>,
    /// The user's password.
    #[garde(skip)]
    pub password: Option<Secret>,
    /// Prefix of every key; empty for the frozen names.
    #[garde(length(max = 100), custom(has_no_braces))]
    pub key_prefix: String,
    /// How long a user's keys live after the user's last read, milliseconds; must be longer than any rebuild of them.
    #[garde(range(min = 3_600_000, max = TEN_YEARS_MS))]
    pub expiry_ms: u64,
    /// Timeout of connecting, milliseconds.
    #[garde(range(min = 1, max = 600_000))]
    pub connect_timeout_ms: u64,
    /// Timeout of a response, milliseconds. A batch of many users is one response.
    #[garde(range(min = 1, max = 600_000))]
    pub response_timeout_ms: u64,
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const TEN_YEARS_MS: u64 = 3_650 * DAY_MS;

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:7379".to_owned(),
            cluster: false,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            username: None,
            password: None,
            key_prefix: String::new(),
            expiry_ms: 30 * DAY_MS,
            connect_timeout_ms: 2_000,
            response_timeout_ms: 5_000,
        }
    }
}

impl RedisConfig {
    /// Clients of the servers in the URL, at least one. They have not connected yet.
    pub(crate) fn clients(&self) -> Result<Vec<Client>, UnreadError> {
        let infos = parse_urls(&self.url).map_err(UnreadError::Url)?;
        infos.into_iter().map(|info| self.client(info)).collect()
    }

    fn client(&self, info: ConnectionInfo) -> Result<Client, UnreadError> {
        let info = self.with_credentials(info);
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Client::open(info).map_err(UnreadError::Transient);
        }
        install_crypto_provider();
        let certificates = TlsCertificates {
            root_cert: read("tls_ca", self.tls_ca.as_ref())?,
            client_tls: read("tls_cert", self.tls_cert.as_ref())?
                .zip(read("tls_key", self.tls_key.as_ref())?)
                .map(|(client_cert, client_key)| ClientTlsConfig {
                    client_cert,
                    client_key,
                }),
        };
        Client::build_with_tls(info, certificates).map_err(|error| {
            let files = "must be PEM files, a key not encrypted";
            UnreadError::Tls(format!(
                "tls_ca, redis.tls_cert or redis.tls_key cannot be used: {error}; {files}"
            ))
        })
    }

    fn with_credentials(&self, info: ConnectionInfo) -> ConnectionInfo {
        let mut settings = info.redis_settings().clone();
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password.expose());
        }
        info.set_redis_settings(settings)
    }

    pub(crate) fn timeouts(&self) -> redis::AsyncConnectionConfig {
        redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_millis(self.connect_timeout_ms)))
            .set_response_timeout(Some(Duration::from_millis(self.response_timeout_ms)))
    }
}

/// One URL for each of the comma-separated hosts.
fn parse_urls(url: &str) -> Result<Vec<ConnectionInfo>, String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (hosts, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let urls = hosts
        .split(',')
        .map(|host| parse_url(&format!("{scheme}://{host}{path}")));
    urls.collect()
}

fn parse_url(url: &str) -> Result<ConnectionInfo, String> {
    let info = url.into_connection_info().map_err(|_| {
        "is not a URL of Redis; write redis://host:port or rediss://host:port".to_owned()
    })?;
    if let ConnectionAddr::TcpTls { insecure: true, .. } = info.addr() {
        return Err(
            "turns verification off; leave #insecure out, and name the authority in redis.tls_ca"
                .to_owned(),
        );
    }
    let settings = info.redis_settings();
    if settings.username().is_some() || settings.password().is_some() {
        return Err(
            "has credentials; put them into redis.username and redis.password, which are never shown"
                .to_owned(),
        );
    }
    Ok(info)
}

fn is_plain_url(cluster: bool) -> impl FnOnce(&String, &()) -> garde::Result {
    move |url, ()| {
        let servers = parse_urls(url).map_err(garde::Error::new)?;
        if !cluster && servers.len() > 1 {
            return Err(garde::Error::new(
                "names several servers; name one, or set redis.cluster",
            ));
        }
        if cluster
            && servers
                .iter()
                .any(|server| server.redis_settings().db() != 0)
        {
            return Err(garde::Error::new(
                "names a database, and a Redis Cluster has only one; leave the number out",
            ));
        }
        Ok(())
    }
}

/// Refuses a certificate for a connection without TLS, which would silently ignore it.
fn needs_tls(url: &str) -> impl FnOnce(&Option<PathBuf>, &()) -> garde::Result {
    let encrypted = url.starts_with("rediss://");
    move |file, ()| match file {
        Some(_) if !encrypted => Err(garde::Error::new(
            "needs a redis.url that begins with rediss://",
        )),
        _ => Ok(()),
    }
}

fn comes_with<T>(name: &'static str, other: bool) -> impl FnOnce(&Option<T>, &()) -> garde::Result {
    move |value, ()| match value {
        Some(_) if !other => Err(garde::Error::new(format!("needs {name} beside it"))),
        _ => Ok(()),
    }
}

fn is_readable(file: &Option<PathBuf>, (): &()) -> garde::Result {
    let Some(file) = file else { return Ok(()) };
    match std::fs::read(file) {
        Ok(_) => Ok(()),
        Err(error) => Err(garde::Error::new(unreadable(file, &error))),
    }
}

fn unreadable(file: &std::path::Path, error: &std::io::Error) -> String {
    let file = file.display();
    format!("names {file}, which cannot be read: {error}; must be a readable PEM file")
}

const PEM: &[u8] = b"-----BEGIN ";

fn read(setting: &str, file: Option<&PathBuf>) -> Result<Option<Vec<u8>>, UnreadError> {
    let Some(file) = file else { return Ok(None) };
    match std::fs::read(file) {
        // The client accepts a bundle without certificates, and then trusts no server.
        Ok(content) if !content.windows(PEM.len()).any(|at| at == PEM) => Err(UnreadError::Tls(
            format!("{setting} names {}, which is no PEM file", file.display()),
        )),
        Ok(content) => Ok(Some(content)),
        Err(error) => Err(UnreadError::Tls(format!(
            "{setting} {}",
            unreadable(file, &error)
        ))),
    }
}

fn has_no_braces(prefix: &str, _: &()) -> garde::Result {
    if prefix.contains(['{', '}']) {
        return Err(garde::Error::new(
            "has a brace, which would determine the key's slot; leave braces out",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_unknown_keys_are_rejected() {
        RedisConfig::default().validate().unwrap();
        assert!(serde_json::from_str::<RedisConfig>(r#"{"ttl_ms": 1}"#).is_err());
    }

    #[test]
    fn credentials_in_the_url_are_rejected() {
        let config = RedisConfig {
            url: "redis://me:secret@127.0.0.1:7379".to_owned(),
            ..RedisConfig::default()
        };
        let report = config.validate().unwrap_err().to_string();
        assert!(report.contains("credentials"), "{report}");
        assert!(!report.contains("secret@"), "{report}");
    }

    #[test]
    fn settings_that_would_be_ignored_are_rejected() {
        let refused = |change: fn(&mut RedisConfig)| {
            let mut config = RedisConfig::default();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        let said = refused(|config| config.tls_ca = Some("/dev/null".into()));
        assert!(
            said.contains("tls_ca: needs a redis.url that begins with rediss://"),
            "{said}"
        );
        let said = refused(|config| config.username = Some("me".to_owned()));
        assert!(
            said.contains("username: needs redis.password beside it"),
            "{said}"
        );
        let said = refused(|config| config.url = "redis://a:1,b:2".to_owned());
        assert!(said.contains("url: names several servers"), "{said}");
        let said = refused(|config| {
            config.url = "redis://a:1,b:2/3".to_owned();
            config.cluster = true;
        });
        assert!(said.contains("url: names a database"), "{said}");
        let said = refused(|config| config.url = "rediss://h:1/#insecure".to_owned());
        assert!(said.contains("leave #insecure out"), "{said}");
        let said = refused(|config| {
            config.url = "rediss://h:1".to_owned();
            config.tls_ca = Some("/no/such/ca.pem".into());
        });
        assert!(said.contains("tls_ca: names /no/such/ca.pem"), "{said}");
    }

    #[test]
    fn a_url_may_name_several_nodes_of_a_cluster() {
        let config = RedisConfig {
            url: "redis://a:1,b:2,[::1]:3".to_owned(),
            cluster: true,
            ..RedisConfig::default()
        };
        config.validate().unwrap();
        let clients = config.clients().unwrap();
        let addresses = clients
            .iter()
            .map(|client| client.get_connection_info().addr().to_string());
        assert_eq!(addresses.collect::<Vec<_>>(), ["a:1", "b:2", "::1:3"]);
    }

    #[test]
    fn username_and_password_reach_the_client() {
        let config = RedisConfig {
            username: Some("me".to_owned()),
            password: Some(Secret::from("secret")),
            ..RedisConfig::default()
        };
        let clients = config.clients().unwrap();
        let info = clients[0].get_connection_info();
        assert_eq!(info.redis_settings().username(), Some("me"));
        assert_eq!(info.redis_settings().password(), Some("secret"));
        assert!(!serde_json::to_string(&config).unwrap().contains("secret"));
    }
}

use std::{path::PathBuf, str::FromStr};

use garde::Validate;
use schemas::PARTITIONS;
use serde::{Deserialize, Serialize};
use service_runtime::{Secret, check_certificates};

/// How to reach MySQL, and how the tables are spread there (section `mysql`).
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct MySqlConfig {
    /// 1 to 4 servers; the databases are assigned to them in contiguous runs.
    #[garde(dive, length(min = 1, max = 4))]
    pub servers: Vec<ServerConfig>,
    /// User, for every server that names none of its own.
    #[garde(length(min = 1, max = 80))]
    pub user: String,
    /// The password of `user`.
    #[garde(skip)]
    pub password: Secret,
    /// How many databases the 64 tables of each kind are spread over: a power of two up to 64, at least one a server.
    /// It cannot be changed once there are tables: `tidemark db apply` refuses.
    #[garde(custom(spreads_evenly), custom(at_least(self.servers.len())))]
    pub databases: u8,
    /// In front of the number in every database's name.
    #[garde(length(min = 1, max = 32), custom(plain_name))]
    pub database_prefix: String,
    /// The most connections of this process to one server.
    #[garde(range(min = 2, max = 1000))]
    pub connections_per_server: u32,
    /// How long to wait for a free or new connection, milliseconds.
    #[garde(range(min = 1, max = 600_000))]
    pub connect_timeout_ms: u64,
    /// How long to wait for the answer to one statement, milliseconds.
    #[garde(range(min = 1, max = 600_000))]
    pub statement_timeout_ms: u64,
}

impl Default for MySqlConfig {
    fn default() -> Self {
        Self {
            servers: vec![ServerConfig::default()],
            user: "tidemark".to_owned(),
            password: Secret::from("tidemark"),
            databases: 4,
            database_prefix: "im_".to_owned(),
            connections_per_server: 8,
            connect_timeout_ms: 3_000,
            statement_timeout_ms: 30_000,
        }
    }
}

impl MySqlConfig {
    /// User and password for a server.
    #[must_use]
    pub fn login<'a>(&'a self, server: &'a ServerConfig) -> (&'a str, &'a Secret) {
        let user = server.user.as_ref().unwrap_or(&self.user);
        (user, server.password.as_ref().unwrap_or(&self.password))
    }
}

/// One server.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Name or address.
    #[garde(length(min = 1, max = 255))]
    pub host: String,
    /// Port.
    #[garde(range(min = 1))]
    pub port: u16,
    /// User; absent: `mysql.user`.
    #[garde(inner(length(min = 1, max = 80)), custom(comes_with("password", self.password.is_some())))]
    pub user: Option<String>,
    /// Password; absent: `mysql.password`.
    #[garde(custom(comes_with("user", self.user.is_some())))]
    pub password: Option<Secret>,
    /// Whether the connection is encrypted.
    #[garde(skip)]
    pub tls: TlsMode,
    /// PEM file with the authorities that may sign the server's certificate; absent: the public web's authorities.
    #[garde(custom(is_looked_at(self.tls)), custom(has_certificates))]
    pub tls_ca: Option<PathBuf>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 7306,
            user: None,
            password: None,
            tls: TlsMode::Disabled,
            tls_ca: None,
        }
    }
}

/// Reads `mysql://user:password@host:port`, as the test servers give it. The parts are taken as they are: no `%40`.
impl FromStr for ServerConfig {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        // The text holds a password, so the complaint does not repeat it.
        let parts = || {
            let (login, address) = url.strip_prefix("mysql://")?.rsplit_once('@')?;
            let (user, password) = login.split_once(':')?;
            let (host, port) = address.trim_end_matches('/').rsplit_once(':')?;
            Some(Self {
                host: host.to_owned(),
                port: port.parse().ok()?,
                user: Some(user.to_owned()),
                password: Some(Secret::from(password)),
                ..Self::default()
            })
        };
        parts().ok_or_else(|| "not of the form mysql://user:password@host:port".to_owned())
    }
}

/// Whether a connection is encrypted. There is no "if possible": it would fall back to plain text in silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Plain text.
    #[default]
    Disabled,
    /// Encrypted; the certificate is not checked.
    Required,
    /// Encrypted, and an authority has signed the certificate.
    VerifyCa,
    /// Encrypted, and the certificate is that of the host.
    VerifyIdentity,
}

fn comes_with<T>(name: &'static str, other: bool) -> impl FnOnce(&Option<T>, &()) -> garde::Result {
    move |value, ()| match value {
        Some(_) if !other => Err(garde::Error::new(format!("needs {name} beside it"))),
        _ => Ok(()),
    }
}

/// Refuses a file of authorities for a `tls` under which the certificate is not checked: it would be silently ignored.
fn is_looked_at(tls: TlsMode) -> impl FnOnce(&Option<PathBuf>, &()) -> garde::Result {
    move |ca, ()| match tls {
        TlsMode::Disabled | TlsMode::Required if ca.is_some() => Err(garde::Error::new(
            "is compared with nothing; make tls verify-ca or verify-identity",
        )),
        _ => Ok(()),
    }
}

fn has_certificates(file: &Option<PathBuf>, (): &()) -> garde::Result {
    let Some(file) = file else { return Ok(()) };
    check_certificates(file).map_err(|problem| {
        let file = file.display();
        garde::Error::new(format!(
            "names {file}, which {problem}; must be a readable PEM file"
        ))
    })
}

fn spreads_evenly(databases: &u8, _: &()) -> garde::Result {
    if databases.is_power_of_two() && PARTITIONS.is_multiple_of(*databases) {
        Ok(())
    } else {
        Err(garde::Error::new("must be 1, 2, 4, 8, 16, 32 or 64"))
    }
}

fn at_least(servers: usize) -> impl FnOnce(&u8, &()) -> garde::Result {
    move |databases, ()| {
        if usize::from(*databases) < servers {
            return Err(garde::Error::new(format!(
                "must be at least {servers}, the number of servers"
            )));
        }
        Ok(())
    }
}

fn plain_name(prefix: &str, _: &()) -> garde::Result {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if prefix.chars().all(plain) {
        Ok(())
    } else {
        Err(garde::Error::new("may contain only a-z, 0-9 and _"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid(change: impl FnOnce(&mut MySqlConfig)) -> bool {
        let mut config = MySqlConfig::default();
        change(&mut config);
        config.validate().is_ok()
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(valid(|_| ()));
        assert!(valid(|c| c.databases = 64));
        assert!(!valid(|c| c.databases = 0));
        assert!(!valid(|c| c.databases = 3));
        assert!(!valid(|c| c.databases = 128));
        assert!(!valid(|c| c.servers.clear()));
        assert!(!valid(|c| {
            c.databases = 1;
            c.servers.push(ServerConfig::default());
        }));
        assert!(!valid(|c| c.database_prefix = "im`".to_owned()));
        assert!(!valid(|c| c.database_prefix = String::new()));
    }

    #[test]
    fn what_would_be_lost_in_silence_is_refused() {
        let refused = |change: fn(&mut ServerConfig)| {
            let mut config = MySqlConfig::default();
            change(&mut config.servers[0]);
            config.validate().unwrap_err().to_string()
        };
        for tls in ["tls_ca: is compared with nothing", "verify-identity"] {
            let said = refused(|server| server.tls_ca = Some("/dev/null".into()));
            assert!(said.contains(tls), "{said}");
        }
        let said = refused(|server| {
            server.tls = TlsMode::VerifyCa;
            server.tls_ca = Some("/dev/null".into());
        });
        assert!(
            said.contains("/dev/null, which has no certificates"),
            "{said}"
        );
        let said = refused(|server| {
            server.tls = TlsMode::VerifyCa;
            server.tls_ca = Some("/no/such/ca.pem".into());
        });
        assert!(
            said.contains("servers[0].tls_ca: names /no/such/ca.pem"),
            "{said}"
        );
        let said = refused(|server| server.user = Some("me".to_owned()));
        assert!(
            said.contains("servers[0].user: needs password beside it"),
            "{said}"
        );
    }

    #[test]
    fn a_server_without_a_user_takes_the_sections() {
        let mut config = MySqlConfig {
            user: "all".to_owned(),
            ..MySqlConfig::default()
        };
        assert_eq!(config.login(&config.servers[0]).0, "all");
        config.servers[0] = "mysql://own:p@h:1".parse().unwrap();
        assert_eq!(config.login(&config.servers[0]).0, "own");
    }

    #[test]
    fn a_password_is_not_printed() {
        let config = MySqlConfig::default();
        let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
        assert!(!shown.contains("\"password\":\"tidemark\""), "{shown}");
        assert!(!shown.contains("Secret(\"tidemark"), "{shown}");
    }

    #[test]
    fn a_url_names_a_server() {
        let server: ServerConfig = "mysql://u:p@s@h:1234/".parse().unwrap();
        assert_eq!((server.host.as_str(), server.port), ("h", 1234));
        assert_eq!(
            (server.user.as_deref(), server.password.unwrap().expose()),
            (Some("u"), "p@s")
        );
        for wrong in [
            "",
            "mysql://h:1",
            "mysql://u@h:1",
            "mysql://u:p@h",
            "http://u:p@h:1",
        ] {
            assert!(wrong.parse::<ServerConfig>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_settings_are_refused() {
        assert!(serde_json::from_str::<MySqlConfig>(r#"{"database":4}"#).is_err());
        let config: MySqlConfig =
            serde_json::from_str(r#"{"servers":[{"host":"db","tls":"verify-ca"}]}"#).unwrap();
        assert_eq!(config.servers[0].tls, TlsMode::VerifyCa);
    }
}

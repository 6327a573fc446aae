//! How connections to the brokers are encrypted and authenticated.

use std::path::PathBuf;

use rdkafka::ClientConfig;
use serde::{Deserialize, Serialize};
use service_runtime::Secret;

use crate::KafkaConfig;

/// Kafka's security protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecurityProtocol {
    /// Plain text, without authentication.
    Plaintext,
    /// TLS; a client is authenticated by its certificate, if it has one.
    Ssl,
    /// A user and a password over plain text.
    SaslPlaintext,
    /// A user and a password over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Ssl => "ssl",
            Self::SaslPlaintext => "sasl_plaintext",
            Self::SaslSsl => "sasl_ssl",
        }
    }

    fn has_users(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }

    pub(crate) fn is_encrypted(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }
}

/// How a user is authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaslMechanism {
    /// The password itself; over TLS only.
    #[serde(rename = "PLAIN")]
    Plain,
    /// SCRAM with SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// SCRAM with SHA-512.
    #[default]
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

impl SaslMechanism {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl KafkaConfig {
    /// The configured protocol, or else the one that the other settings imply. A user implies TLS.
    pub(crate) fn protocol(&self) -> SecurityProtocol {
        let has_user = self.username.is_some();
        let has_tls = self.tls_ca.is_some() || self.tls_cert.is_some();
        self.security_protocol.unwrap_or(match (has_user, has_tls) {
            (true, _) => SecurityProtocol::SaslSsl,
            (false, true) => SecurityProtocol::Ssl,
            (false, false) => SecurityProtocol::Plaintext,
        })
    }

    /// Sets encryption and authentication.
    pub(crate) fn secure(&self, client: &mut ClientConfig) {
        let protocol = self.protocol();
        client.set("security.protocol", protocol.name());
        let files = [
            ("ssl.ca.location", &self.tls_ca),
            ("ssl.certificate.location", &self.tls_cert),
            ("ssl.key.location", &self.tls_key),
        ];
        for (name, file) in files {
            if let Some(file) = file {
                client.set(name, file.display().to_string());
            }
        }
        if let Some(password) = &self.tls_key_password {
            client.set("ssl.key.password", password.expose());
        }
        if let (Some(username), Some(password)) = (&self.username, &self.password) {
            client
                .set("sasl.mechanism", self.sasl_mechanism.name())
                .set("sasl.username", username)
                .set("sasl.password", password.expose());
        }
    }
}

/// Settings that would be ignored are refused: a password that is not sent, or a file that is not read.
pub(crate) fn fits_protocol(
    config: &KafkaConfig,
) -> impl FnOnce(&Option<SecurityProtocol>, &()) -> garde::Result {
    let protocol = config.protocol();
    let has_user = config.username.is_some();
    let has_tls = config.tls_ca.is_some() || config.tls_cert.is_some();
    let is_plain = config.sasl_mechanism == SaslMechanism::Plain;
    move |_, ()| {
        let wrong = if protocol.has_users() && !has_user {
            "needs kafka.username and kafka.password"
        } else if !protocol.has_users() && has_user {
            "has no users; leave kafka.username out, or make it sasl_ssl"
        } else if !protocol.is_encrypted() && has_tls {
            "is not encrypted; leave kafka.tls_ca and kafka.tls_cert out, or make it ssl or sasl_ssl"
        } else if protocol == SecurityProtocol::SaslPlaintext && is_plain {
            "would send the password as it is; use kafka.sasl_mechanism = \"SCRAM-SHA-512\", or make it sasl_ssl"
        } else {
            return Ok(());
        };
        Err(garde::Error::new(format!("{} {wrong}", protocol.name())))
    }
}

pub(crate) fn comes_with<T>(
    name: &'static str,
    other: bool,
) -> impl FnOnce(&Option<T>, &()) -> garde::Result {
    move |value, ()| match value {
        Some(_) if !other => Err(garde::Error::new(format!("needs {name} beside it"))),
        _ => Ok(()),
    }
}

/// librdkafka's own message would not name the setting.
pub(crate) fn is_readable(path: &Option<PathBuf>, (): &()) -> garde::Result {
    let Some(path) = path else { return Ok(()) };
    std::fs::read(path).map(drop).map_err(|error| {
        let path = path.display();
        garde::Error::new(format!(
            "names {path}, which cannot be read: {error}; must be a readable PEM file"
        ))
    })
}

pub(crate) fn is_not_empty(secret: &Option<Secret>, (): &()) -> garde::Result {
    match secret {
        Some(secret) if secret.expose().is_empty() => Err(garde::Error::new("is empty")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use garde::Validate as _;

    use super::*;

    fn refused(change: impl FnOnce(&mut KafkaConfig)) -> String {
        let mut config = KafkaConfig::default();
        change(&mut config);
        let report = config.validate().unwrap_err().to_string();
        assert!(!report.contains("hush"), "{report}");
        report
    }

    fn with_user(config: &mut KafkaConfig) {
        config.username = Some("me".to_owned());
        config.password = Some(Secret::from("hush"));
    }

    #[test]
    fn the_protocol_follows_from_the_other_settings() {
        let mut config = KafkaConfig::default();
        assert_eq!(config.protocol(), SecurityProtocol::Plaintext);
        config.tls_ca = Some("/dev/null".into());
        assert_eq!(config.protocol(), SecurityProtocol::Ssl);
        with_user(&mut config);
        assert_eq!(config.protocol(), SecurityProtocol::SaslSsl);
        config.tls_ca = None;
        assert_eq!(config.protocol(), SecurityProtocol::SaslSsl);
        config.validate().unwrap();
    }

    #[test]
    fn settings_that_would_be_ignored_are_refused() {
        let said = refused(|config| config.security_protocol = Some(SecurityProtocol::SaslSsl));
        assert!(said.contains("needs kafka.username"), "{said}");
        let said = refused(|config| {
            with_user(config);
            config.security_protocol = Some(SecurityProtocol::Ssl);
        });
        assert!(said.contains("ssl has no users"), "{said}");
        let said = refused(|config| {
            with_user(config);
            config.sasl_mechanism = SaslMechanism::Plain;
            config.security_protocol = Some(SecurityProtocol::SaslPlaintext);
        });
        assert!(said.contains("password as it is"), "{said}");
        let said = refused(|config| config.username = Some("me".to_owned()));
        assert!(
            said.contains("username: needs kafka.password beside it"),
            "{said}"
        );
        let said = refused(|config| config.tls_cert = Some("/dev/null".into()));
        assert!(said.contains("needs kafka.tls_key beside it"), "{said}");
    }

    #[test]
    fn a_missing_file_is_reported_with_its_setting() {
        let said = refused(|config| config.tls_ca = Some("/no/such/ca.pem".into()));
        assert!(
            said.contains("tls_ca: names /no/such/ca.pem, which cannot be read"),
            "{said}"
        );
    }

    #[test]
    fn a_password_is_never_shown() {
        let mut config = KafkaConfig::default();
        with_user(&mut config);
        config.tls_key_password = Some(Secret::from("hush"));
        let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
        assert!(!shown.contains("hush") && shown.contains("me"), "{shown}");
    }
}

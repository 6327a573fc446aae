use std::time::Duration;

use garde::Validate;
use redis::{ConnectionInfo, IntoConnectionInfo as _};
use serde::{Deserialize, Serialize};
use service_runtime::Secret;

use crate::{KeyNames, UnreadError};

/// How to reach Redis, and what to keep there for how long (section `redis`).
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct RedisConfig {
    /// `redis://host:port`, without credentials.
    #[garde(custom(is_plain_url))]
    pub url: String,
    /// The user of Redis's access lists; without one, Redis's `default`.
    #[garde(skip)]
    pub username: Option<String>,
    /// The user's password.
    #[garde(skip)]
    pub password: Option<Secret>,
    /// In front of every key; empty for the frozen names.
    #[garde(length(max = 100), custom(has_no_braces))]
    pub key_prefix: String,
    /// Whether a user's keys carry `{<uid>}`, as Redis Cluster needs it.
    #[garde(skip)]
    pub hash_tags: bool,
    /// How long a user's keys live after the user's last read, milliseconds.
    #[garde(range(min = 1_000, max = TEN_YEARS_MS))]
    pub expiry_ms: u64,
    /// How long connecting may take, milliseconds.
    #[garde(range(min = 1))]
    pub connect_timeout_ms: u64,
    /// How long an answer may take, milliseconds. A batch of many users is one wait.
    #[garde(range(min = 1))]
    pub response_timeout_ms: u64,
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const TEN_YEARS_MS: u64 = 3_650 * DAY_MS;

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:7379".to_owned(),
            username: None,
            password: None,
            key_prefix: String::new(),
            hash_tags: false,
            expiry_ms: 30 * DAY_MS,
            connect_timeout_ms: 2_000,
            response_timeout_ms: 5_000,
        }
    }
}

impl RedisConfig {
    pub(crate) fn key_names(&self) -> KeyNames {
        KeyNames {
            prefix: self.key_prefix.clone(),
            hash_tags: self.hash_tags,
        }
    }

    pub(crate) fn connection_info(&self) -> Result<ConnectionInfo, UnreadError> {
        let info = parse_url(&self.url).map_err(UnreadError::Url)?;
        let mut settings = info.redis_settings().clone();
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password.expose());
        }
        Ok(info.set_redis_settings(settings))
    }

    pub(crate) fn timeouts(&self) -> redis::AsyncConnectionConfig {
        redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_millis(self.connect_timeout_ms)))
            .set_response_timeout(Some(Duration::from_millis(self.response_timeout_ms)))
    }
}

fn parse_url(url: &str) -> Result<ConnectionInfo, String> {
    let info = url
        .into_connection_info()
        .map_err(|_| "is not a URL of Redis; write redis://host:port".to_owned())?;
    let settings = info.redis_settings();
    if settings.username().is_some() || settings.password().is_some() {
        return Err(
            "has credentials; put them into redis.username and redis.password, which are never shown"
                .to_owned(),
        );
    }
    Ok(info)
}

fn is_plain_url(url: &str, _: &()) -> garde::Result {
    parse_url(url).map(drop).map_err(garde::Error::new)
}

fn has_no_braces(prefix: &str, _: &()) -> garde::Result {
    if prefix.contains(['{', '}']) {
        return Err(garde::Error::new(
            "has a brace, which would decide the key's slot; leave braces out",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_unknown_keys_are_refused() {
        RedisConfig::default().validate().unwrap();
        assert!(serde_json::from_str::<RedisConfig>(r#"{"ttl_ms": 1}"#).is_err());
    }

    #[test]
    fn credentials_belong_into_their_own_fields() {
        let config = RedisConfig {
            url: "redis://me:secret@127.0.0.1:7379".to_owned(),
            ..RedisConfig::default()
        };
        let report = config.validate().unwrap_err().to_string();
        assert!(report.contains("credentials"), "{report}");
        assert!(!report.contains("secret@"), "{report}");
    }

    #[test]
    fn username_and_password_are_used() {
        let config = RedisConfig {
            username: Some("me".to_owned()),
            password: Some(Secret::from("secret")),
            ..RedisConfig::default()
        };
        let info = config.connection_info().unwrap();
        assert_eq!(info.redis_settings().username(), Some("me"));
        assert_eq!(info.redis_settings().password(), Some("secret"));
        assert!(!serde_json::to_string(&config).unwrap().contains("secret"));
    }
}

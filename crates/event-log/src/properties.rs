//! librdkafka properties that an operator adds.

use std::{collections::BTreeMap, fmt};

use garde::Validate;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap as _};

const REDACTED: &str = "[redacted]";

/// The properties that Tidemark sets itself, with librdkafka's aliases of them.
const OWN: &[&str] = &[
    "acks",
    "auto.commit.enable",
    "auto.offset.reset",
    "batch.num.messages",
    "batch.size",
    "bootstrap.servers",
    "compression.codec",
    "compression.type",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "heartbeat.interval.ms",
    "linger.ms",
    "message.max.bytes",
    "message.timeout.ms",
    "metadata.broker.list",
    "partition.assignment.strategy",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "request.required.acks",
    "retry.backoff.ms",
    "session.timeout.ms",
];

/// Parts of the names of secrets.
const SECRET: &[&str] = &[
    "password",
    "passphrase",
    "secret",
    "token",
    "credential",
    "jaas",
    "key.pem",
    "private.key",
    "oauthbearer.config",
];

pub(crate) fn is_own(name: &str) -> bool {
    OWN.contains(&name)
}

/// Names and values, as librdkafka has them. Values that look like secrets are shown as `[redacted]` wherever they are printed, logged or serialised.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Validate)]
#[serde(transparent)]
#[garde(transparent)]
pub struct ClientProperties(#[garde(custom(refuse_own))] BTreeMap<String, String>);

impl ClientProperties {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(name, value)| {
            let lower = name.to_ascii_lowercase();
            let secret = SECRET.iter().any(|part| lower.contains(part));
            (name, if secret { REDACTED } else { value })
        })
    }
}

impl FromIterator<(String, String)> for ClientProperties {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

impl Serialize for ClientProperties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.shown() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Refuses properties that Tidemark would override, rather than ignoring them.
fn refuse_own(properties: &BTreeMap<String, String>, (): &()) -> garde::Result {
    let own: Vec<&str> = properties
        .keys()
        .map(String::as_str)
        .filter(|name| is_own(name))
        .collect();
    if own.is_empty() {
        return Ok(());
    }
    let (verb, instead) = (
        if own.len() == 1 { "is" } else { "are" },
        "leave it out (brokers are set by kafka.brokers)",
    );
    Err(garde::Error::new(format!(
        "{} {verb} set by Tidemark itself and cannot be changed; {instead}",
        own.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KafkaConfig, PostClient};

    fn properties(pairs: &[(&str, &str)]) -> KafkaConfig {
        KafkaConfig {
            properties: pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..KafkaConfig::default()
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let secrets = [
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "ssl.keystore.password",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "SASL.Password",
        ];
        for name in secrets {
            let config = properties(&[(name, "hush"), ("sasl.username", "me")]);
            let shown = [
                format!("{config:?}"),
                serde_json::to_string(&config).unwrap(),
            ];
            for shown in shown {
                assert!(!shown.contains("hush"), "{name}: {shown}");
                assert!(shown.contains(name) && shown.contains("[redacted]"));
                assert!(shown.contains("me"), "{shown}");
            }
            let value = config.properties.iter().find(|(key, _)| *key == name);
            assert_eq!(value, Some((name, "hush")), "clients still get it");
        }
    }

    #[test]
    fn properties_that_would_be_overridden_are_refused_by_name() {
        let refused = properties(&[("acks", "1"), ("linger.ms", "5"), ("client.rack", "a")]);
        let report = refused.validate().unwrap_err().to_string();
        assert!(
            report.contains("acks, linger.ms are set by Tidemark itself"),
            "{report}"
        );
        assert!(!report.contains("client.rack"), "{report}");
    }

    #[test]
    fn how_a_channel_is_secured_is_for_librdkafka_only() {
        let mut config =
            properties(&[("security.protocol", "SASL_SSL"), ("ssl.key.location", "k")]);
        let report = config.validate().unwrap_err().to_string();
        assert!(
            report.contains("single_post_client: krafka does not know security.protocol"),
            "{report}"
        );
        config.single_post_client = PostClient::Librdkafka;
        config.validate().unwrap();
    }
}

use std::path::PathBuf;

use garde::Validate;
use rdkafka::{ClientConfig, error::KafkaError};
use schemas::{
    TimestampMs,
    topics::{Topic, TopicNames},
};
use serde::{Deserialize, Serialize};
use service_runtime::Secret;
use time::OffsetDateTime;

use crate::{
    ClientProperties, EventLogError, PostClient, SaslMechanism, SecurityProtocol,
    channel::{comes_with, fits_protocol, is_not_empty, is_readable},
    properties,
};

/// How to reach Kafka, and the names of the topics there (section `kafka`).
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaConfig {
    /// `host:port`, several separated by commas.
    #[garde(length(min = 1))]
    pub brokers: String,
    /// Prefix of every topic and consumer group name; empty for the frozen names.
    #[garde(length(max = 100), custom(may_name_a_topic))]
    pub prefix: String,
    /// Read the topics as they were at this time, RFC 3339, as if nothing had been appended since: without the records of this millisecond. For readers of a
    /// scratch: a client that writes to a topic or follows one refuses this setting.
    #[garde(custom(is_past))]
    #[serde(
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub as_of: Option<OffsetDateTime>,
    /// How many copies `topics apply` makes of each new topic; absent: 3, or one on each broker if there are fewer brokers.
    #[garde(inner(range(min = 1, max = 32)))]
    pub replication: Option<u8>,
    /// The interval at which a broker answers a consumer while many records come, milliseconds: lower is faster and costs more. While few come, each is
    /// answered at once. A projection that writes at intervals allows half of its interval, if that is longer.
    #[garde(range(min = 1, max = 1000))]
    pub fetch_wait_ms: u32,
    /// After this long without a heartbeat a process counts as dead, and others take its partitions over; milliseconds. Brokers refuse values outside
    /// their `group.min.session.timeout.ms` and `group.max.session.timeout.ms`.
    #[garde(range(min = 1000, max = 250_000))]
    pub session_timeout_ms: u32,
    /// How connections are encrypted and authenticated; absent: follows from the settings below. A user implies `sasl_ssl`.
    #[garde(custom(fits_protocol(self)))]
    pub security_protocol: Option<SecurityProtocol>,
    /// PEM file with the authorities that may sign the brokers' certificates; absent: those of the system.
    #[garde(custom(is_readable))]
    pub tls_ca: Option<PathBuf>,
    /// PEM file with this client's own certificate, for brokers that ask for one.
    #[garde(custom(is_readable), custom(comes_with("kafka.tls_key", self.tls_key.is_some())))]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the key of that certificate.
    #[garde(custom(is_readable), custom(comes_with("kafka.tls_cert", self.tls_cert.is_some())))]
    pub tls_key: Option<PathBuf>,
    /// The password of that key, if it is encrypted.
    #[garde(custom(is_not_empty), custom(comes_with("kafka.tls_key", self.tls_key.is_some())))]
    pub tls_key_password: Option<Secret>,
    /// How the user is authenticated.
    #[garde(skip)]
    pub sasl_mechanism: SaslMechanism,
    /// The user that the brokers know.
    #[garde(inner(length(min = 1)), custom(comes_with("kafka.password", self.password.is_some())))]
    pub username: Option<String>,
    /// The user's password.
    #[garde(custom(is_not_empty), custom(comes_with("kafka.username", self.username.is_some())))]
    pub password: Option<Secret>,
    /// Which library appends single posts: `krafka`, or `librdkafka`, which costs a quarter more but takes `kafka.properties`, too.
    #[garde(custom(takes_properties(&self.properties)))]
    pub single_post_client: PostClient,
    /// More librdkafka properties, for every client of librdkafka. Secrets among them are never shown, and properties that Tidemark sets itself are refused.
    #[garde(dive)]
    pub properties: ClientProperties,
}

/// Settings on which Tidemark's guarantees or bounds depend: operators cannot set them.
pub(crate) trait OwnSettings {
    /// Sets one of [`properties::OWN`].
    fn own(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self;
}

impl OwnSettings for ClientConfig {
    fn own(&mut self, name: &'static str, value: impl Into<String>) -> &mut Self {
        debug_assert!(properties::is_own(name), "{name} is not listed");
        self.set(name, value)
    }
}

/// Whether the prefix is legal in the name of a topic.
fn may_name_a_topic(prefix: &str, _context: &()) -> garde::Result {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if prefix.chars().all(is_legal) {
        Ok(())
    } else {
        Err(garde::Error::new(
            "must be of the letters, digits, '.', '_' and '-' that the name of a topic may have",
        ))
    }
}

/// With krafka, single posts would be sent without what the properties say about encryption and authentication.
fn takes_properties(
    properties: &ClientProperties,
) -> impl FnOnce(&PostClient, &()) -> garde::Result + '_ {
    |client, ()| {
        let of_channel = |name: &str| {
            ["ssl.", "sasl.", "security.", "enable.ssl", "enable.sasl"]
                .iter()
                .any(|start| name.starts_with(start))
        };
        match properties.iter().find(|(name, _)| of_channel(name)) {
            Some((name, _)) if *client == PostClient::Krafka => Err(garde::Error::new(format!(
                "krafka does not know {name} of kafka.properties; must be \"librdkafka\" beside it"
            ))),
            _ => Ok(()),
        }
    }
}

/// As long as the time is not past, records that are appended before it would change what was read.
fn is_past(as_of: &Option<OffsetDateTime>, _context: &()) -> garde::Result {
    match as_of {
        Some(as_of) if *as_of > OffsetDateTime::now_utc() => Err(garde::Error::new(
            "is in the future; must be a time that is past",
        )),
        _ => Ok(()),
    }
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            brokers: "127.0.0.1:7392".to_owned(),
            prefix: String::new(),
            as_of: None,
            replication: None,
            fetch_wait_ms: 3,
            session_timeout_ms: 10_000,
            security_protocol: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            tls_key_password: None,
            sasl_mechanism: SaslMechanism::default(),
            username: None,
            password: None,
            single_post_client: PostClient::default(),
            properties: ClientProperties::default(),
        }
    }
}

impl KafkaConfig {
    /// The name of a topic in this deployment.
    #[must_use]
    pub fn topic(&self, topic: Topic) -> String {
        TopicNames::with_prefix(&self.prefix).name(topic)
    }

    /// The time as of which topics are read.
    pub(crate) fn as_of(&self) -> Option<TimestampMs> {
        let nanos = self.as_of?.unix_timestamp_nanos();
        i64::try_from(nanos.div_euclid(1_000_000))
            .ok()
            .map(TimestampMs)
    }

    /// Refuses a client that follows a topic, or writes to one, beside a reader of an earlier time.
    pub(crate) fn require_present(&self, what: &str) -> Result<(), EventLogError> {
        match self.as_of {
            None => Ok(()),
            Some(_) => {
                let why = "kafka.as_of is set, which is for reading only: leave it out".to_owned();
                Err(EventLogError::new(what, KafkaError::ClientCreation(why)))
            }
        }
    }

    /// The name of a consumer group in this deployment.
    #[must_use]
    pub fn group(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(crate) fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client
            .own("bootstrap.servers", &self.brokers)
            .set("client.id", "tidemark")
            // Reconnects soon to a broker that was down, without logging each attempt.
            .set("reconnect.backoff.ms", "50")
            .set("reconnect.backoff.max.ms", "1000")
            .set("log.connection.close", "false")
            .set("topic.metadata.refresh.interval.ms", "30000");
        self.secure(&mut client);
        for (name, value) in self.properties.iter() {
            client.set(name, value);
        }
        client
    }

    /// The configuration of a consumer that neither resets nor stores offsets by itself.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut client = self.client();
        client
            .own("group.id", group)
            .own("enable.auto.commit", "false")
            .own("enable.auto.offset.store", "false")
            .own("auto.offset.reset", "error")
            .own("enable.partition.eof", "true")
            .own("fetch.queue.backoff.ms", "10");
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_must_be_legal_in_the_name_of_a_topic() {
        let with = |prefix: &str| KafkaConfig {
            prefix: prefix.to_owned(),
            ..KafkaConfig::default()
        };
        assert!(with("").validate().is_ok());
        assert!(with("eu-1.test_").validate().is_ok());
        assert!(with("a b").validate().is_err());
        assert!(with("ä").validate().is_err());
    }
}

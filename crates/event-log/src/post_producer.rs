//! Appending records whose callers wait for each: single posts.

use std::{path::Path, sync::OnceLock, time::Duration};

use krafka::{
    Compression, Kafka, KrafkaError, Record,
    auth::{AuthConfig, TlsConfig},
    error::ErrorCode,
    producer::{DeliveryHandle, Producer, RecordMetadata},
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OnceCell, oneshot},
    time::{sleep, timeout},
};

use crate::{
    AppendRecord, Delivery, DeliveryFailure, EventLogError, KafkaConfig, LogProducer, OnDelivery,
    ProducerSettings, SaslMechanism, require_offset,
};

/// How often a client that never reached a broker tries again.
const CONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// The library that appends single posts (ADR 25).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PostClient {
    /// Sends the records of all partitions of a broker in one request, and has no threads beside tokio's. Takes no `kafka.properties`.
    #[default]
    Krafka,
    /// Sends a request for each partition, of which five may be in flight.
    Librdkafka,
}

/// An idempotent producer with acks=all. Within one partition its records keep their order. What is `held` for a record is dropped once the record's outcome is
/// known, even if nobody waits for that any more.
pub struct PostProducer<H: Send + Sync + 'static>(Client<H>);

enum Client<H: Send + Sync + 'static> {
    Krafka(Box<KrafkaProducer>),
    Librdkafka(LogProducer<Reported<H>>),
}

impl<H: Send + Sync + 'static> PostProducer<H> {
    /// Connects lazily: a broker that is away does not cause an error here.
    ///
    /// # Errors
    /// [`EventLogError`] if a setting is refused.
    pub fn new(config: &KafkaConfig, settings: &ProducerSettings) -> Result<Self, EventLogError> {
        config.require_present("creating a producer")?;
        Ok(Self(match config.single_post_client {
            PostClient::Krafka => Client::Krafka(Box::new(KrafkaProducer::new(config, settings))),
            PostClient::Librdkafka => Client::Librdkafka(LogProducer::new(config, settings)?),
        }))
    }

    /// Connects, so that the first append need not.
    pub async fn connect(&self) {
        if let Client::Krafka(producer) = &self.0
            && let Err(error) = producer.connected().await
        {
            tracing::error!(%error, "Kafka does not let this client in");
        }
    }

    /// Appends a record and returns its offset. If the caller goes meanwhile, the record may be appended all the same.
    ///
    /// # Errors
    /// [`DeliveryFailure`].
    pub async fn append(&self, record: AppendRecord<'_>, held: H) -> Result<i64, DeliveryFailure> {
        match &self.0 {
            Client::Krafka(producer) => producer.append(record, held).await,
            Client::Librdkafka(producer) => {
                let (report, reported) = oneshot::channel();
                producer
                    .append(record, Reported { held, report })
                    .map_err(|full| DeliveryFailure::Unknown(full.to_string()))?;
                reported
                    .await
                    .expect("a producer answers every append it took")
            }
        }
    }

    /// The error after which the producer cannot append any more: the process should end.
    pub fn fatal_error(&self) -> Option<String> {
        match &self.0 {
            Client::Krafka(producer) => producer.fatal.get().cloned(),
            Client::Librdkafka(producer) => producer.fatal_error(),
        }
    }
}

/// The delivery handle of librdkafka's producer.
struct Reported<H> {
    held: H,
    report: oneshot::Sender<Result<i64, DeliveryFailure>>,
}

impl<H: Send + Sync + 'static> OnDelivery for Reported<H> {
    fn delivered(self, outcome: Delivery) {
        // First, so that it is free when the caller has the outcome.
        drop(self.held);
        self.report.delivered(outcome);
    }
}

struct KrafkaProducer {
    config: KafkaConfig,
    settings: ProducerSettings,
    producer: OnceCell<Producer>,
    fatal: OnceLock<String>,
}

impl KrafkaProducer {
    fn new(config: &KafkaConfig, settings: &ProducerSettings) -> Self {
        Self {
            config: config.clone(),
            settings: settings.clone(),
            producer: OnceCell::new(),
            fatal: OnceLock::new(),
        }
    }

    async fn append(
        &self,
        record: AppendRecord<'_>,
        held: impl Send + 'static,
    ) -> Result<i64, DeliveryFailure> {
        let connected = timeout(self.timeout(), self.connected()).await;
        let producer = connected
            .map_err(|_| DeliveryFailure::Unknown("not connected to Kafka yet".to_owned()))?
            .map_err(classify)?;
        let queued = producer.enqueue(owned(record)).await.map_err(classify)?;
        let outcome = Queued(Some((queued, held))).outcome().await;
        if let Err(error) = &outcome
            && error.is_fatal()
        {
            let _ = self.fatal.set(error.to_string());
        }
        let stored = outcome.map_err(classify)?;
        require_offset(Ok(stored.is_success().then_some(stored.offset)))
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.settings.message_timeout_ms.into())
    }

    /// Waits for Kafka if it does not answer.
    async fn connected(&self) -> Result<&Producer, KrafkaError> {
        let connecting = async || loop {
            match self.connect().await {
                Err(error) if error.is_retriable() => sleep(CONNECT_INTERVAL).await,
                connected => return connected,
            }
        };
        self.producer.get_or_try_init(connecting).await
    }

    async fn connect(&self) -> Result<Producer, KrafkaError> {
        let timeout = self.timeout();
        // A request that is not answered is sent once more before its records fail.
        let request_timeout = timeout / 2;
        let mut client = Kafka::builder(&self.config.brokers)
            .client_id("tidemark")
            .request_timeout(request_timeout)
            .connect_timeout(request_timeout.min(Duration::from_secs(1)))
            .metadata_max_age(Duration::from_secs(30))
            .metadata_recovery_rebootstrap_trigger(Duration::from_secs(1));
        if let Some(security) = security(&self.config) {
            client = client.security(security);
        }
        client
            .connect()
            .await?
            .producer()
            .linger(Duration::from_millis(self.settings.linger_ms.into()))
            .delivery_timeout(timeout)
            .max_block(timeout)
            .retry_backoff(Duration::from_millis(20))
            .batch_size(self.settings.max_message_bytes)
            .buffer_memory(self.settings.queue_bytes)
            .compression(Compression::Lz4)
            .metrics_push(false)
            .build()
            .await
    }
}

/// A record that krafka has. If it is dropped earlier, a task waits for the outcome, since until then the record takes memory.
struct Queued<H: Send + 'static>(Option<(DeliveryHandle, H)>);

impl<H: Send + 'static> Queued<H> {
    async fn outcome(mut self) -> Result<RecordMetadata, KrafkaError> {
        let (handle, _held) = self.0.as_mut().expect("it is taken only once");
        let outcome = handle.await;
        self.0 = None;
        outcome
    }
}

impl<H: Send + 'static> Drop for Queued<H> {
    fn drop(&mut self) {
        if let Some((handle, held)) = self.0.take() {
            tokio::spawn(async move {
                let _outcome = handle.await;
                drop(held);
            });
        }
    }
}

fn owned(record: AppendRecord<'_>) -> Record {
    let mut owned = Record::new(record.topic, record.value.unwrap_or_default().to_vec())
        .partition(record.partition.get().into());
    if !record.key.is_empty() {
        owned = owned.key(record.key.to_vec());
    }
    owned
}

/// A record is known not to be on the log only if a broker finally refused it, or has no such topic.
fn classify(error: KrafkaError) -> DeliveryFailure {
    use ErrorCode as Code;
    match error {
        KrafkaError::UnknownTopic { .. }
        | KrafkaError::Broker {
            code:
                Code::MessageTooLarge
                | Code::InvalidRecord
                | Code::InvalidTimestamp
                | Code::TopicAuthorizationFailed
                | Code::UnknownTopicOrPartition
                | Code::PolicyViolation,
            ..
        } => DeliveryFailure::Refused(error.to_string()),
        _ => DeliveryFailure::Unknown(error.to_string()),
    }
}

/// Encryption and authentication as [`KafkaConfig::secure`] sets them for librdkafka.
fn security(config: &KafkaConfig) -> Option<AuthConfig> {
    let user = config.username.as_deref().zip(config.password.as_ref());
    let sasl = user.map(|(user, password)| match config.sasl_mechanism {
        SaslMechanism::Plain => AuthConfig::sasl_plain(user, password.expose()),
        SaslMechanism::ScramSha256 => AuthConfig::sasl_scram_sha256(user, password.expose()),
        SaslMechanism::ScramSha512 => AuthConfig::sasl_scram_sha512(user, password.expose()),
    });
    if !config.protocol().is_encrypted() {
        return sasl;
    }
    let text = |path: &Path| path.display().to_string();
    let mut tls = match &config.tls_ca {
        Some(ca) => TlsConfig::new().with_ca_cert(text(ca)),
        None => TlsConfig::new().with_native_roots(),
    };
    if let (Some(cert), Some(key)) = (&config.tls_cert, &config.tls_key) {
        tls = tls.with_client_cert(text(cert), text(key));
    }
    if let Some(password) = &config.tls_key_password {
        tls = tls.with_client_key_password(password.expose());
    }
    Some(sasl.unwrap_or_else(AuthConfig::plaintext).with_tls(tls))
}

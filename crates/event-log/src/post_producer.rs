//! Appending records whose callers wait for each: single posts.

use std::{future::pending, path::Path, sync::Arc, time::Duration};

use krafka::{
    Compression, Kafka, KrafkaError, Record,
    auth::{AuthConfig, TlsConfig},
    error::ErrorCode,
    producer::{DeliveryHandle, Producer, RecordMetadata},
};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tokio::{
    runtime::Handle,
    sync::{Mutex, Notify, oneshot},
    time::{Instant, sleep, timeout},
};

use crate::{
    AppendRecord, Delivery, DeliveryFailure, EventLogError, KafkaConfig, LogProducer, OnDelivery,
    ProducerSettings, SaslMechanism, require_offset,
};

/// The interval of attempts to connect, and the interval after the brokers have refused an attempt.
const CONNECT_INTERVAL: Duration = Duration::from_millis(100);
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);
/// After an append that took longer, the producer is replaced.
const SLOW: Duration = Duration::from_millis(500);
/// A producer of krafka is not replaced before this time.
const REPLACE_INTERVAL: Duration = Duration::from_secs(10);
/// After this long without an answer about the cluster, krafka forgets what it knows of it: much longer than a request takes.
const REBOOTSTRAP_AFTER: Duration = Duration::from_secs(30);
/// How often krafka compares the TLS files: as often as Tidemark's listeners compare theirs.
const TLS_RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The library that appends single posts (ADR 25).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PostClient {
    /// Sends the records of all partitions of a broker in one request, and has no threads beside tokio's. Does not know `kafka.properties`.
    #[default]
    Krafka,
    /// Sends a request for each partition, of which five may be in flight.
    Librdkafka,
}

/// A producer with acks=all. Within one partition its records keep their order, but a retry may append one twice (PROTOCOL S15). The value `held` for a
/// record is dropped once the record's outcome is known, even if no caller waits for the outcome any more.
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

    /// Stays connected, so that no append has to wait for that. Does not return.
    pub async fn stay_connected(&self) {
        let Client::Krafka(producer) = &self.0 else {
            return pending().await;
        };
        loop {
            producer.connected().await;
            producer.replaced.notified().await;
        }
    }

    /// Why there is no connection to Kafka, if the last attempt failed. With librdkafka this is not known.
    pub fn connection_error(&self) -> Option<String> {
        match &self.0 {
            Client::Krafka(producer) => producer.current.read().as_ref().err().cloned().flatten(),
            Client::Librdkafka(_) => None,
        }
    }

    /// Appends a record and returns its offset. If the caller is dropped meanwhile, the record may be appended all the same.
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
            Client::Krafka(_) => None,
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
        // Dropped first, so that what was held is free when the caller has the outcome.
        drop(self.held);
        self.report.delivered(outcome);
    }
}

/// krafka's producer, and its successors.
struct KrafkaProducer {
    config: KafkaConfig,
    settings: ProducerSettings,
    /// If there is no producer: why the last attempt to connect failed.
    current: RwLock<Result<Arc<Connected>, Option<String>>>,
    connecting: Mutex<()>,
    replaced: Notify,
}

struct Connected {
    producer: Producer,
    since: Instant,
}

impl KrafkaProducer {
    fn new(config: &KafkaConfig, settings: &ProducerSettings) -> Self {
        Self {
            config: config.clone(),
            settings: settings.clone(),
            current: RwLock::new(Err(None)),
            connecting: Mutex::new(()),
            replaced: Notify::new(),
        }
    }

    async fn append(
        &self,
        record: AppendRecord<'_>,
        held: impl Send + 'static,
    ) -> Result<i64, DeliveryFailure> {
        let began = Instant::now();
        let connected = timeout(self.timeout(), self.connected()).await;
        let connected =
            connected.map_err(|_| DeliveryFailure::Unknown("not connected to Kafka".to_owned()))?;
        let queued = connected.producer.enqueue(owned(record)).await;
        let was_queued = queued.is_ok();
        let outcome = match queued {
            Ok(queued) => Queued(Some((queued, held))).outcome().await,
            Err(error) => Err(error),
        };
        if outcome.is_err() || began.elapsed() > SLOW {
            self.replace(&connected);
        }
        let stored = outcome.map_err(|error| classify(&error, was_queued))?;
        let is_known = stored.is_success() && stored.offset >= 0;
        require_offset(Ok(is_known.then_some(stored.offset)))
    }

    /// Waits while Kafka does not answer, or does not let this client in.
    async fn connected(&self) -> Arc<Connected> {
        if let Ok(connected) = &*self.current.read() {
            return Arc::clone(connected);
        }
        let _alone = self.connecting.lock().await;
        loop {
            if let Ok(connected) = &*self.current.read() {
                return Arc::clone(connected);
            }
            let (state, wait) = match self.connect().await {
                Ok(producer) => {
                    let since = Instant::now();
                    (Ok(Arc::new(Connected { producer, since })), None)
                }
                Err(error) if error.is_retriable() => {
                    (Err(Some(error.to_string())), Some(CONNECT_INTERVAL))
                }
                Err(error) => {
                    tracing::error!(%error, "Kafka does not let the producer of single posts in");
                    (Err(Some(error.to_string())), Some(REFUSED_INTERVAL))
                }
            };
            *self.current.write() = state;
            if let Some(wait) = wait {
                sleep(wait).await;
            }
        }
    }

    /// Has a successor connect. After a fatal error krafka's producer refuses everything, and once it has found a partition without a leader it wakes a
    /// thousand times a second for good (0.28.1). Only an error or a slow append shows that. The records that it has queued are still sent.
    fn replace(&self, old: &Arc<Connected>) {
        if old.since.elapsed() < REPLACE_INTERVAL {
            return;
        }
        let mut current = self.current.write();
        if matches!(&*current, Ok(current) if Arc::ptr_eq(current, old)) {
            *current = Err(None);
            self.replaced.notify_one();
        }
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.settings.message_timeout_ms.into())
    }

    async fn connect(&self) -> Result<Producer, KrafkaError> {
        let timeout = self.timeout();
        // A request that is not answered is sent once more, if there is time.
        let request_timeout = timeout / 2;
        let mut client = Kafka::builder(&self.config.brokers)
            .client_id("tidemark")
            .request_timeout(request_timeout)
            .connect_timeout(request_timeout)
            .metadata_recovery_rebootstrap_trigger(REBOOTSTRAP_AFTER)
            .tls_reload_interval(Some(TLS_RELOAD_INTERVAL));
        if let Some(security) = security(&self.config) {
            client = client.security(security);
        }
        client
            .connect()
            .await?
            .producer()
            // A retry may append a record twice, which S15 recognises by the record's id. With krafka's idempotence, no partition would get records while a
            // new epoch replaces a failed batch of another partition.
            .idempotent(false)
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

/// A record that krafka has. If this is dropped before the outcome is known, a task waits for the outcome, since the record takes memory until then.
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
        if let Some((handle, held)) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
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

/// A record is known not to be on the log if it was never queued because its topic is missing or closed to this client, or if a broker finally refused its
/// bytes. Any other refusal may be that of a retry whose first attempt was appended.
fn classify(error: &KrafkaError, was_queued: bool) -> DeliveryFailure {
    use ErrorCode as Code;
    let is_refused = match error {
        KrafkaError::UnknownTopic { .. } => true,
        KrafkaError::Broker { code, .. } => match code {
            Code::MessageTooLarge | Code::InvalidRecord | Code::InvalidTimestamp => true,
            Code::TopicAuthorizationFailed | Code::UnknownTopicOrPartition => !was_queued,
            _ => false,
        },
        _ => false,
    };
    if is_refused {
        DeliveryFailure::Refused(error.to_string())
    } else {
        DeliveryFailure::Unknown(error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_final_only_if_no_earlier_attempt_may_have_been_appended() {
        let broker = |code| KrafkaError::Broker {
            code,
            message: String::new(),
        };
        let is_refused = |error: KrafkaError, was_queued| {
            matches!(classify(&error, was_queued), DeliveryFailure::Refused(_))
        };
        assert!(is_refused(broker(ErrorCode::MessageTooLarge), true));
        assert!(is_refused(
            broker(ErrorCode::TopicAuthorizationFailed),
            false
        ));
        assert!(!is_refused(
            broker(ErrorCode::TopicAuthorizationFailed),
            true
        ));
        assert!(!is_refused(broker(ErrorCode::NotEnoughReplicas), true));
        let timed_out = KrafkaError::DeliveryTimeout {
            possibly_written: false,
            message: String::new(),
        };
        assert!(!is_refused(timed_out, true));
    }
}

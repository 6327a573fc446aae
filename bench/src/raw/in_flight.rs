//! A plain rdkafka producer in a closed loop: each of several tasks has one record in flight.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use event_log::KafkaConfig;
use futures::future::try_join_all;
use rdkafka::{
    ClientContext,
    producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer},
};
use schemas::topics::Topic;
use tokio::sync::oneshot;

use super::producer::client;
use crate::load::traffic::Traffic;

struct Answers;

impl ClientContext for Answers {}

impl ProducerContext for Answers {
    type DeliveryOpaque = Box<oneshot::Sender<bool>>;

    fn delivery(&self, result: &DeliveryResult<'_>, asker: Self::DeliveryOpaque) {
        // The task that appended the record waits for this.
        let _ = asker.send(result.is_ok());
    }
}

/// Appends to `chat.inbound`.
#[derive(Clone)]
pub(crate) struct InFlight {
    producer: Arc<ThreadedProducer<Answers>>,
    topic: Arc<str>,
}

impl InFlight {
    /// Connects, by appending a first record.
    ///
    /// # Errors
    /// If the record is not delivered.
    pub(crate) async fn connect(kafka: &KafkaConfig, traffic: &Traffic) -> Result<Self> {
        let connected = Self {
            producer: Arc::new(client(kafka, 0).create_with_context(Answers)?),
            topic: kafka.topic(Topic::Inbound).into(),
        };
        connected.append(traffic).await?;
        Ok(connected)
    }

    /// Appends for `length`. Returns how many records were delivered, which is all of them.
    ///
    /// # Errors
    /// If a record is not delivered.
    pub(crate) async fn closed_loop(
        &self,
        traffic: &Traffic,
        in_flight: usize,
        length: Duration,
    ) -> Result<u64> {
        let tasks = (0..in_flight).map(|_| {
            let (producer, traffic) = (self.clone(), traffic.clone());
            let task = async move {
                let began = Instant::now();
                let mut delivered = 0;
                while began.elapsed() < length {
                    producer.append(&traffic).await?;
                    delivered += 1;
                }
                anyhow::Ok(delivered)
            };
            async { tokio::spawn(task).await? }
        });
        Ok(try_join_all(tasks).await?.into_iter().sum())
    }

    async fn append(&self, traffic: &Traffic) -> Result<()> {
        let record = traffic.next_message().record()?;
        let (asker, answer) = oneshot::channel();
        let queued = BaseRecord::with_opaque_to(&self.topic, Box::new(asker))
            .partition(record.partition.get().into())
            .key(&record.key)
            .payload(&record.value);
        self.producer.send(queued).map_err(|(error, _)| error)?;
        ensure!(answer.await?, "a record was not delivered");
        Ok(())
    }
}

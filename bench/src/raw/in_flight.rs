//! A plain rdkafka producer in a closed loop: each of so many tasks has one record in flight.

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
use crate::load::messages::Messages;

struct Answers;

impl ClientContext for Answers {}

impl ProducerContext for Answers {
    type DeliveryOpaque = Box<oneshot::Sender<bool>>;

    fn delivery(&self, result: &DeliveryResult<'_>, asker: Self::DeliveryOpaque) {
        // The asker waits for it.
        let _ = asker.send(result.is_ok());
    }
}

/// Produces to `chat.inbound` for so long; gives how many records were delivered, all of them.
///
/// # Errors
/// One is not.
pub(crate) async fn closed_loop(
    kafka: &KafkaConfig,
    messages: &Messages,
    in_flight: usize,
    length: Duration,
) -> Result<u64> {
    let producer: ThreadedProducer<Answers> = client(kafka, 0).create_with_context(Answers)?;
    let producer = Arc::new(producer);
    let topic = kafka.topic(Topic::Inbound);
    let tasks = (0..in_flight).map(|_| {
        let (producer, topic, messages) = (Arc::clone(&producer), topic.clone(), messages.clone());
        let task = async move {
            let began = Instant::now();
            let mut delivered = 0;
            while began.elapsed() < length {
                append(&producer, &topic, &messages).await?;
                delivered += 1;
            }
            anyhow::Ok(delivered)
        };
        async { tokio::spawn(task).await? }
    });
    Ok(try_join_all(tasks).await?.into_iter().sum())
}

async fn append(
    producer: &ThreadedProducer<Answers>,
    topic: &str,
    messages: &Messages,
) -> Result<()> {
    let record = messages.make().record()?;
    let (asker, answer) = oneshot::channel();
    let queued = BaseRecord::with_opaque_to(topic, Box::new(asker))
        .partition(record.partition.get().into())
        .key(&record.key)
        .payload(&record.value);
    producer.send(queued).map_err(|(error, _)| error)?;
    ensure!(answer.await?, "a record was not delivered");
    Ok(())
}

//! The only broker is fenced or forgotten by its controller: until it is registered again it answers that there are no
//! brokers at all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use event_log::{
    AppendRecord, Fetched, Fetcher, KafkaConfig, LogProducer, NextOffset, ProducerSettings,
};
use rustix::process::Signal;
use schemas::{Partition, topics::Topic};
use system_tests::{Servers, Settings, run, until};
use tokio::sync::oneshot;

const WITHOUT_SERVICES: Settings = Settings {
    without_services: true,
    ..Settings::USUAL
};

#[test]
fn clients_find_a_broker_again_that_named_none() {
    run(Servers::Own(WITHOUT_SERVICES), async |world| {
        let config = world.events.config();
        let producer = producer(config)?;
        let follower = Follower::start(config)?;
        let before = append(&producer, config).await?;
        follower.reaches(before).await?;

        world.unregister_broker().await?;
        follower.hears_of_no_broker().await?;
        world.end("kafka", Signal::KILL).await?;
        world.start_servers().await?;

        let after = append(&producer, config).await?;
        follower.reaches(after).await?;
        world.events.ends().await?;
        Ok(())
    });
}

/// A thread that reads `chat.events`.
struct Follower {
    /// The highest offset of partition 0 that was read.
    read: Arc<AtomicI64>,
    /// Whether a poll has failed.
    failed: Arc<AtomicBool>,
    /// Its drop ends the thread.
    _stop: mpsc::Sender<()>,
}

impl Follower {
    fn start(config: &KafkaConfig) -> Result<Self> {
        let mut fetcher = Fetcher::new(config, Topic::Events)?;
        for partition in Partition::all() {
            fetcher.start(partition, NextOffset::START)?;
        }
        let (_stop, stopped) = mpsc::channel();
        let (read, failed) = (Arc::new(AtomicI64::new(-1)), Arc::default());
        let follower = Self {
            read: Arc::clone(&read),
            failed: Arc::clone(&failed),
            _stop,
        };
        thread::spawn(move || {
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                // Polling on is what helps where it fails.
                let polled = fetcher.poll(Duration::from_millis(10));
                failed.fetch_or(polled.is_err(), Ordering::Relaxed);
                if let Ok(Some(Fetched::Record(record))) = polled {
                    read.fetch_max(record.offset, Ordering::Relaxed);
                }
            }
        });
        Ok(follower)
    }

    async fn hears_of_no_broker(&self) -> Result<()> {
        let heard = async || match self.failed.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err("nothing failed".to_owned()),
        };
        until("the reader to be without a broker", heard).await
    }

    async fn reaches(&self, offset: i64) -> Result<()> {
        let reached = async || match self.read.load(Ordering::Relaxed) {
            read if read >= offset => Ok(()),
            read => Err(format!("{read} was")),
        };
        until(&format!("offset {offset} to be read"), reached).await
    }
}

type Appender = LogProducer<oneshot::Sender<Result<i64, event_log::DeliveryFailure>>>;

fn producer(config: &KafkaConfig) -> Result<Appender> {
    let settings = ProducerSettings {
        linger_ms: 0,
        message_timeout_ms: 0,
        queue_bytes: 1 << 20,
        max_message_bytes: 100_000,
        gapless: true,
    };
    Ok(LogProducer::new(config, &settings)?)
}

/// Appends a record to partition 0; where it is.
async fn append(producer: &Appender, config: &KafkaConfig) -> Result<i64> {
    let (fate, outcome) = oneshot::channel();
    let record = AppendRecord {
        topic: &config.topic(Topic::Events),
        partition: Partition::all().next().context("there are 64")?,
        key: b"",
        value: Some(b"no event"),
        timestamp: None,
        headers: &[],
    };
    producer.append(record, fate)?;
    Ok(tokio::time::timeout(Duration::from_secs(60), outcome)
        .await
        .context("waiting for an append")???)
}

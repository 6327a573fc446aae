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
use event_log::{Admin, AppendRecord, Appender, Fetched, Fetcher, KafkaConfig, ProducerSettings};
use rustix::process::Signal;
use schemas::{NextOffset, Partition, topics::Topic};
use system_tests::{Servers, Settings, TIMEOUT, run, until};
use tokio::time::timeout;

#[test]
fn clients_find_a_broker_again_that_named_none() {
    run(Servers::Own(Settings::WITHOUT_SERVICES), async |env| {
        let config = env.events.config();
        let appender = Appender::new(config, &ProducerSettings::WITHOUT_TIMEOUT)?;
        let follower = Follower::start(config)?;
        let before = append(&appender, config).await?;
        follower.reaches(before).await?;
        let admin = Admin::new(config)?;
        delete_before(&admin, before).await?;

        // The broker goes on answering, but names itself no more, as one that its controller has fenced.
        env.kafka_tool("ClusterTool", &["unregister", "--id", "1"])
            .await?;
        follower.cannot_reach_a_broker().await?;
        is_told_of_no_broker(&admin).await?;
        env.end("kafka", Signal::KILL).await?;
        env.start_servers().await?;

        let after = append(&appender, config).await?;
        follower.reaches(after).await?;
        delete_before(&admin, after).await?;
        env.events.ends().await?;
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
            fetcher.start(partition, NextOffset::START);
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
                let polled = fetcher.poll(Duration::from_millis(10), |fetched| {
                    if let Fetched::Record(record) = fetched {
                        read.fetch_max(record.offset, Ordering::Relaxed);
                    }
                });
                failed.fetch_or(polled.is_err(), Ordering::Relaxed);
            }
        });
        Ok(follower)
    }

    async fn cannot_reach_a_broker(&self) -> Result<()> {
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

/// Waits until the client has learned from the broker that there is none.
async fn is_told_of_no_broker(admin: &Admin) -> Result<()> {
    until(
        "the admin client to be without a broker",
        async || match admin.diff_of(Topic::Events).await {
            Ok(found) if found.is_empty() => Err("all is as declared".to_owned()),
            _ => Ok(()),
        },
    )
    .await
}

/// Drops records of partition 0, as the sequencer does with old snapshots: again and again.
async fn delete_before(admin: &Admin, offset: i64) -> Result<()> {
    let partition = Partition::all().next().context("there are 64")?;
    until("records to be deleted", async || {
        let deleted = admin.delete_before(Topic::Events, partition, offset).await;
        deleted.map_err(|error| error.to_string())
    })
    .await
}

/// Appends a record to partition 0; where it is.
async fn append(appender: &Appender, config: &KafkaConfig) -> Result<i64> {
    let record = AppendRecord {
        topic: &config.topic(Topic::Events),
        partition: Partition::all().next().context("there are 64")?,
        key: b"",
        value: Some(b"no event"),
        timestamp: None,
        headers: &[],
    };
    Ok(timeout(TIMEOUT, appender.append(record))
        .await
        .context("waiting for an append")??)
}

//! How far the stores of an environment have come with `chat.events`.

use std::sync::Arc;

use anyhow::Result;
use event_log::LogReader;
use message_store::{MessageStore, MySqlConfig, Sink};
use schemas::{LogPosition, Partition, PartitionMap, topics::Topic};
use system_tests::TestEnv;
use unread_store::{RedisConfig, UnreadStore, lowest_positions};

use crate::deadline::wait_until;

/// The projections that take events into a store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Projection {
    /// Into Redis.
    Unread,
    /// Into MySQL.
    Tables(Sink),
}

impl Projection {
    const ALL: [Self; 4] = [
        Self::Unread,
        Self::Tables(Sink::Messages),
        Self::Tables(Sink::Reads),
        Self::Tables(Sink::Contacts),
    ];
}

/// A store of messages at an address, with the default tables.
///
/// # Errors
/// If the address is invalid.
pub(crate) fn message_store(mysql_url: &str) -> Result<MessageStore> {
    Ok(MessageStore::connect(&MySqlConfig {
        servers: vec![mysql_url.parse().map_err(anyhow::Error::msg)?],
        ..MySqlConfig::default()
    }))
}

/// A Redis at an address.
///
/// # Errors
/// If the address is invalid.
pub(crate) fn unread_store(redis_url: &str) -> Result<UnreadStore> {
    Ok(UnreadStore::new(&RedisConfig {
        url: redis_url.to_owned(),
        ..RedisConfig::default()
    })?)
}

/// The stores, and the log that they follow.
pub(crate) struct Progress {
    log: Arc<LogReader>,
    topic: String,
    unread: Vec<unread_store::Connection>,
    messages: MessageStore,
}

impl Progress {
    /// Connects to the stores of an environment.
    ///
    /// # Errors
    /// If a store does not answer.
    pub(crate) async fn of(env: &TestEnv) -> Result<Self> {
        let kafka = env.events.config();
        Ok(Self {
            log: Arc::new(LogReader::new(kafka)?),
            topic: kafka.topic(Topic::Events),
            unread: unread_store(&env.redis.url())?.connect().await?,
            messages: message_store(&env.mysql_url())?,
        })
    }

    /// How many records `chat.events` has, including those that are not messages.
    ///
    /// # Errors
    /// If Kafka does not answer.
    pub(crate) async fn appended(&self) -> Result<u64> {
        let ends = self.log.ends(Topic::Events).await?;
        Ok(ends.values().map(|end| end.cast_unsigned()).sum())
    }

    /// How many of these records a projection has written.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) async fn written(&self, by: Projection) -> Result<u64> {
        let reached = self.reached(by).await?;
        let next = reached.values().map(|at| at.next.get().cast_unsigned());
        Ok(next.sum())
    }

    /// How far a projection has come in each partition. If rows of a partition are in several stores, the lowest position counts.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) async fn reached(&self, by: Projection) -> Result<PartitionMap<LogPosition>> {
        let sink = match by {
            Projection::Unread => return Ok(lowest_positions(&self.unread).await?),
            Projection::Tables(sink) => sink,
        };
        let layout = self.messages.layout();
        let mut lowest: PartitionMap<LogPosition> = PartitionMap::new();
        for shard in layout.shards() {
            let feeds: Vec<Partition> = layout.source_partitions(sink, shard).collect();
            let resume = self
                .messages
                .read_resume_offsets(shard, sink, &self.topic, &feeds);
            for (partition, at) in resume.await? {
                let known = lowest.get_or_insert_with(partition, || at);
                if at.next < known.next {
                    *known = at;
                }
            }
        }
        Ok(lowest)
    }

    /// Waits until a running projection has written `count` records.
    ///
    /// # Errors
    /// If it has not in time.
    pub(crate) async fn has_written(&self, projection: Projection, count: u64) -> Result<()> {
        let what = format!("{projection:?} has {count} records");
        let has_all = async || Ok(self.written(projection).await? >= count);
        wait_until(&what, has_all).await
    }

    /// Waits until all projections, which must be running, have written what is on `chat.events` by now.
    ///
    /// # Errors
    /// If they have not in time.
    pub(crate) async fn all_written(&self) -> Result<()> {
        let end = self.appended().await?;
        for projection in Projection::ALL {
            self.has_written(projection, end).await?;
        }
        Ok(())
    }
}

/// Waits until everything that was posted to an environment has passed the sequencer and is in all stores.
///
/// # Errors
/// If it is not in time, or a message does not pass.
pub(crate) async fn everywhere(env: &TestEnv) -> Result<()> {
    env.check_all_partitions().await?;
    Progress::of(env).await?.all_written().await
}

use std::{sync::Arc, time::Instant};

use schemas::{Partition, PartitionMap, SyncToken, topics::Topic};
use tokio::sync::Mutex;

use crate::{EventLogError, LogReader};

/// Where the 64 partitions of a topic end, for calls that wait for offsets. Kafka is asked once for all calls that are waiting.
pub struct LogEnds {
    reader: Arc<LogReader>,
    topic: Topic,
    newest: Arc<Mutex<Option<Answer>>>,
}

/// When Kafka was asked, and the ends.
type Answer = (Instant, PartitionMap<i64>);

impl LogEnds {
    /// The ends of `chat.events`, with which devices' tokens are compared. Asks nothing yet.
    #[must_use]
    pub fn new(reader: Arc<LogReader>) -> Self {
        Self::of(reader, Topic::Events)
    }

    /// The ends of `topic`. Asks nothing yet.
    #[must_use]
    pub fn of(reader: Arc<LogReader>, topic: Topic) -> Self {
        Self {
            reader,
            topic,
            newest: Arc::default(),
        }
    }

    /// Whether the log is as long as a token says. If not, the token is of another log, or of records that were lost (PROTOCOL W1, Y7).
    ///
    /// # Errors
    /// [`EventLogError`] if a leader does not answer within 30 s, or not for every partition.
    pub async fn reach(&self, token: &SyncToken) -> Result<bool, EventLogError> {
        let ends = self.ends_since(Instant::now()).await?;
        let page = token.page().map(|page| (page.partition, page.applied));
        let reaches = |(partition, end): (_, &i64)| {
            let fixed = page.filter(|(of, _)| *of == partition);
            token.get(partition).get() <= *end && fixed.is_none_or(|(_, next)| next.get() <= *end)
        };
        Ok(ends.iter().all(reaches))
    }

    /// The partitions that end below `required`, their least ends. Kafka is only asked if some of the known ends are below it.
    ///
    /// # Errors
    /// As [`Self::reach`].
    pub async fn lacking(
        &self,
        required: &PartitionMap<i64>,
    ) -> Result<Vec<Partition>, EventLogError> {
        let now = Instant::now();
        let known = self.newest.lock().await.clone();
        if known.is_some_and(|(_, ends)| below(&ends, required).is_empty()) {
            return Ok(Vec::new());
        }
        Ok(below(&self.ends_since(now).await?, required))
    }

    /// Where the partitions end now.
    ///
    /// # Errors
    /// As [`Self::reach`].
    pub async fn now(&self) -> Result<PartitionMap<i64>, EventLogError> {
        self.ends_since(Instant::now()).await
    }

    async fn ends_since(&self, time: Instant) -> Result<PartitionMap<i64>, EventLogError> {
        let mut newest = Arc::clone(&self.newest).lock_owned().await;
        if let Some((_, ends)) = newest.as_ref().filter(|(asked, _)| *asked >= time) {
            return Ok(ends.clone());
        }
        // The lock is held until Kafka has answered, even if no call waits any more, so that there is one request at a time, however many calls give up.
        let topic = self.topic;
        let ask = move |reader: &LogReader| {
            let asked = Instant::now();
            let ends = reader.ends_now(topic)?;
            *newest = Some((asked, ends.clone()));
            Ok(ends)
        };
        self.reader.blocking(ask).await
    }
}

fn below(ends: &PartitionMap<i64>, required: &PartitionMap<i64>) -> Vec<Partition> {
    let ends_below = |(partition, least): &(Partition, &i64)| {
        ends.get(*partition).is_none_or(|end| end < *least)
    };
    let found = required.iter().filter(ends_below);
    found.map(|(partition, _)| partition).collect()
}

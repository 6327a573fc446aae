use std::{sync::Arc, time::Instant};

use schemas::{PartitionMap, SyncToken, topics::Topic};
use tokio::sync::Mutex;

use crate::{EventLogError, LogReader};

/// Where the 64 partitions of `chat.events` end, for calls that compare devices' tokens with them. Kafka is asked once for all calls that wait.
pub struct LogEnds {
    reader: Arc<LogReader>,
    newest: Arc<Mutex<Option<Answer>>>,
}

/// When Kafka was asked, and the ends.
type Answer = (Instant, PartitionMap<i64>);

impl LogEnds {
    /// Asks nothing yet.
    #[must_use]
    pub fn new(reader: Arc<LogReader>) -> Self {
        Self {
            reader,
            newest: Arc::default(),
        }
    }

    /// Whether the log is as long as a token says. Where it is not, the token is of another log, or of records that were lost (PROTOCOL W1, Y7).
    ///
    /// # Errors
    /// [`EventLogError`] where a leader does not answer within 30 s, or not for every partition.
    pub async fn reach(&self, token: &SyncToken) -> Result<bool, EventLogError> {
        let ends = self.ends_since(Instant::now()).await?;
        let page = token.page().map(|page| (page.partition, page.applied));
        let reaches = |(partition, end): (_, &i64)| {
            let fixed = page.filter(|(of, _)| *of == partition);
            token.get(partition).get() <= *end && fixed.is_none_or(|(_, next)| next.get() <= *end)
        };
        Ok(ends.iter().all(reaches))
    }

    async fn ends_since(&self, time: Instant) -> Result<PartitionMap<i64>, EventLogError> {
        let mut newest = Arc::clone(&self.newest).lock_owned().await;
        if let Some((_, ends)) = newest.as_ref().filter(|(asked, _)| *asked >= time) {
            return Ok(ends.clone());
        }
        // The lock is held until Kafka has answered, though nobody may wait any more: calls that give up do not add up.
        let ask = move |reader: &LogReader| {
            let asked = Instant::now();
            let ends = reader.ends_now(Topic::Events)?;
            *newest = Some((asked, ends.clone()));
            Ok(ends)
        };
        self.reader.blocking(ask).await
    }
}

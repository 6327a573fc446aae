//! Measures when each stage has processed each accepted record, by polling the watermarks that the stages store with their data.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use client::AcceptedLine;
use event_log::{Fetched, Fetcher, KafkaConfig, LogReader};
use message_store::{MessageStore, Shard, Sink};
use schemas::{
    InboundPosition, NextOffset, Partition, PartitionMap, event::SourceOffset, topics::Topic,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use unread_store::{UnreadStore, lowest_positions};

use crate::context::CommandContext;

/// How often the watermarks are read. This is the resolution of the measurement, and adds load.
const REDIS_INTERVAL: Duration = Duration::from_millis(5);
const MYSQL_INTERVAL: Duration = Duration::from_millis(50);

/// A stage after ingest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Stage {
    /// On `chat.events`.
    Sequenced,
    /// In Redis.
    Redis,
    /// In `chat_msg_<n>`.
    Messages,
    /// In `contact_<n>`.
    Contacts,
}

impl Stage {
    pub(crate) const ALL: [Self; 4] =
        [Self::Sequenced, Self::Redis, Self::Messages, Self::Contacts];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Sequenced => "sequenced (chat.events)",
            Self::Redis => "unread counts (Redis)",
            Self::Messages => "messages (MySQL)",
            Self::Contacts => "conversation lists (MySQL)",
        }
    }
}

/// When each watermark of a partition was first seen; both rise.
type Observations = Vec<(Instant, SourceOffset)>;

#[derive(Default)]
struct WatermarkHistory(BTreeMap<(Stage, Partition), Observations>);

impl WatermarkHistory {
    fn record(&mut self, stage: Stage, partition: Partition, watermark: SourceOffset, at: Instant) {
        let history = self.0.entry((stage, partition)).or_default();
        if history.last().is_none_or(|(_, last)| watermark > *last) {
            history.push((at, watermark));
        }
    }

    fn passed_at(&self, stage: Stage, accepted: &AcceptedLine) -> Option<Instant> {
        let watermark = self.source_offset_of(accepted.position);
        let history = self.0.get(&(stage, accepted.position.partition))?;
        let i = history.partition_point(|(_, passed)| *passed < watermark);
        history.get(i).map(|(at, _)| *at)
    }

    fn has_passed(&self, stage: Stage, ends: &PartitionMap<i64>) -> bool {
        ends.iter().all(|(partition, &offset)| {
            let end = self.source_offset_of(InboundPosition { partition, offset });
            self.newest(stage, partition)
                .is_some_and(|watermark| watermark >= end)
        })
    }

    /// Accepted records belong to the newest epoch that any stage has: a stage that is still in an earlier epoch has passed none of them,
    /// however high its offsets.
    fn source_offset_of(&self, position: InboundPosition) -> SourceOffset {
        let newest = |stage| self.newest(stage, position.partition);
        let epochs = Stage::ALL.into_iter().filter_map(newest);
        SourceOffset {
            epoch: epochs.map(|watermark| watermark.epoch).max().unwrap_or(0),
            offset: position.offset,
        }
    }

    fn newest(&self, stage: Stage, partition: Partition) -> Option<SourceOffset> {
        let history = self.0.get(&(stage, partition))?;
        history.last().map(|(_, watermark)| *watermark)
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct StageReport {
    pub(crate) stage: Stage,
    /// The number of records that the stage has processed.
    pub(crate) records: usize,
    /// From the first post to the last processed record.
    pub(crate) per_second: f64,
    /// Milliseconds from [`AcceptedLine::at`] until the stage has processed the record.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Polls the watermarks until it is dropped.
pub(crate) struct StageWatch {
    history: Arc<Mutex<WatermarkHistory>>,
    stop: CancellationToken,
}

impl Drop for StageWatch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl StageWatch {
    /// Starts at the present end of the log.
    pub(crate) async fn begin(context: &CommandContext) -> anyhow::Result<Self> {
        let watch = Self {
            history: Arc::default(),
            stop: CancellationToken::new(),
        };
        let kafka = context.kafka()?;
        let ends = Arc::new(LogReader::new(&kafka)?)
            .ends(Topic::Events)
            .await?;
        watch.spawn_events(&kafka, ends)?;
        tokio::spawn(watch_redis(
            context.unread()?,
            Arc::clone(&watch.history),
            watch.stop.clone(),
        ));
        let topic = kafka.topic(Topic::Events);
        let store = context.messages()?;
        tokio::spawn(watch_mysql(
            store,
            topic,
            Arc::clone(&watch.history),
            watch.stop.clone(),
        ));
        Ok(watch)
    }

    fn spawn_events(&self, kafka: &KafkaConfig, ends: PartitionMap<i64>) -> anyhow::Result<()> {
        let mut fetcher = Fetcher::new(kafka, Topic::Events)?;
        for (partition, end) in ends {
            fetcher.start(partition, NextOffset::new(end))?;
        }
        let (history, stop) = (Arc::clone(&self.history), self.stop.clone());
        std::thread::spawn(move || {
            while !stop.is_cancelled() {
                let note = |fetched: Fetched<'_>| {
                    let Fetched::Record(record) = fetched else {
                        return;
                    };
                    if let Ok(event) = record.event() {
                        let (at, watermark) = (record.partition, event.src.offset);
                        locked(&history).record(Stage::Sequenced, at, watermark, Instant::now());
                    }
                };
                // After an error the next poll tries again.
                let _ = fetcher.poll(Duration::from_millis(20), note);
            }
        });
        Ok(())
    }

    /// Waits until every stage has processed the accepted records; `false` at the deadline.
    pub(crate) async fn settled(&self, accepted: &[AcceptedLine], deadline: Duration) -> bool {
        let mut ends: PartitionMap<i64> = PartitionMap::new();
        for one in accepted {
            let end = ends.get_or_insert_with(one.position.partition, || -1);
            *end = (*end).max(one.position.offset);
        }
        let until = Instant::now() + deadline;
        loop {
            if Stage::ALL
                .iter()
                .all(|stage| locked(&self.history).has_passed(*stage, &ends))
            {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The rates and latencies of the stages for records posted since `started`.
    pub(crate) fn reports(&self, accepted: &[AcceptedLine], started: Instant) -> Vec<StageReport> {
        let history = locked(&self.history);
        Stage::ALL
            .into_iter()
            .filter_map(|stage| report(&history, stage, accepted, started))
            .collect()
    }
}

fn report(
    history: &WatermarkHistory,
    stage: Stage,
    accepted: &[AcceptedLine],
    started: Instant,
) -> Option<StageReport> {
    let passed: Vec<(Instant, Instant)> = accepted
        .iter()
        .filter_map(|one| Some((one.at, history.passed_at(stage, one)?)))
        .collect();
    let last = passed.iter().map(|(_, passed)| *passed).max()?;
    let mut latencies: Vec<f64> = passed
        .iter()
        .map(|(at, passed)| millis(passed.saturating_duration_since(*at)))
        .collect();
    latencies.sort_by(f64::total_cmp);
    Some(StageReport {
        stage,
        records: passed.len(),
        per_second: per_second(passed.len(), last.saturating_duration_since(started)),
        p50_ms: percentile(&latencies, 50),
        p99_ms: percentile(&latencies, 99),
    })
}

async fn watch_redis(
    store: UnreadStore,
    history: Arc<Mutex<WatermarkHistory>>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        // If Redis is unavailable, connect again.
        if let Ok(slots) = store.connect().await {
            while let Ok(lowest) = lowest_positions(&slots).await {
                let now = Instant::now();
                for (partition, position) in lowest.iter() {
                    locked(&history).record(Stage::Redis, partition, position.watermark, now);
                }
                if stop.is_cancelled() {
                    return;
                }
                tokio::time::sleep(REDIS_INTERVAL).await;
            }
        }
        tokio::time::sleep(MYSQL_INTERVAL).await;
    }
}

async fn watch_mysql(
    store: MessageStore,
    topic: String,
    history: Arc<Mutex<WatermarkHistory>>,
    stop: CancellationToken,
) {
    let all: Vec<Partition> = Partition::all().collect();
    while !stop.is_cancelled() {
        let mut contacts: PartitionMap<SourceOffset> = PartitionMap::new();
        for shard in store.layout().shards() {
            let own = store.layout().source_partitions(Sink::Messages, shard);
            let own: Vec<Partition> = own.collect();
            watch_messages(&store, shard, &topic, &own, &history).await;
            // A conversation's two contact rows may be in two databases: both must have passed.
            if let Ok(rows) = store
                .read_resume_offsets(shard, Sink::Contacts, &topic, &all)
                .await
            {
                for (partition, row) in rows {
                    let lowest = contacts.get_or_insert_with(partition, || row.watermark);
                    *lowest = (*lowest).min(row.watermark);
                }
            }
        }
        let now = Instant::now();
        for (partition, watermark) in contacts {
            locked(&history).record(Stage::Contacts, partition, watermark, now);
        }
        tokio::time::sleep(MYSQL_INTERVAL).await;
    }
}

async fn watch_messages(
    store: &MessageStore,
    shard: Shard,
    topic: &str,
    partitions: &[Partition],
    history: &Mutex<WatermarkHistory>,
) {
    if let Ok(rows) = store
        .read_resume_offsets(shard, Sink::Messages, topic, partitions)
        .await
    {
        let now = Instant::now();
        for (partition, row) in rows {
            locked(history).record(Stage::Messages, partition, row.watermark, now);
        }
    }
}

fn locked(history: &Mutex<WatermarkHistory>) -> std::sync::MutexGuard<'_, WatermarkHistory> {
    history
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A percentile of sorted values; 0 if there are none.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or(0.0)
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub(crate) fn per_second(count: usize, over: Duration) -> f64 {
    count as f64 / over.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 50.0);
        assert_eq!(percentile(&values, 99), 99.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
        assert_eq!(percentile(&[], 50), 0.0);
    }

    #[test]
    fn a_record_has_passed_when_the_watermark_reaches_it() {
        let partition: Partition = 3.try_into().unwrap();
        let started = Instant::now();
        let at = |ms| started + Duration::from_millis(ms);
        let mut history = WatermarkHistory::default();
        let watermark = |offset| SourceOffset { epoch: 0, offset };
        history.record(Stage::Redis, partition, watermark(4), at(10));
        history.record(Stage::Redis, partition, watermark(4), at(20));
        history.record(Stage::Redis, partition, watermark(9), at(30));
        let accepted = |offset| AcceptedLine {
            line: 1,
            position: InboundPosition { partition, offset },
            at: started,
        };
        assert_eq!(history.passed_at(Stage::Redis, &accepted(4)), Some(at(10)));
        assert_eq!(history.passed_at(Stage::Redis, &accepted(5)), Some(at(30)));
        assert_eq!(history.passed_at(Stage::Redis, &accepted(10)), None);
    }

    #[test]
    fn a_stage_in_an_earlier_epoch_has_passed_nothing() {
        let partition: Partition = 3.try_into().unwrap();
        let started = Instant::now();
        let at = |ms| started + Duration::from_millis(ms);
        let watermark = |epoch, offset| SourceOffset { epoch, offset };
        let mut history = WatermarkHistory::default();
        history.record(Stage::Redis, partition, watermark(0, 1000), at(10));
        history.record(Stage::Sequenced, partition, watermark(1, 5), at(20));
        let ends = PartitionMap::from([(partition, 5)]);
        assert!(history.has_passed(Stage::Sequenced, &ends));
        assert!(!history.has_passed(Stage::Redis, &ends));
        history.record(Stage::Redis, partition, watermark(1, 5), at(30));
        assert!(history.has_passed(Stage::Redis, &ends));
        let position = InboundPosition {
            partition,
            offset: 5,
        };
        let accepted = AcceptedLine {
            line: 1,
            position,
            at: started,
        };
        assert_eq!(history.passed_at(Stage::Redis, &accepted), Some(at(30)));
    }
}

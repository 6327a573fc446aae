//! Watches how far each stage has come, by the watermarks that the stages keep with their data, and tells from that when each
//! accepted record had passed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use event_log::{Fetched, Fetcher, KafkaConfig, LogReader};
use message_store::{MessageStore, Shard, Sink};
use schemas::{InboundPosition, NextOffset, Partition, event::SourceOffset, topics::Topic};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use unread_store::Node;

use crate::{handles::Handles, posting::Accepted};

/// How often the watermarks are read: the resolution of what is measured, and a load on what is measured.
const REDIS_EVERY: Duration = Duration::from_millis(5);
const MYSQL_EVERY: Duration = Duration::from_millis(50);

/// A stage behind ingest.
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

/// When each watermark of a partition was first seen passed; both rise.
type History = Vec<(Instant, SourceOffset)>;

/// What was seen of all stages.
#[derive(Default)]
struct Seen(BTreeMap<(Stage, Partition), History>);

impl Seen {
    fn note(&mut self, stage: Stage, partition: Partition, watermark: SourceOffset, at: Instant) {
        let history = self.0.entry((stage, partition)).or_default();
        if history.last().is_none_or(|(_, last)| watermark > *last) {
            history.push((at, watermark));
        }
    }

    fn passed_at(&self, stage: Stage, accepted: &Accepted) -> Option<Instant> {
        let watermark = self.mark_of(accepted.position);
        let history = self.0.get(&(stage, accepted.position.partition))?;
        let i = history.partition_point(|(_, passed)| *passed < watermark);
        history.get(i).map(|(at, _)| *at)
    }

    fn has_passed(&self, stage: Stage, ends: &BTreeMap<Partition, i64>) -> bool {
        ends.iter().all(|(&partition, &offset)| {
            let end = self.mark_of(InboundPosition { partition, offset });
            self.newest(stage, partition)
                .is_some_and(|watermark| watermark >= end)
        })
    }

    /// What was accepted belongs to the newest epoch that any stage has: a stage that is in an earlier one yet has passed
    /// none of it, however high its offsets.
    fn mark_of(&self, position: InboundPosition) -> SourceOffset {
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

/// How a stage did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StageReport {
    pub(crate) stage: Stage,
    /// Records that passed.
    pub(crate) records: usize,
    /// From the first that was accepted to the last that passed.
    pub(crate) per_second: f64,
    /// From [`Accepted::at`] to passed, milliseconds: in an open loop since it was due, else since it was accepted.
    pub(crate) p50_ms: f64,
    /// The same.
    pub(crate) p99_ms: f64,
}

/// A running watch; dropping it ends it.
pub(crate) struct Watch {
    seen: Arc<Mutex<Seen>>,
    stop: CancellationToken,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Watch {
    /// Begins to watch from the present end of the log.
    pub(crate) async fn begin(handles: &Handles) -> anyhow::Result<Self> {
        let watch = Self {
            seen: Arc::default(),
            stop: CancellationToken::new(),
        };
        let kafka = handles.kafka()?;
        let ends = Arc::new(LogReader::new(&kafka)?)
            .ends(Topic::Events)
            .await?;
        watch.spawn_events(&kafka, ends)?;
        tokio::spawn(watch_redis(
            handles.unread()?,
            Arc::clone(&watch.seen),
            watch.stop.clone(),
        ));
        let topic = kafka.topic(Topic::Events);
        let store = handles.messages()?;
        tokio::spawn(watch_mysql(
            store,
            topic,
            Arc::clone(&watch.seen),
            watch.stop.clone(),
        ));
        Ok(watch)
    }

    fn spawn_events(
        &self,
        kafka: &KafkaConfig,
        ends: BTreeMap<Partition, i64>,
    ) -> anyhow::Result<()> {
        let mut fetcher = Fetcher::new(kafka, Topic::Events)?;
        for (partition, end) in ends {
            fetcher.start(partition, NextOffset::new(end))?;
        }
        let (seen, stop) = (Arc::clone(&self.seen), self.stop.clone());
        std::thread::spawn(move || {
            while !stop.is_cancelled() {
                let note = |fetched: Fetched<'_>| {
                    let Fetched::Record(record) = fetched else {
                        return;
                    };
                    if let Ok(event) = record.event() {
                        let (at, watermark) = (record.partition, event.src.offset);
                        locked(&seen).note(Stage::Sequenced, at, watermark, Instant::now());
                    }
                };
                // What it cannot read now it reads at the next poll.
                let _ = fetcher.poll(Duration::from_millis(20), note);
            }
        });
        Ok(())
    }

    /// Waits until every stage has passed what was accepted; `false` at the deadline.
    pub(crate) async fn settled(&self, accepted: &[Accepted], deadline: Duration) -> bool {
        let mut ends: BTreeMap<Partition, i64> = BTreeMap::new();
        for one in accepted {
            let end = ends.entry(one.position.partition).or_insert(-1);
            *end = (*end).max(one.position.offset);
        }
        let until = Instant::now() + deadline;
        loop {
            if Stage::ALL
                .iter()
                .all(|stage| locked(&self.seen).has_passed(*stage, &ends))
            {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the stages did with what was accepted since `began`.
    pub(crate) fn reports(&self, accepted: &[Accepted], began: Instant) -> Vec<StageReport> {
        let seen = locked(&self.seen);
        Stage::ALL
            .into_iter()
            .filter_map(|stage| report(&seen, stage, accepted, began))
            .collect()
    }
}

fn report(seen: &Seen, stage: Stage, accepted: &[Accepted], began: Instant) -> Option<StageReport> {
    let passed: Vec<(Instant, Instant)> = accepted
        .iter()
        .filter_map(|one| Some((one.at, seen.passed_at(stage, one)?)))
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
        per_second: per_second(passed.len(), last.saturating_duration_since(began)),
        p50_ms: percentile(&latencies, 50),
        p99_ms: percentile(&latencies, 99),
    })
}

async fn watch_redis(node: Node, seen: Arc<Mutex<Seen>>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        // A Redis that is away is seen again when it is back.
        if let Ok(connection) = node.connect().await {
            while let Ok(positions) = connection.read_positions().await {
                let now = Instant::now();
                for (partition, stored) in positions.iter() {
                    let watermark = stored.position.watermark;
                    locked(&seen).note(Stage::Redis, partition, watermark, now);
                }
                if stop.is_cancelled() {
                    return;
                }
                tokio::time::sleep(REDIS_EVERY).await;
            }
        }
        tokio::time::sleep(MYSQL_EVERY).await;
    }
}

async fn watch_mysql(
    store: MessageStore,
    topic: String,
    seen: Arc<Mutex<Seen>>,
    stop: CancellationToken,
) {
    let all: Vec<Partition> = Partition::all().collect();
    while !stop.is_cancelled() {
        let mut contacts: BTreeMap<Partition, SourceOffset> = BTreeMap::new();
        for shard in store.layout().shards() {
            let own = store.layout().source_partitions(Sink::Messages, shard);
            let own: Vec<Partition> = own.collect();
            note_messages(&store, shard, &topic, &own, &seen).await;
            // A conversation's two contact rows may lie in two databases: both must have passed.
            if let Ok(rows) = store
                .read_resume_offsets(shard, Sink::Contacts, &topic, &all)
                .await
            {
                for (partition, row) in rows {
                    let lowest = contacts.entry(partition).or_insert(row.watermark);
                    *lowest = (*lowest).min(row.watermark);
                }
            }
        }
        let now = Instant::now();
        for (partition, watermark) in contacts {
            locked(&seen).note(Stage::Contacts, partition, watermark, now);
        }
        tokio::time::sleep(MYSQL_EVERY).await;
    }
}

async fn note_messages(
    store: &MessageStore,
    shard: Shard,
    topic: &str,
    partitions: &[Partition],
    seen: &Mutex<Seen>,
) {
    if let Ok(rows) = store
        .read_resume_offsets(shard, Sink::Messages, topic, partitions)
        .await
    {
        let now = Instant::now();
        for (partition, row) in rows {
            locked(seen).note(Stage::Messages, partition, row.watermark, now);
        }
    }
}

fn locked(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Of sorted values; 0 of none.
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
    fn a_record_has_passed_when_the_mark_reaches_it() {
        let partition: Partition = 3.try_into().unwrap();
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut seen = Seen::default();
        let watermark = |offset| SourceOffset { epoch: 0, offset };
        seen.note(Stage::Redis, partition, watermark(4), at(10));
        seen.note(Stage::Redis, partition, watermark(4), at(20));
        seen.note(Stage::Redis, partition, watermark(9), at(30));
        let accepted = |offset| Accepted {
            line: 1,
            position: InboundPosition { partition, offset },
            at: began,
        };
        assert_eq!(seen.passed_at(Stage::Redis, &accepted(4)), Some(at(10)));
        assert_eq!(seen.passed_at(Stage::Redis, &accepted(5)), Some(at(30)));
        assert_eq!(seen.passed_at(Stage::Redis, &accepted(10)), None);
    }

    #[test]
    fn a_stage_in_an_earlier_epoch_has_passed_nothing() {
        let partition: Partition = 3.try_into().unwrap();
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let watermark = |epoch, offset| SourceOffset { epoch, offset };
        let mut seen = Seen::default();
        seen.note(Stage::Redis, partition, watermark(0, 1000), at(10));
        seen.note(Stage::Sequenced, partition, watermark(1, 5), at(20));
        let ends = BTreeMap::from([(partition, 5)]);
        assert!(seen.has_passed(Stage::Sequenced, &ends));
        assert!(!seen.has_passed(Stage::Redis, &ends));
        seen.note(Stage::Redis, partition, watermark(1, 5), at(30));
        assert!(seen.has_passed(Stage::Redis, &ends));
        let position = InboundPosition {
            partition,
            offset: 5,
        };
        let accepted = Accepted {
            line: 1,
            position,
            at: began,
        };
        assert_eq!(seen.passed_at(Stage::Redis, &accepted), Some(at(30)));
    }
}

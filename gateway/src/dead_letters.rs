//! Reads `chat.dead-letters`: which sends of devices were refused, and which, having neither an event nor a dead letter, repeat an earlier one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use event_log::{
    EventLogError, FetchError, Fetched, Fetcher, HaltedPartitions, LogReader, RecordRef,
};
use schemas::{
    InboundPosition, NextOffset, Partition, PartitionMap, dead_letter::DeadLetterHeaders,
    topics::Topic,
};

use crate::{hub::Refusal, reading::poll, state::Gateway};

const POLL: Duration = Duration::from_millis(50);

/// The ends of the topic: dead letters of what devices send from now on come after them.
pub(crate) async fn begin(reader: &Arc<LogReader>) -> anyhow::Result<PartitionMap<NextOffset>> {
    let ends = reader.ends(Topic::DeadLetters).await?;
    Ok(ends.map(|_, end| NextOffset::new(end)))
}

/// Reads until the shutdown. Blocks.
///
/// # Errors
/// Kafka's client is no longer usable.
pub(crate) fn run(
    gateway: &Gateway,
    reader: &LogReader,
    begin: &PartitionMap<NextOffset>,
) -> anyhow::Result<()> {
    let inbound_topic = gateway.kafka.topic(Topic::Inbound);
    let mut fetcher = Fetcher::new(&gateway.kafka, Topic::DeadLetters)?;
    for (partition, next) in begin.iter() {
        fetcher.start(partition, *next);
        gateway.hub().read_dead_letters(partition, *next);
    }
    let mut asked = Instant::now();
    let mut lost = Lost::default();
    while !gateway.shutdown.soft().is_cancelled() {
        let polled = poll(Topic::DeadLetters, &mut fetcher, POLL, |fetched| {
            if let Fetched::Record(record) = fetched {
                let refused = refusal(&inbound_topic, &record);
                let mut hub = gateway.hub();
                if let Some((at, refusal)) = refused {
                    hub.refuse(at, refusal, gateway.now_ms());
                }
                hub.read_dead_letters(record.partition, NextOffset::after(record.offset));
            }
            Ok(())
        });
        lost.note(polled, &mut fetcher)?;
        lost.go_on(gateway, reader, &mut fetcher);
        if asked.elapsed() >= POLL {
            asked = Instant::now();
            if let Err(error) = ask_for_ends(gateway, reader) {
                tracing::debug!(%error, "where dead letters end is not known");
            }
        }
    }
    Ok(())
}

/// Partitions whose next dead letter is not on the log: it was deleted, or the log was truncated. They go on with the rest of the log.
#[derive(Default)]
struct Lost {
    partitions: Vec<Partition>,
    retry_at: Option<Instant>,
}

impl Lost {
    /// Stops reading a partition that is out of range.
    fn note(&mut self, polled: anyhow::Result<bool>, fetcher: &mut Fetcher) -> anyhow::Result<()> {
        let Err(error) = polled else {
            return Ok(());
        };
        let Some(FetchError::OutOfRange { partition, .. }) = error.downcast_ref() else {
            return Err(error);
        };
        tracing::warn!("{error:#}; what has become of the sends that wait is not known");
        fetcher.stop(*partition);
        self.partitions.push(*partition);
        Ok(())
    }

    /// Goes on with what the log has by now.
    fn go_on(&mut self, gateway: &Gateway, reader: &LogReader, fetcher: &mut Fetcher) {
        let now = Instant::now();
        if self.partitions.is_empty() || self.retry_at.is_some_and(|at| now < at) {
            return;
        }
        let bounds = match reader.bounds(Topic::DeadLetters, &self.partitions) {
            Ok(bounds) => bounds,
            Err(error) => {
                tracing::debug!(%error, "where dead letters go on is not known");
                self.retry_at = Some(now + HaltedPartitions::RETRY);
                return;
            }
        };
        for (partition, bounds) in bounds {
            let next = gateway.hub().lose_dead_letters(partition, bounds);
            fetcher.start(partition, next);
        }
        self.partitions.clear();
    }
}

/// The refusal of a record of `chat.inbound`, if the dead letter is of such a record.
fn refusal(inbound_topic: &str, record: &RecordRef<'_>) -> Option<(InboundPosition, Refusal)> {
    let headers = record.headers();
    let dead_letter = DeadLetterHeaders::read(|name| {
        let (_, value) = headers.iter().rfind(|(key, _)| key == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    })?;
    let at = InboundPosition {
        partition: dead_letter.partition,
        offset: dead_letter.offset,
    };
    let refusal = Refusal {
        reason: dead_letter.reason,
        detail: dead_letter.message,
    };
    (dead_letter.topic == inbound_topic).then_some((at, refusal))
}

/// If a send has no event, its dead letter, if there is one, is below the current end (PROTOCOL S7).
fn ask_for_ends(gateway: &Gateway, reader: &LogReader) -> Result<(), EventLogError> {
    let without_event = gateway.hub().sends_without_event();
    let mut partitions: Vec<Partition> = without_event.iter().map(|at| at.partition).collect();
    partitions.dedup();
    if partitions.is_empty() {
        return Ok(());
    }
    let bounds = reader.bounds(Topic::DeadLetters, &partitions)?;
    let ends = bounds.map(|_, bounds| NextOffset::new(bounds.end));
    gateway.hub().wait_for_dead_letters(&without_event, &ends);
    Ok(())
}

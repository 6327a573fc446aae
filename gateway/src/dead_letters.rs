//! Reads `chat.dead-letters`: which sends of devices were refused, and which, having neither an event nor a dead letter, repeat an earlier one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use event_log::{EventLogError, Fetched, Fetcher, LogReader, RecordRef};
use schemas::{
    InboundPosition, NextOffset, Partition, PartitionMap, dead_letter::DeadLetterHeaders,
    topics::Topic,
};

use crate::{hub::Refusal, reading::poll, state::Gateway};

const POLL: Duration = Duration::from_millis(50);

/// Where they end. Dead letters of what devices send from now on are behind.
pub(crate) async fn begin(reader: &Arc<LogReader>) -> anyhow::Result<PartitionMap<NextOffset>> {
    let ends = reader.ends(Topic::DeadLetters).await?;
    Ok(ends.map(|_, end| NextOffset::new(end)))
}

/// Reads until the shutdown. Blocks.
///
/// # Errors
/// Kafka's client is no longer usable, or what is to be read is gone.
pub(crate) fn run(
    gateway: &Gateway,
    reader: &LogReader,
    begin: &PartitionMap<NextOffset>,
) -> anyhow::Result<()> {
    let inbound_topic = gateway.kafka.topic(Topic::Inbound);
    let mut fetcher = Fetcher::new(&gateway.kafka, Topic::DeadLetters)?;
    for (partition, next) in begin.iter() {
        fetcher.start(partition, *next)?;
        gateway.hub().read_dead_letters(partition, *next);
    }
    let mut asked = Instant::now();
    while !gateway.shutdown.soft().is_cancelled() {
        poll(Topic::DeadLetters, &mut fetcher, POLL, |fetched| {
            if let Fetched::Record(record) = fetched {
                let refused = refusal(&inbound_topic, &record);
                let mut hub = gateway.hub();
                if let Some((at, refusal)) = refused {
                    hub.refuse(at, refusal, gateway.now_ms());
                }
                hub.read_dead_letters(record.partition, NextOffset::after(record.offset));
            }
            Ok(())
        })?;
        if asked.elapsed() >= POLL {
            asked = Instant::now();
            if let Err(error) = ask_for_ends(gateway, reader) {
                tracing::debug!(%error, "where dead letters end is not known");
            }
        }
    }
    Ok(())
}

/// The refusal of a record of `chat.inbound`, where the dead letter is of one.
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

/// Where a send has no event, its dead letter is below the end now, if it has one (PROTOCOL S7).
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

//! Reads `chat.dead-letters`: which sends of devices were refused, and which, having neither an event nor a dead letter, repeat an earlier one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::bail;
use event_log::{EventLogError, FetchError, Fetched, Fetcher, KafkaConfig, LogReader, RecordRef};
use schemas::{
    InboundPosition, NextOffset, Partition, PartitionMap, dead_letter::DeadLetterHeaders,
    topics::Topic,
};
use service_runtime::ReadinessCheck;
use tokio::time::sleep;

use crate::{hub::Refusal, state::Gateway};

const POLL: Duration = Duration::from_millis(50);
const RETRY: Duration = Duration::from_millis(500);

/// Where they end. Dead letters of what devices send from now on are behind.
pub(crate) async fn begin(
    gateway: &Gateway,
    reader: &Arc<LogReader>,
    check: &ReadinessCheck,
) -> Option<PartitionMap<NextOffset>> {
    loop {
        match reader.ends(Topic::DeadLetters).await {
            Ok(ends) => return Some(ends.map(|_, end| NextOffset::new(end))),
            Err(error) => check.not_ready(format!("where dead letters end is not known: {error}")),
        }
        tokio::select! {
            () = sleep(RETRY) => {}
            () = gateway.shutdown.soft().cancelled() => return None,
        }
    }
}

/// Reads until the shutdown. Blocks.
///
/// # Errors
/// Kafka's client is no longer usable, or what is to be read is gone.
pub(crate) fn run(
    gateway: &Gateway,
    kafka: &KafkaConfig,
    reader: &LogReader,
    begin: &PartitionMap<NextOffset>,
) -> anyhow::Result<()> {
    let mut fetcher = Fetcher::new(kafka, Topic::DeadLetters)?;
    for (partition, next) in begin.iter() {
        fetcher.start(partition, *next)?;
        take(gateway, (partition, *next), None);
    }
    let mut asked = Instant::now();
    while !gateway.shutdown.soft().is_cancelled() {
        let polled = fetcher.poll(POLL, |fetched| {
            if let Fetched::Record(record) = fetched {
                let next = NextOffset::after(record.offset);
                take(gateway, (record.partition, next), refusal(gateway, &record));
            }
        });
        match polled {
            Ok(Some(()) | None) => {}
            Err(FetchError::Transient(why)) => tracing::debug!(why, "dead letters are not read"),
            Err(error) => bail!("reading dead letters: {error}"),
        }
        if asked.elapsed() >= POLL {
            asked = Instant::now();
            if let Err(error) = ask_for_ends(gateway, reader) {
                tracing::debug!(%error, "where dead letters end is not known");
            }
        }
    }
    Ok(())
}

fn take(
    gateway: &Gateway,
    read_to: (Partition, NextOffset),
    refused: Option<(InboundPosition, Refusal)>,
) {
    if let Some(mut hub) = gateway.hub() {
        hub.take_dead_letter(read_to, refused, gateway.now_ms());
    }
}

/// The refusal of a record of `chat.inbound`, where the dead letter is of one.
fn refusal(gateway: &Gateway, record: &RecordRef<'_>) -> Option<(InboundPosition, Refusal)> {
    let headers = record.headers();
    let letter = DeadLetterHeaders::read(|name| {
        let (_, value) = headers.iter().rfind(|(key, _)| key == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    })?;
    let at = InboundPosition {
        partition: letter.partition,
        offset: letter.offset,
    };
    let refusal = Refusal {
        reason: letter.reason,
        detail: letter.message,
    };
    (letter.topic == gateway.inbound_topic).then_some((at, refusal))
}

/// Where a send has no event, its dead letter is below the end now, if it has one (PROTOCOL S7).
fn ask_for_ends(gateway: &Gateway, reader: &LogReader) -> Result<(), EventLogError> {
    let without_event = gateway.hub().map(|hub| hub.sends_without_event());
    let without_event = without_event.unwrap_or_default();
    let mut partitions: Vec<Partition> = without_event.iter().map(|at| at.partition).collect();
    partitions.dedup();
    if partitions.is_empty() {
        return Ok(());
    }
    let bounds = reader.bounds(Topic::DeadLetters, &partitions)?;
    let ends = bounds.map(|_, bounds| NextOffset::new(bounds.end));
    if let Some(mut hub) = gateway.hub() {
        hub.wait_for_dead_letters(&without_event, &ends);
    }
    Ok(())
}

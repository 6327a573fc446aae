//! Reads all partitions of `chat.events` into the hub, on a thread of its own: it never waits for a connection (W7).

use std::{sync::Arc, time::Duration};

use anyhow::bail;
use event_log::{Fetched, Fetcher, RecordRef};
use message_store::Sink;
use schemas::{
    EventPosition, LogPosition, NextOffset, Partition, PartitionMap, SourceWatermark,
    event::ReadError, topics::Topic,
};
use service_runtime::ReadinessCheck;

use crate::{
    hub::{Hub, RingEvent},
    reading::poll,
    state::Gateway,
};

const POLL: Duration = Duration::from_millis(100);
/// Connections are woken at the latest after so many records: less than a millisecond's work.
const WOKEN_FOR: usize = 64;
/// How often what is too old is dropped, milliseconds.
const DROP_EVERY_MS: u64 = 1_000;

/// The hub before anything was read.
pub(crate) fn hub(gateway: &Gateway, begin: &PartitionMap<LogPosition>) -> Hub {
    let epoch = begin
        .values()
        .map(|position| position.watermark.epoch)
        .max();
    let limits = gateway.config.limits(gateway.poster.deadline());
    let next = |(partition, position): (Partition, &LogPosition)| (partition, position.next);
    Hub::new(
        limits,
        epoch.unwrap_or_default(),
        &begin.iter().map(next).collect(),
    )
}

/// Where each partition's ring begins: where MySQL's contacts are, in the database that is furthest behind. The watermark that is stored with it
/// says which records behind it count (PROTOCOL S10), and every membership is known from there on (W2).
pub(crate) async fn begin(gateway: &Gateway) -> anyhow::Result<PartitionMap<LogPosition>> {
    let all: Vec<Partition> = Partition::all().collect();
    let topic = gateway.kafka.topic(Topic::Events);
    let mut lowest: PartitionMap<LogPosition> = PartitionMap::new();
    let store = &gateway.store;
    for shard in store.layout().shards() {
        let read = store.read_resume_offsets(shard, Sink::Contacts, &topic, &all);
        for (partition, position) in read.await? {
            let known = lowest.get_or_insert_with(partition, || position);
            *known = position.min(*known);
        }
    }
    Ok(lowest)
}

/// Reads until the shutdown. Blocks.
///
/// # Errors
/// Kafka's client is no longer usable, what is to be read is gone, or it was written by a newer program.
pub(crate) fn run(
    gateway: &Arc<Gateway>,
    begin: &PartitionMap<LogPosition>,
    check: &ReadinessCheck,
) -> anyhow::Result<()> {
    let mut fetcher = Fetcher::new(&gateway.kafka, Topic::Events)?;
    let mut watermarks = PartitionMap::new();
    for (partition, position) in begin.iter() {
        fetcher.start(partition, position.next)?;
        watermarks.insert(partition, SourceWatermark::above(position.watermark));
    }
    let mut dropped_ms = 0;
    let mut unwoken = 0;
    check.ready();
    while !gateway.shutdown.soft().is_cancelled() {
        // What has been fetched already is handed out before anybody is woken for it, but for so many at most.
        let timeout = if unwoken > 0 { Duration::ZERO } else { POLL };
        let has_taken = poll(
            Topic::Events,
            &mut fetcher,
            timeout,
            |fetched| match fetched {
                Fetched::Record(record) => take(gateway, &mut watermarks, &record),
                Fetched::EndOfPartition(_) => Ok(()),
                // The log may have been truncated meanwhile (PROTOCOL S13): whoever goes on from an event that is gone has to sync.
                Fetched::BackInRange(partition) => {
                    gateway.hub().forget_events(partition);
                    Ok(())
                }
            },
        )?;
        unwoken += usize::from(has_taken);
        if unwoken == WOKEN_FOR || (unwoken > 0 && !has_taken) {
            unwoken = 0;
            gateway.hub().wake();
        }
        let now_ms = gateway.now_ms();
        if now_ms - dropped_ms >= DROP_EVERY_MS && gateway.hub().drop_old(now_ms) {
            dropped_ms = now_ms;
        }
    }
    Ok(())
}

fn take(
    gateway: &Gateway,
    watermarks: &mut PartitionMap<SourceWatermark>,
    record: &RecordRef<'_>,
) -> anyhow::Result<()> {
    let mut hub = gateway.hub();
    let partition = record.partition;
    match record.event() {
        Ok(event) if watermarks[partition].admit(event.src.offset) => {
            if let Some(uid) = gateway.contacts.learn(&event) {
                gateway.presence.mark_stale_if_watched(uid);
            }
            let at = EventPosition {
                partition,
                offset: record.offset,
            };
            let event = RingEvent::new(at, event, record.bytes().len());
            hub.apply(event, gateway.now_ms());
        }
        // The projections report what is no event.
        Ok(_) | Err(ReadError::Skipped(_)) => {
            hub.advance(partition, NextOffset::after(record.offset));
        }
        Err(ReadError::UnknownRules(rules)) => {
            bail!("{partition:?} of chat.events cannot be read on: {rules}");
        }
    }
    Ok(())
}

//! Raises the source epoch (PROTOCOL S13): appends (epoch + 1, offset) to every partition of `chat.events`, where offset
//! is the one before the first record of `chat.inbound` that is yet to be sequenced as that topic is now. The sequencer
//! goes on from there, and readers take what comes as new.

use std::{
    collections::BTreeMap,
    ops::{ControlFlow, Range},
    time::Duration,
};

use anyhow::Context as _;
use event_log::{AppendRecord, DeliveryFailure, LogProducer, LogReader, ProducerSettings};
use schemas::{
    Partition, TimestampMs,
    event::{Body, Event, Source, SrcMark},
    topics::Topic,
};
use tokio::sync::oneshot;

use crate::{failure::Failure, handles::Handles};

/// How far back the newest epoch is looked for: a former owner's repeats may lie behind it.
const LOOK_BACK: i64 = 1000;
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn raise(handles: &Handles, json: bool) -> anyhow::Result<()> {
    let kafka = handles.kafka()?;
    let reader = LogReader::new(&kafka)?;
    let starts = tokio::task::spawn_blocking(move || starts(&reader)).await??;
    let epoch = starts.first().map_or(1, |start| start.src.mark.epoch);
    let settings = ProducerSettings {
        linger_ms: 0,
        message_timeout_ms: 0,
        queue_bytes: 1 << 20,
        max_message_bytes: 100_000,
        gapless: true,
    };
    let producer = LogProducer::new(&kafka, &settings)?;
    let topic = kafka.topic(Topic::Events);
    for (partition, start) in Partition::all().zip(starts) {
        append(&producer, &topic, partition, start).await?;
    }
    if json {
        println!("{}", serde_json::json!({ "epoch": epoch }));
    } else {
        println!("the source epoch is {epoch} now; the sequencers may be started");
    }
    Ok(())
}

/// The event that begins the next epoch, for each partition.
fn starts(reader: &LogReader) -> anyhow::Result<Vec<Event>> {
    let running = reader.group_members(sequencer::GROUP)?;
    if running > 0 {
        let why = format!("{running} sequencers are running: stop every one first");
        return Err(Failure::Usage(why).into());
    }
    let newest = newest(reader)?;
    let epoch = 1 + newest
        .values()
        .map(|event| event.src.mark.epoch)
        .max()
        .unwrap_or(0);
    let all: Vec<Partition> = Partition::all().collect();
    let inbound = reader.bounds(Topic::Inbound, &all)?;
    let mut starts = Vec::with_capacity(all.len());
    for partition in all {
        let last = newest.get(&partition);
        let from = match last {
            Some(last) if is_still_there(reader, partition, last.src)? => last.src.mark.offset + 1,
            _ => inbound[&partition].start,
        };
        let offset = first_at(reader, partition, from..inbound[&partition].end)? - 1;
        let src = Source {
            mark: SrcMark { epoch, offset },
            leader_epoch: -1,
        };
        let ts = last.map_or(TimestampMs(0), |last| last.ts);
        starts.push(Event {
            src,
            ts,
            body: Body::Progress,
        });
    }
    Ok(starts)
}

/// Each partition's event with the highest mark, with the time that the partition's clock shows.
fn newest(reader: &LogReader) -> anyhow::Result<BTreeMap<Partition, Event>> {
    let all: Vec<Partition> = Partition::all().collect();
    let ranges: Vec<_> = reader
        .bounds(Topic::Events, &all)?
        .into_iter()
        .map(|(partition, bounds)| {
            (
                partition,
                bounds.start.max(bounds.end - LOOK_BACK)..bounds.end,
            )
        })
        .collect();
    let mut newest: BTreeMap<Partition, Event> = BTreeMap::new();
    reader.scan(Topic::Events, &ranges, |record| {
        if let Ok(mut event) = Event::parse(record.bytes(), record.timestamp) {
            let best = newest
                .entry(record.partition)
                .or_insert_with(|| event.clone());
            let clock = best.ts.max(event.ts);
            if event.src.mark > best.src.mark {
                std::mem::swap(best, &mut event);
            }
            best.ts = clock;
        }
        ControlFlow::Continue(())
    })?;
    Ok(newest)
}

/// Whether `chat.inbound` holds the very record that was sequenced last.
fn is_still_there(reader: &LogReader, partition: Partition, last: Source) -> anyhow::Result<bool> {
    let record = reader.record(Topic::Inbound, partition, last.mark.offset)?;
    Ok(record.is_some_and(|record| record.leader_epoch == last.leader_epoch))
}

/// The offset of the first record in `range`; its end where there is none.
fn first_at(reader: &LogReader, partition: Partition, range: Range<i64>) -> anyhow::Result<i64> {
    let mut first = range.end.max(range.start);
    reader.scan(Topic::Inbound, &[(partition, range)], |record| {
        first = record.offset;
        ControlFlow::Break(())
    })?;
    Ok(first)
}

async fn append(
    producer: &LogProducer<oneshot::Sender<Result<i64, DeliveryFailure>>>,
    topic: &str,
    partition: Partition,
    event: Event,
) -> anyhow::Result<()> {
    let timestamp = Some(event.ts);
    let value = event.encode();
    let (fate, outcome) = oneshot::channel();
    let record = AppendRecord {
        topic,
        partition,
        key: b"",
        value: Some(&value),
        timestamp,
        headers: &[],
    };
    producer.append(record, fate)?;
    tokio::time::timeout(PATIENCE, outcome)
        .await
        .map_err(|_| Failure::Timeout(format!("{topic} partition {partition} takes no record")))?
        .context("the producer went away")?
        .with_context(|| {
            format!("appending to {topic} partition {partition}; run the command again")
        })?;
    Ok(())
}

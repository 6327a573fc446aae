//! Raises the source epoch (PROTOCOL S13, `docs/adr/0005`): appends (epoch + 1, offset) to every partition of
//! `chat.events`, where offset is the one before the record of `chat.inbound` that is to be sequenced next as that topic
//! is now. The sequencer goes on from there, and readers take what comes as new.

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use event_log::{
    AppendRecord, Bounds, DeliveryFailure, KafkaConfig, KafkaFault, LogProducer, LogReader, Newest,
    ProducerSettings,
};
use schemas::{
    Partition, TimestampMs,
    event::{Body, Event, Source, SrcMark},
    topics::Topic,
};
use tokio::sync::oneshot;

use crate::{failure::Failure, handles::Handles};

/// How far back the newest epoch is looked for.
const LOOK_BACK: i64 = 1000;
/// How long an append may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A sequencer that died is a member of its group until its session ends, 10 s later.
const LEAVE_PATIENCE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) async fn raise(handles: &Handles, json: bool) -> anyhow::Result<()> {
    let kafka = handles.kafka()?;
    let reader = Arc::new(LogReader::new(&kafka)?);
    let raise = tokio::task::spawn_blocking(move || {
        wait_until_stopped(&reader)?;
        Raise::plan(&reader)
    });
    let Raise { epoch, starts } = raise.await??;
    append_all(&kafka, &starts).await?;
    let partitions = starts.len();
    if json {
        let raised = serde_json::json!({ "epoch": epoch, "partitions": partitions });
        println!("{raised}");
    } else {
        println!(
            "the source epoch is {epoch} now, in {partitions} partitions anew; the sequencers may be started"
        );
    }
    Ok(())
}

fn wait_until_stopped(reader: &LogReader) -> anyhow::Result<()> {
    let deadline = Instant::now() + LEAVE_PATIENCE;
    let mut told = false;
    loop {
        let members = reader.group_members(sequencer::GROUP)?;
        if members == 0 {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let why = format!("sequencers still running: {members}; stop every one first");
            return Err(Failure::Usage(why).into());
        }
        if !told {
            let wait = LEAVE_PATIENCE.as_secs();
            eprintln!(
                "sequencers in their group: {members}; waiting up to {wait} s, since one that died is a member \
                 until its session ends"
            );
            told = true;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// What is to be appended.
struct Raise {
    epoch: u32,
    /// The event that begins the epoch in each partition that is not there yet.
    starts: Vec<(Partition, Event)>,
}

impl Raise {
    fn plan(reader: &LogReader) -> anyhow::Result<Self> {
        let newest = reader.newest_events(&Partition::all().collect::<Vec<_>>(), LOOK_BACK)?;
        let all: Vec<Partition> = Partition::all().collect();
        let inbound = reader.bounds(Topic::Inbound, &all)?;
        let epoch_of = |partition| newest.get(&partition).map_or(0, |n| n.last.mark.epoch);
        let epoch = target(all.iter().copied().map(epoch_of));
        let mut starts = Vec::new();
        for partition in all.into_iter().filter(|one| epoch_of(*one) < epoch) {
            let bounds = *inbound
                .get(&partition)
                .with_context(|| format!("chat.inbound has no partition {partition}"))?;
            let newest = newest.get(&partition);
            let event = start(reader, partition, epoch, newest, bounds)?;
            starts.push((partition, event));
        }
        Ok(Self { epoch, starts })
    }
}

/// The epoch to which every partition is to be raised. Partitions that differ were left behind by a raise that broke
/// off: then it is that raise's, so that another run finishes it and raises no partition twice.
fn target(epochs: impl Iterator<Item = u32>) -> u32 {
    let epochs: Vec<u32> = epochs.collect();
    let highest = epochs.iter().copied().max().unwrap_or(0);
    let is_whole = epochs.iter().all(|epoch| *epoch == highest);
    highest + u32::from(is_whole)
}

fn start(
    reader: &LogReader,
    partition: Partition,
    epoch: u32,
    newest: Option<&Newest>,
    inbound: Bounds,
) -> Result<Event, KafkaFault> {
    let kept = |offset| kept(reader, partition, inbound, offset);
    let next = resume(newest, inbound, kept)?;
    let offset = first_at(reader, partition, next..inbound.end)? - 1;
    let leader_epoch = kept(offset)?.map_or(-1, |kept| kept.leader_epoch);
    let mark = SrcMark { epoch, offset };
    Ok(Event {
        src: Source { mark, leader_epoch },
        ts: newest.map_or(TimestampMs(0), |newest| newest.clock),
        body: Body::Progress,
    })
}

/// A record of `chat.inbound` that is retained.
#[derive(Clone, Copy)]
struct Kept {
    leader_epoch: i32,
    appended: TimestampMs,
}

/// From which offset on `chat.inbound` is yet to be sequenced: behind the last that was, where it is still that log;
/// otherwise from its beginning. `kept` is the record at an offset, where it is retained.
fn resume(
    newest: Option<&Newest>,
    inbound: Bounds,
    kept: impl Fn(i64) -> Result<Option<Kept>, KafkaFault>,
) -> Result<i64, KafkaFault> {
    let Some(newest) = newest else {
        return Ok(inbound.start);
    };
    let went_back = inbound.end <= newest.last.mark.offset;
    if went_back || is_other(newest, kept)? {
        return Ok(inbound.start);
    }
    Ok((newest.last.mark.offset + 1).max(inbound.start))
}

/// Whether the log holds other records than those that were sequenced. What retention has deleted says nothing.
fn is_other(
    newest: &Newest,
    kept: impl Fn(i64) -> Result<Option<Kept>, KafkaFault>,
) -> Result<bool, KafkaFault> {
    let last = kept(newest.last.mark.offset)?;
    if last.is_some_and(|kept| was_led_otherwise(newest.last, kept)) {
        return Ok(true);
    }
    let Some((decided, ts)) = newest.decided else {
        return Ok(false);
    };
    // A new topic has the old one's leader epochs. But an event is no older than the record that caused it (S2).
    let decided_by = kept(decided.mark.offset)?;
    Ok(decided_by.is_some_and(|kept| was_led_otherwise(decided, kept) || kept.appended > ts))
}

/// −1 is an epoch that was not known.
fn was_led_otherwise(src: Source, kept: Kept) -> bool {
    src.leader_epoch >= 0 && kept.leader_epoch >= 0 && src.leader_epoch != kept.leader_epoch
}

fn kept(
    reader: &LogReader,
    partition: Partition,
    inbound: Bounds,
    offset: i64,
) -> Result<Option<Kept>, KafkaFault> {
    if !(inbound.start..inbound.end).contains(&offset) {
        return Ok(None);
    }
    let record = reader.record(Topic::Inbound, partition, offset)?;
    Ok(record.map(|record| Kept {
        leader_epoch: record.leader_epoch,
        appended: record.timestamp,
    }))
}

/// The offset of the first record in `range`; its end where there is none. Offsets may be missing within the log.
fn first_at(
    reader: &LogReader,
    partition: Partition,
    range: Range<i64>,
) -> Result<i64, KafkaFault> {
    let mut first = range.end.max(range.start);
    reader.scan(Topic::Inbound, &[(partition, range)], |record| {
        first = record.offset;
        ControlFlow::Break(())
    })?;
    Ok(first)
}

async fn append_all(kafka: &KafkaConfig, starts: &[(Partition, Event)]) -> anyhow::Result<()> {
    let settings = ProducerSettings {
        linger_ms: 0,
        message_timeout_ms: 0,
        queue_bytes: 1 << 20,
        max_message_bytes: 100_000,
        gapless: true,
    };
    let producer = LogProducer::new(kafka, &settings)?;
    let topic = kafka.topic(Topic::Events);
    for (partition, event) in starts {
        append(&producer, &topic, *partition, event.clone()).await?;
    }
    Ok(())
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
    let again = "run the command again: it goes on where it stopped";
    tokio::time::timeout(PATIENCE, outcome)
        .await
        .map_err(|_| {
            Failure::Timeout(format!(
                "{topic} partition {partition} takes no record; {again}"
            ))
        })?
        .context("the producer went away")?
        .with_context(|| format!("appending to {topic} partition {partition}; {again}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn src(offset: i64, leader_epoch: i32) -> Source {
        let mark = SrcMark { epoch: 1, offset };
        Source { mark, leader_epoch }
    }

    fn newest(last: Source, decided: Option<Source>) -> Newest {
        let ts = TimestampMs(100);
        Newest {
            last,
            clock: ts,
            decided: decided.map(|src| (src, ts)),
        }
    }

    /// Where sequencing goes on, with a log in which every record has this leader epoch and time.
    fn resumed(newest: &Newest, bounds: Range<i64>, leader_epoch: i32, appended: i64) -> i64 {
        let Range { start, end } = bounds;
        let kept = |offset| {
            let appended = TimestampMs(appended);
            let kept = Kept {
                leader_epoch,
                appended,
            };
            Ok((start..end).contains(&offset).then_some(kept))
        };
        resume(Some(newest), Bounds { start, end }, kept).unwrap()
    }

    #[test]
    fn a_raise_that_broke_off_is_finished_and_a_whole_one_is_followed_by_the_next() {
        assert_eq!(target([0, 0, 0].into_iter()), 1);
        assert_eq!(target([1, 1, 0].into_iter()), 1);
        assert_eq!(target([3, 3, 3].into_iter()), 4);
    }

    #[test]
    fn a_log_that_went_on_is_not_sequenced_again() {
        let sequenced = newest(src(41, 7), Some(src(41, 7)));
        assert_eq!(resumed(&sequenced, 0..50, 7, 100), 42);
        assert_eq!(resumed(&sequenced, 0..42, 7, 100), 42);
        // Nothing but a raise yet, which knew no leader epoch.
        let raised = newest(src(41, -1), None);
        assert_eq!(resumed(&raised, 0..50, 7, 100), 42);
        assert_eq!(resumed(&raised, 42..50, 7, 100), 42);
    }

    #[test]
    fn what_was_deleted_unread_is_left_out() {
        let sequenced = newest(src(41, 7), Some(src(40, 7)));
        assert_eq!(resumed(&sequenced, 45..50, 7, 100), 45);
    }

    #[test]
    fn another_log_is_sequenced_from_its_beginning() {
        let sequenced = newest(src(41, 7), Some(src(40, 7)));
        assert_eq!(resumed(&sequenced, 0..41, 7, 100), 0, "it went back");
        assert_eq!(resumed(&sequenced, 0..50, 8, 100), 0, "a leader cut it");
        assert_eq!(resumed(&sequenced, 0..50, 7, 101), 0, "a new topic");
        assert_eq!(resumed(&newest(src(-1, -1), None), 0..50, 0, 0), 0);
    }

    #[test]
    fn a_partition_without_events_is_sequenced_from_its_beginning() {
        let bounds = Bounds { start: 3, end: 5 };
        assert_eq!(resume(None, bounds, |_| Ok(None)).unwrap(), 3);
    }
}

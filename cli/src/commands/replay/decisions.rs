//! Decides about the records of `chat.inbound` again: the test before an upgrade or a change of the rules, on one's own traffic.

use std::{
    collections::HashMap,
    iter::Peekable,
    ops::{ControlFlow, Range},
    panic::resume_unwind,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use event_log::{EventLogError, KafkaConfig, LogReader, Record};
use indicatif::ProgressBar;
use schemas::{
    OffsetRange, Partition, PartitionMap, SourceWatermark, TimestampMs,
    dead_letter::DeadLetterHeaders,
    event::{Body, ReadError, SourceOffset},
    topics::Topic,
};
use serde_json::json;

use super::judge::{Changes, DeadLetter, Findings, Found, Judge, NAMED};
use crate::{
    args::ReplayDecisionsArgs,
    context::CommandContext,
    failure::{self, Failure},
    output::{Table, grouped, per_second, progress_bar},
};

/// How many partitions are read at the same time. Each begins with some answers of the broker that have to be waited for.
const WORKERS: usize = 4;

/// How many of the newest events are looked at for the epoch.
const EPOCH_LOOK_BACK: i64 = 64;

pub(super) async fn run(
    context: &CommandContext,
    args: ReplayDecisionsArgs,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let words = args
        .words
        .as_deref()
        .map(posting::read_filter)
        .transpose()?;
    let changes = Changes {
        rules: args.rules.control(),
        words: words.map(|(filter, _)| filter),
    };
    let kafka = context.kafka()?;
    let bar = progress_bar()?;
    let started = Instant::now();
    let replayed = {
        let bar = bar.clone();
        tokio::task::spawn_blocking(move || replay(&kafka, &args, &changes, &bar)).await?
    };
    let read = bar.position();
    bar.finish_and_clear();
    let findings = replayed?;
    show(&findings, read, started.elapsed(), json);
    Ok(failure::code_of_answer(findings.differences.is_empty()))
}

/// The topics of one replay, each with a reader of its own: a reader reads one range at a time.
struct Logs {
    inbound: Arc<LogReader>,
    events: Arc<LogReader>,
}

impl Logs {
    fn new(kafka: &KafkaConfig) -> Result<Self, EventLogError> {
        Ok(Self {
            inbound: Arc::new(LogReader::new(kafka)?),
            events: Arc::new(LogReader::new(kafka)?),
        })
    }
}

fn replay(
    kafka: &KafkaConfig,
    args: &ReplayDecisionsArgs,
    changes: &Changes,
    bar: &ProgressBar,
) -> anyhow::Result<Findings> {
    let logs = Logs::new(kafka)?;
    let inbound = args.range.offsets(&logs.inbound, Topic::Inbound)?;
    let partitions: Vec<Partition> = inbound.partitions().collect();
    let events = logs.events.bounds(Topic::Events, &partitions)?;
    let mut dead_letters = DeadLetters::read(kafka, &logs.inbound, &partitions)?;
    let lengths = events.iter().map(|(_, range)| range.end.cast_unsigned());
    bar.set_length(lengths.sum());
    let mut judges = Vec::new();
    for (partition, inbound) in inbound {
        let start = events[partition].start;
        if start > 0 {
            return Err(Failure::NotFound(format!(
                "partition {partition} of chat.events begins at offset {start}: the state before it is in no log, so nothing can be decided again"
            ))
            .into());
        }
        let letters = dead_letters.of.remove(partition).unwrap_or_default();
        let judge = Judge::new(partition, changes, letters, dead_letters.since)
            .map_err(|wrong| Failure::Usage(format!("partition {partition}: {wrong}")))?;
        judges.push((judge, partition, inbound));
    }
    let queue = Mutex::new(judges.into_iter());
    let work = || -> anyhow::Result<Findings> {
        let logs = Logs::new(kafka)?;
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let mut findings = Findings::default();
        while let Some((judge, partition, inbound)) = next() {
            findings.merge(logs.judge(judge, partition, inbound, events[partition], bar)?);
        }
        Ok(findings)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let mut findings = Findings::default();
        for worker in workers {
            let found = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            findings.merge(found?);
        }
        Ok(findings)
    })
}

impl Logs {
    /// Judges the inbound records of a partition that are sequenced.
    fn judge(
        &self,
        mut judge: Judge<'_>,
        partition: Partition,
        inbound: Range<i64>,
        events: OffsetRange,
        bar: &ProgressBar,
    ) -> anyhow::Result<Findings> {
        let epoch = self.epoch(partition, events)?;
        let mut findings = Findings::default();
        let mut records = self
            .inbound
            .records(Topic::Inbound, partition, inbound)
            .peekable();
        let mut watermark = SourceWatermark::above(SourceOffset::START);
        // In a later epoch than 0, records up to the epoch's first event were decided before it, perhaps from another chat.inbound.
        let mut is_of_epoch = epoch == 0;
        for record in self.events.records(Topic::Events, partition, 0..events.end) {
            let record = record?;
            bar.inc(1);
            let event = match record.event() {
                Ok(event) if watermark.admit(event.src.offset) => event,
                Ok(_) | Err(ReadError::Skipped(_)) => continue,
                Err(ReadError::UnknownRules(unknown)) => {
                    let offset = record.offset;
                    anyhow::bail!("chat.events, {partition}:{offset}: {unknown}");
                }
            };
            let SourceOffset { epoch: of, offset } = event.src.offset;
            while of == epoch
                && let Some(record) = next_up_to(&mut records, offset)?
            {
                if is_of_epoch {
                    let answers = record.offset == offset && event.body != Body::Progress;
                    let judgement = judge.judge(&record, epoch, answers.then_some(&event));
                    findings.add(partition, record.offset, judgement);
                }
            }
            is_of_epoch |= of == epoch;
            judge
                .apply(&event)
                .map_err(|wrong| Failure::Usage(format!("partition {partition}: {wrong}")))?;
        }
        Ok(findings)
    }

    /// The newest epoch of a partition.
    fn epoch(&self, partition: Partition, events: OffsetRange) -> anyhow::Result<u32> {
        let bounds = [(partition, events)].into_iter().collect();
        let newest = self.events.newest_events(bounds, EPOCH_LOOK_BACK)?;
        let epoch = newest.get(partition).map(|newest| newest.last.offset.epoch);
        Ok(epoch.unwrap_or_default())
    }
}

fn next_up_to(
    records: &mut Peekable<impl Iterator<Item = Result<Record, EventLogError>>>,
    offset: i64,
) -> Result<Option<Record>, EventLogError> {
    let is_due = |next: &Result<Record, EventLogError>| {
        next.as_ref().map_or(true, |record| record.offset <= offset)
    };
    records.next_if(is_due).transpose()
}

/// The dead letters of records of `chat.inbound`.
struct DeadLetters {
    of: PartitionMap<HashMap<i64, DeadLetter>>,
    /// Those of records before this time may have been deleted.
    since: TimestampMs,
}

impl DeadLetters {
    fn read(
        kafka: &KafkaConfig,
        reader: &LogReader,
        partitions: &[Partition],
    ) -> Result<Self, EventLogError> {
        let inbound = kafka.topic(Topic::Inbound);
        let bounds = reader.bounds(Topic::DeadLetters, partitions)?;
        let mut found = Self {
            of: PartitionMap::new(),
            since: TimestampMs(0),
        };
        let ranges: Vec<_> = bounds
            .iter()
            .map(|(partition, range)| (partition, range.start..range.end))
            .collect();
        reader.scan(Topic::DeadLetters, &ranges, |record| {
            // The oldest dead letter that is left in a partition that has lost some.
            if bounds[record.partition].start == record.offset && record.offset > 0 {
                found.since = found.since.max(record.timestamp);
            }
            found.add(&inbound, &record);
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    fn add(&mut self, inbound: &str, record: &Record) {
        let headers = DeadLetterHeaders::read(|name| record.header(name));
        if let Some(headers) = headers.filter(|headers| headers.topic == inbound) {
            let letters = self.of.get_or_insert_with(headers.partition, HashMap::new);
            let (reason, ts) = (headers.reason, record.timestamp);
            letters.insert(headers.offset, DeadLetter { reason, ts });
        }
    }
}

fn show(findings: &Findings, read: u64, took: Duration, as_json: bool) {
    let Findings {
        judged,
        unknown,
        differences,
    } = findings;
    let rate = per_second(read, took);
    let positions = |found: &Found| -> Vec<String> {
        let positions = found.first.iter();
        positions
            .map(|(partition, offset)| format!("{partition}:{offset}"))
            .collect()
    };
    if as_json {
        let different: Vec<_> = differences
            .iter()
            .map(|((was, now), found)| {
                json!({"was": was, "now": now, "count": found.count, "first": positions(found)})
            })
            .collect();
        let report = json!({
            "judged": judged,
            "not_judged": unknown,
            "differences": different,
            "seconds": took.as_secs_f64(),
            "per_second": rate,
        });
        println!("{report}");
        return;
    }
    let count: u64 = differences.values().map(|found| found.count).sum();
    println!(
        "{} records of chat.inbound judged in {:.1} s, {} events a second; {} decided otherwise",
        grouped(*judged),
        took.as_secs_f64(),
        grouped(rate as u64),
        grouped(count)
    );
    for (why, count) in unknown {
        println!("{} not judged: {why}", grouped(*count));
    }
    if differences.is_empty() {
        return;
    }
    let mut table = Table::new(["was", "now", "records", "first"]).right(&[2]);
    for ((was, now), found) in differences {
        let mut first = positions(found).join(" ");
        if found.count > NAMED as u64 {
            first.push_str(" …");
        }
        table.row([was.clone(), now.clone(), grouped(found.count), first]);
    }
    print!("{table}");
}

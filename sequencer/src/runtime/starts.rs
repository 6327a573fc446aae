//! Starts of partitions: what [`Loader`] asks for, read from Kafka. Runs on threads of its own, so that partitions that
//! are being worked on do not wait for others to start.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, mpsc},
    thread,
};

use event_log::{Bounds, EventLogError, KafkaConfig, LogReader, Record};
use schemas::{Partition, TimestampMs, event::Source, topics::Topic};

use super::effects::Run;
use crate::shell::{Assembler, EventRecord, LoadError, LoadRequest, Loaded, Loader, LogRange};

/// How a start ended.
pub(super) struct LoadReport {
    pub(super) starts: Vec<(Partition, Run)>,
    /// Where it went well: of every one of them.
    pub(super) outcome: Result<BTreeMap<Partition, Loaded>, LoadFault>,
}

/// Why a partition's past could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadFault {
    /// Worth another try.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// Not worth one.
    #[error(transparent)]
    Refused(#[from] LoadError),
}

/// How far a partition is sequenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequenced {
    /// The highest source on `chat.events`; [`SourceOffset::START`](schemas::event::SourceOffset::START) where there is none.
    pub last: Source,
    /// What the partition's clock shows.
    pub clock: TimestampMs,
}

/// How far `partition` is sequenced, as an owner finds it at its start (PROTOCOL S9): whatever lies at the end of `chat.events`,
/// repeats of a former owner or no events at all, is read past. Blocks.
///
/// # Errors
/// [`LoadFault`]: also where the log begins above 0 and no snapshot replaces what is gone, so that it cannot be known.
pub fn sequenced(reader: &LogReader, partition: Partition) -> Result<Sequenced, LoadFault> {
    let events = reader.bounds(Topic::Events, &[partition])?;
    let mut snapshots = read_snapshots(reader, &[partition])?;
    let snapshots = snapshots.remove(&partition).unwrap_or_default().finish();
    let loader = Loader::of_events(partition, range(events[&partition]), snapshots)?;
    let mut loaded = run(reader, BTreeMap::from([(partition, loader)]), &events)?;
    let Loaded { state, last, .. } = loaded
        .remove(&partition)
        .expect("a run has every partition that it was begun for");
    Ok(Sequenced {
        last,
        clock: state.clock(),
    })
}

/// The starts under way.
pub(super) struct Starts {
    reader: Arc<LogReader>,
    sender: mpsc::Sender<LoadReport>,
    ended: mpsc::Receiver<LoadReport>,
    last_run: Run,
}

impl Starts {
    pub(super) fn new(kafka: &KafkaConfig) -> Result<Self, EventLogError> {
        let (sender, ended) = mpsc::channel();
        Ok(Self {
            reader: Arc::new(LogReader::new(kafka)?),
            sender,
            ended,
            last_run: 0,
        })
    }

    /// Loads `partitions` together, each under a new name: a few requests to the brokers serve them all.
    pub(super) fn begin(&mut self, partitions: &[Partition]) -> Vec<(Partition, Run)> {
        if partitions.is_empty() {
            return Vec::new();
        }
        let starts: Vec<(Partition, Run)> = partitions
            .iter()
            .map(|partition| {
                self.last_run += 1;
                (*partition, self.last_run)
            })
            .collect();
        let (reader, reports) = (Arc::clone(&self.reader), self.sender.clone());
        let of_these = starts.clone();
        thread::Builder::new()
            .name("sequencer-load".to_owned())
            .spawn(move || {
                let partitions: Vec<Partition> = of_these.iter().map(|(p, _)| *p).collect();
                let outcome = load(&reader, &partitions);
                // A worker that is gone starts nothing.
                let _ = reports.send(LoadReport {
                    starts: of_these,
                    outcome,
                });
            })
            .expect("the system has a thread to spare");
        starts
    }

    /// A start that has ended, if one has.
    pub(super) fn next_ended(&self) -> Option<LoadReport> {
        self.ended.try_recv().ok()
    }
}

fn load(
    reader: &LogReader,
    partitions: &[Partition],
) -> Result<BTreeMap<Partition, Loaded>, LoadFault> {
    // The events' ends come first: an inbound record that an event names is on the log by then.
    let events = reader.bounds(Topic::Events, partitions)?;
    let inbound = reader.bounds(Topic::Inbound, partitions)?;
    let mut snapshots = read_snapshots(reader, partitions)?;
    let mut loaders = BTreeMap::new();
    for &partition in partitions {
        let loader = Loader::new(
            partition,
            range(events[&partition]),
            range(inbound[&partition]),
            snapshots.remove(&partition).unwrap_or_default().finish(),
        )?;
        loaders.insert(partition, loader);
    }
    run(reader, loaders, &events)
}

/// Gives the loaders what they need until all of them are done.
fn run(
    reader: &LogReader,
    mut loaders: BTreeMap<Partition, Loader>,
    events: &BTreeMap<Partition, Bounds>,
) -> Result<BTreeMap<Partition, Loaded>, LoadFault> {
    while serve(reader, &mut loaders, events)? {}
    Ok(loaders
        .into_iter()
        .map(|(partition, loader)| {
            let loaded = loader.finish();
            (
                partition,
                loaded.expect("a loader that needs nothing is done"),
            )
        })
        .collect())
}

fn range(Bounds { start, end }: Bounds) -> LogRange {
    LogRange { start, end }
}

fn read_snapshots(
    reader: &LogReader,
    partitions: &[Partition],
) -> Result<BTreeMap<Partition, Assembler>, EventLogError> {
    let mut assemblers: BTreeMap<Partition, Assembler> = BTreeMap::new();
    let ranges: Vec<_> = reader
        .bounds(Topic::Snapshots, partitions)?
        .into_iter()
        .map(|(partition, bounds)| (partition, bounds.start..bounds.end))
        .collect();
    reader.scan(Topic::Snapshots, &ranges, |record| {
        assemblers
            .entry(record.partition)
            .or_default()
            .push(record.bytes());
        ControlFlow::Continue(())
    })?;
    Ok(assemblers)
}

/// Gives every loader what it needs next; `false` once none needs anything.
fn serve(
    reader: &LogReader,
    loaders: &mut BTreeMap<Partition, Loader>,
    events: &BTreeMap<Partition, Bounds>,
) -> Result<bool, LoadFault> {
    let mut folds = Vec::new();
    let mut more = false;
    for (&partition, loader) in loaders.iter_mut() {
        match loader.request() {
            LoadRequest::Done => continue,
            LoadRequest::Events(from) => folds.push((partition, from..events[&partition].end)),
            LoadRequest::RecordBeforeSnapshot(offset) => {
                let record = reader.record(Topic::Events, partition, offset)?;
                loader.on_record_before_snapshot(&record.as_ref().map_or(MISSING, as_event))?;
            }
            LoadRequest::InboundLeaderEpoch(offset) => {
                let record = reader.record(Topic::Inbound, partition, offset)?;
                loader.on_inbound_leader_epoch(record.map(|record| record.leader_epoch))?;
            }
        }
        more = true;
    }
    fold(reader, loaders, &folds)?;
    Ok(more)
}

fn fold(
    reader: &LogReader,
    loaders: &mut BTreeMap<Partition, Loader>,
    ranges: &[(Partition, std::ops::Range<i64>)],
) -> Result<(), LoadFault> {
    let mut refused = None;
    reader.scan(Topic::Events, ranges, |record| {
        let Some(loader) = loaders.get_mut(&record.partition) else {
            return ControlFlow::Continue(());
        };
        match loader.on_events([as_event(&record)]) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                refused = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    refused.map_or(Ok(()), |error| Err(error.into()))
}

/// What a loader hears of a record that is gone: it agrees with no snapshot.
const MISSING: EventRecord<'static> = EventRecord {
    offset: -1,
    ts: TimestampMs(0),
    value: &[],
};

fn as_event(record: &Record) -> EventRecord<'_> {
    EventRecord {
        offset: record.offset,
        ts: record.timestamp,
        value: record.bytes(),
    }
}

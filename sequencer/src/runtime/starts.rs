//! Loads the state of partitions: reads what [`Loader`] needs from Kafka, on threads of its own, so that working partitions do not wait
//! for others that start.

use std::{
    ops::ControlFlow,
    sync::{Arc, mpsc},
    thread,
};

use event_log::{AssignmentGeneration, EventLogError, KafkaConfig, LogReader, Record, Sequenced};
use schemas::{OffsetRange, Partition, PartitionMap, TimestampMs, event::Rules, topics::Topic};

use crate::shell::{Assembler, EventRecord, LoadError, LoadRequest, Loaded, Loader};

/// The outcome of a load.
pub(super) struct LoadReport {
    pub(super) starts: Vec<(Partition, AssignmentGeneration)>,
    /// Has every partition of `starts`, or none. One that the log does not allow keeps no other from its start.
    pub(super) outcome: Result<PartitionMap<Result<Loaded, LoadError>>, EventLogError>,
}

/// Why the state of a partition could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadFault {
    /// Kafka failed; a retry may succeed.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// The log does not allow it; a retry does not help.
    #[error(transparent)]
    Refused(#[from] LoadError),
}

/// How far `partition` is sequenced, as an owner finds it at its start (PROTOCOL S9). Repeats of a former owner and malformed records at
/// the end of `chat.events` do not count. Blocks.
///
/// # Errors
/// [`LoadFault`], also where the log begins above 0 and no snapshot replaces the deleted records.
pub fn sequenced(reader: &LogReader, partition: Partition) -> Result<Sequenced, LoadFault> {
    let Loaded { state, last, .. } = load_events(reader, partition)?;
    Ok(Sequenced {
        last,
        clock: state.clock(),
    })
}

/// The rules in force at the end of `chat.events`. Blocks.
///
/// # Errors
/// As [`sequenced`].
pub fn rules(reader: &LogReader, partition: Partition) -> Result<Rules, LoadFault> {
    Ok(*load_events(reader, partition)?.state.rules())
}

fn load_events(reader: &LogReader, partition: Partition) -> Result<Loaded, LoadFault> {
    let events = reader.bounds(Topic::Events, &[partition])?;
    let mut snapshots = read_snapshots(reader, &[partition])?;
    let snapshots = snapshots.remove(partition).unwrap_or_default().finish();
    let loader = Loader::of_events(partition, events[partition], snapshots);
    let mut loaded = run_loaders(reader, PartitionMap::from([(partition, loader)]), &events)?;
    Ok(loaded
        .remove(partition)
        .expect("the result has every partition of the request")?)
}

/// The loads in progress.
pub(super) struct Starts {
    reader: Arc<LogReader>,
    sender: mpsc::Sender<LoadReport>,
    ended: mpsc::Receiver<LoadReport>,
    last_generation: AssignmentGeneration,
}

impl Starts {
    pub(super) fn new(kafka: &KafkaConfig) -> Result<Self, EventLogError> {
        let (sender, ended) = mpsc::channel();
        Ok(Self {
            reader: Arc::new(LogReader::new(kafka)?),
            sender,
            ended,
            last_generation: AssignmentGeneration::default(),
        })
    }

    /// Loads `partitions` together, with few requests, each with a new generation.
    pub(super) fn begin(
        &mut self,
        partitions: &[Partition],
    ) -> Vec<(Partition, AssignmentGeneration)> {
        if partitions.is_empty() {
            return Vec::new();
        }
        let starts: Vec<(Partition, AssignmentGeneration)> = partitions
            .iter()
            .map(|partition| (*partition, self.last_generation.advance()))
            .collect();
        let (reader, reports) = (Arc::clone(&self.reader), self.sender.clone());
        let of_these = starts.clone();
        thread::Builder::new()
            .name("sequencer-load".to_owned())
            .spawn(move || {
                let partitions: Vec<Partition> = of_these.iter().map(|(p, _)| *p).collect();
                let outcome = load(&reader, &partitions);
                // The worker may be gone.
                let _ = reports.send(LoadReport {
                    starts: of_these,
                    outcome,
                });
            })
            .expect("the system has a thread to spare");
        starts
    }

    /// A load that has ended, if there is one.
    pub(super) fn next_ended(&self) -> Option<LoadReport> {
        self.ended.try_recv().ok()
    }
}

fn load(
    reader: &LogReader,
    partitions: &[Partition],
) -> Result<PartitionMap<Result<Loaded, LoadError>>, EventLogError> {
    // The ends of the events are queried first: the inbound record of every event is on the log by then.
    let events = reader.bounds(Topic::Events, partitions)?;
    let inbound = reader.bounds(Topic::Inbound, partitions)?;
    let mut snapshots = read_snapshots(reader, partitions)?;
    let mut loaders = PartitionMap::new();
    for &partition in partitions {
        let loader = Loader::new(
            partition,
            events[partition],
            inbound[partition],
            snapshots.remove(partition).unwrap_or_default().finish(),
        );
        loaders.insert(partition, loader);
    }
    run_loaders(reader, loaders, &events)
}

type Loaders = PartitionMap<Result<Loader, LoadError>>;

/// Gives the loaders what they need until all are done or have failed.
fn run_loaders(
    reader: &LogReader,
    mut loaders: Loaders,
    events: &PartitionMap<OffsetRange>,
) -> Result<PartitionMap<Result<Loaded, LoadError>>, EventLogError> {
    while serve(reader, &mut loaders, events)? {}
    let loaded = |loader: Loader| {
        let loaded = loader.finish();
        loaded.expect("a loader that needs nothing is done")
    };
    Ok(loaders.map(|_, loader| loader.map(loaded)))
}

fn give(
    loader: &mut Result<Loader, LoadError>,
    input: impl FnOnce(&mut Loader) -> Result<(), LoadError>,
) {
    if let Ok(ready) = loader
        && let Err(refused) = input(ready)
    {
        *loader = Err(refused);
    }
}

fn read_snapshots(
    reader: &LogReader,
    partitions: &[Partition],
) -> Result<PartitionMap<Assembler>, EventLogError> {
    let mut assemblers: PartitionMap<Assembler> = PartitionMap::new();
    let ranges: Vec<_> = reader
        .bounds(Topic::Snapshots, partitions)?
        .into_iter()
        .map(|(partition, bounds)| (partition, bounds.start..bounds.end))
        .collect();
    reader.scan(Topic::Snapshots, &ranges, |record| {
        assemblers
            .get_or_insert_with(record.partition, Assembler::default)
            .push(record.bytes());
        ControlFlow::Continue(())
    })?;
    Ok(assemblers)
}

/// Gives every loader what it needs next, and returns whether any needed something.
fn serve(
    reader: &LogReader,
    loaders: &mut Loaders,
    events: &PartitionMap<OffsetRange>,
) -> Result<bool, EventLogError> {
    let mut folds = Vec::new();
    let mut more = false;
    for (partition, loader) in loaders.iter_mut() {
        let Ok(request) = loader.as_ref().map(Loader::request) else {
            continue;
        };
        match request {
            LoadRequest::Done => continue,
            LoadRequest::Events(from) => folds.push((partition, from..events[partition].end)),
            LoadRequest::RecordBeforeSnapshot(offset) => {
                let record = reader.record(Topic::Events, partition, offset)?;
                let record = record.as_ref().map_or(MISSING, as_event);
                give(loader, |loader| loader.on_record_before_snapshot(&record));
            }
            LoadRequest::InboundLeaderEpoch(offset) => {
                let record = reader.record(Topic::Inbound, partition, offset)?;
                let epoch = record.map(|record| record.leader_epoch);
                give(loader, |loader| loader.on_inbound_leader_epoch(epoch));
            }
        }
        more = true;
    }
    fold(reader, loaders, &folds)?;
    Ok(more)
}

fn fold(
    reader: &LogReader,
    loaders: &mut Loaders,
    ranges: &[(Partition, std::ops::Range<i64>)],
) -> Result<(), EventLogError> {
    reader.scan(Topic::Events, ranges, |record| {
        if let Some(loader) = loaders.get_mut(record.partition) {
            give(loader, |loader| loader.on_events([as_event(&record)]));
        }
        ControlFlow::Continue(())
    })
}

/// Stands for a deleted record: it agrees with no snapshot.
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

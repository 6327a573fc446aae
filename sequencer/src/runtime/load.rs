//! Loads the state of partitions: reads what [`Loader`] needs from Kafka.

use std::{
    ops::{ControlFlow, Range},
    sync::{Mutex, PoisonError},
};

use event_log::{EventLogError, LogReader, Record, Sequenced};
use schemas::{OffsetRange, Partition, PartitionMap, TimestampMs, topics::Topic};

use crate::{
    core::State,
    shell::{Assembler, EventRecord, LoadError, LoadRequest, Loaded, Loader, StoredSnapshot},
};

/// Has an entry for every partition asked for. A partition that cannot start from its log does not stop the others from starting.
pub(super) type LoadedPartitions = PartitionMap<Result<Loaded, LoadError>>;

/// Why the state of a partition could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadFault {
    /// Kafka failed; a retry may succeed.
    #[error(transparent)]
    Kafka(#[from] EventLogError),
    /// The log does not allow it; an immediate retry does not help.
    #[error(transparent)]
    Refused(#[from] LoadError),
}

/// How far `partition` is sequenced, as an owner finds it at its start (PROTOCOL S9). Repeats of a former owner and malformed records at
/// the end of `chat.events` do not count. Blocks.
///
/// # Errors
/// [`LoadFault`], also if the log begins above 0 and no snapshot replaces the deleted records.
pub fn sequenced(reader: &LogReader, partition: Partition) -> Result<Sequenced, LoadFault> {
    let mut loaded = load_events(reader, &[partition])?;
    let Loaded { state, last, .. } = loaded
        .remove(partition)
        .expect("the result has every partition of the request")?;
    Ok(Sequenced {
        last,
        clock: state.clock(),
    })
}

/// The states of `partitions` at the end of `chat.events`. Blocks.
///
/// # Errors
/// As [`sequenced`].
pub fn states(
    reader: &LogReader,
    partitions: &[Partition],
) -> Result<PartitionMap<State>, LoadFault> {
    let loaded = load_events(reader, partitions)?.into_iter();
    loaded
        .map(|(partition, loaded)| Ok((partition, loaded?.state)))
        .collect()
}

fn load_events(
    reader: &LogReader,
    partitions: &[Partition],
) -> Result<LoadedPartitions, EventLogError> {
    let events = reader.bounds(Topic::Events, partitions)?;
    let loaders = begin_loaders(reader, partitions, |partition, snapshots| {
        Loader::of_events(partition, events[partition], snapshots)
    })?;
    run_loaders(reader, loaders, &events)
}

/// Loads what an owner starts with.
pub(super) fn load(
    reader: &LogReader,
    partitions: &[Partition],
    reads_snapshots: &Mutex<()>,
) -> Result<LoadedPartitions, EventLogError> {
    // Query the ends of the events first: then the inbound record of every event is on the log already.
    let events = reader.bounds(Topic::Events, partitions)?;
    let inbound = reader.bounds(Topic::Inbound, partitions)?;
    // Read the leader epochs before the check, so that the result of the check holds for all records with these leader epochs or lower ones.
    let leader_epochs = leader_epochs(reader, &inbound)?;
    let reads = reads_snapshots
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let loaders = begin_loaders(reader, partitions, |partition, snapshots| {
        Loader::new(partition, events[partition], inbound[partition], snapshots)
    })?;
    drop(reads);
    let mut loaded = run_loaders(reader, loaders, &events)?;
    for (partition, loaded) in loaded.iter_mut() {
        if let Ok(loaded) = loaded {
            loaded.inbound_leader_epoch = leader_epochs.get(partition).copied();
        }
    }
    Ok(loaded)
}

/// The leader epoch of the newest record of each partition of `chat.inbound` that has records.
fn leader_epochs(
    reader: &LogReader,
    bounds: &PartitionMap<OffsetRange>,
) -> Result<PartitionMap<i32>, EventLogError> {
    let newest: Vec<_> = bounds
        .iter()
        .map(|(partition, range)| (partition, range.last(1)))
        .collect();
    let mut epochs = PartitionMap::new();
    reader.scan(Topic::Inbound, &newest, |record| {
        epochs.insert(record.partition, record.leader_epoch);
        ControlFlow::Continue(())
    })?;
    Ok(epochs)
}

type Loaders = PartitionMap<Result<Loader, LoadError>>;

/// How many records of `chat.snapshots`, each at most half a megabyte, are read at a time if they belong to several partitions.
const RECORDS_AT_A_TIME: i64 = 32;

/// Starts the loaders of `partitions` with their snapshots. Only the snapshots of one partition, or of a few with small ones, are in memory at a
/// time.
fn begin_loaders(
    reader: &LogReader,
    partitions: &[Partition],
    new: impl Fn(Partition, Vec<StoredSnapshot>) -> Result<Loader, LoadError>,
) -> Result<Loaders, EventLogError> {
    let bounds = reader.bounds(Topic::Snapshots, partitions)?;
    let mut loaders = PartitionMap::new();
    let mut left = partitions;
    while !left.is_empty() {
        let (mut count, mut records) = (0, 0);
        for partition in left {
            let OffsetRange { start, end } = bounds[*partition];
            records += end - start;
            if count > 0 && records > RECORDS_AT_A_TIME {
                break;
            }
            count += 1;
        }
        let (now, later) = left.split_at(count);
        let mut snapshots = read_snapshots(reader, now, &bounds)?;
        for &partition in now {
            let of_partition = snapshots.remove(partition).unwrap_or_default().finish();
            let mut loader = new(partition, of_partition);
            check_snapshot(reader, partition, &mut loader)?;
            loaders.insert(partition, loader);
        }
        left = later;
    }
    Ok(loaders)
}

/// Lets the loader compare its snapshots with the log. The loader then drops all snapshots but the one that it begins with.
fn check_snapshot(
    reader: &LogReader,
    partition: Partition,
    loader: &mut Result<Loader, LoadError>,
) -> Result<(), EventLogError> {
    while let Ok(LoadRequest::RecordBeforeSnapshot(offset)) = loader.as_ref().map(Loader::request) {
        let record = reader.record(Topic::Events, partition, offset)?;
        let record = record.as_ref().map_or(MISSING, as_event);
        give(loader, |loader| loader.on_record_before_snapshot(&record));
    }
    Ok(())
}

/// Gives the loaders what they need until all are done or have failed.
fn run_loaders(
    reader: &LogReader,
    mut loaders: Loaders,
    events: &PartitionMap<OffsetRange>,
) -> Result<LoadedPartitions, EventLogError> {
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
    bounds: &PartitionMap<OffsetRange>,
) -> Result<PartitionMap<Assembler>, EventLogError> {
    let mut assemblers: PartitionMap<Assembler> = PartitionMap::new();
    let range =
        |&partition: &Partition| (partition, bounds[partition].start..bounds[partition].end);
    let ranges: Vec<_> = partitions.iter().map(range).collect();
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
            LoadRequest::RecordBeforeSnapshot(_) => check_snapshot(reader, partition, loader)?,
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
    ranges: &[(Partition, Range<i64>)],
) -> Result<(), EventLogError> {
    reader.scan(Topic::Events, ranges, |record| {
        if let Some(loader) = loaders.get_mut(record.partition) {
            give(loader, |loader| loader.on_events([as_event(&record)]));
        }
        ControlFlow::Continue(())
    })
}

/// Stands for a deleted record; it agrees with no snapshot.
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

//! Compares `resume_offset` with the log: the events before a position give its watermark.

use std::{collections::BTreeMap, sync::Arc};

use event_log::LogReader;
use message_store::{Shard, Sink, StoredOffset};
use schemas::{
    OffsetRange, Partition, PartitionMap, TimestampMs, event::SourceOffset, topics::Topic,
};

use crate::{AuditError, Check, Finding, Kind, Sources};

/// No row of a user who left a group within this time before the newest message is deleted: the unit of `left_kept_days` is days. A message may have
/// come since.
const KEPT_MS: i64 = 12 * 3_600 * 1_000;

/// How many events before a position are read to find its watermark.
const NEWEST_EVENTS: i64 = 1_000;

/// A row and its location.
struct Row {
    shard: Shard,
    stored: StoredOffset,
    partition: Partition,
}

/// Compares the rows of all databases. A low position is not a difference: the log is read again from there.
pub(crate) async fn compare_resume_offsets(
    sources: &Sources,
    reader: &Arc<LogReader>,
    newest: Option<TimestampMs>,
    check: &mut Check,
) -> Result<(), AuditError> {
    let rows = rows(sources, check).await?;
    compare_forgotten(reader, newest, &rows, check).await?;
    // Read after the rows, so that the log's ends are at or above them.
    let all: Vec<Partition> = Partition::all().collect();
    let bounds = reader.blocking(move |reader| reader.bounds(Topic::Events, &all));
    let bounds = bounds.await?;
    let mut by_position: BTreeMap<(Partition, i64), Vec<Row>> = BTreeMap::new();
    for row in rows {
        let place = (row.partition, row.stored.position.next.get());
        by_position.entry(place).or_default().push(row);
    }
    while !by_position.is_empty() {
        // One position of each partition.
        let mut some = PartitionMap::new();
        by_position.retain(|(partition, next), rows| {
            if some.contains(*partition) {
                return true;
            }
            some.insert(*partition, (*next, std::mem::take(rows)));
            false
        });
        compare(reader, &bounds, some, check).await?;
    }
    Ok(())
}

/// Checks the offsets below which rows of users who left are deleted: they must be old. Other rows are not deleted.
async fn compare_forgotten(
    reader: &Arc<LogReader>,
    newest: Option<TimestampMs>,
    rows: &[Row],
    check: &mut Check,
) -> Result<(), AuditError> {
    let old = match newest {
        Some(newest) => {
            let all: Vec<Partition> = Partition::all().collect();
            let since = TimestampMs(newest.0 - KEPT_MS);
            let old = reader.blocking(move |reader| reader.offsets_at(Topic::Events, &all, since));
            old.await?
        }
        None => PartitionMap::new(),
    };
    for row in rows {
        let Row {
            shard,
            stored,
            partition,
        } = row;
        let old = match stored.sink() {
            Some(Sink::Messages | Sink::Contacts) => old.get(*partition).copied(),
            _ => None,
        };
        let most = old.unwrap_or(0);
        let found = stored.forgotten_below;
        if !(0..=most).contains(&found) {
            let what = format!(
                "{}: forgotten_below is {found}, {most} at most is right",
                name(*shard, stored)
            );
            check.add(Finding::new(Kind::Different, what));
        }
    }
    Ok(())
}

/// The rows that a projection may write.
async fn rows(sources: &Sources, check: &mut Check) -> Result<Vec<Row>, AuditError> {
    let store = &sources.messages;
    let topic = sources.kafka.topic(Topic::Events);
    let mut rows = Vec::new();
    for shard in store.layout().shards() {
        for stored in store.stored_offsets(shard).await? {
            if stored.is_shadow() {
                continue;
            }
            check.compared += 1;
            let partition = Partition::try_from(i64::from(stored.partition)).ok();
            let is_of = |partition: &Partition| {
                stored.topic == topic
                    && stored.sink().is_some_and(|sink| {
                        let mut partitions = store.layout().source_partitions(sink, shard);
                        partitions.any(|one| one == *partition)
                    })
            };
            match partition.filter(is_of) {
                Some(partition) => rows.push(Row {
                    shard,
                    stored,
                    partition,
                }),
                None => check.add(Finding::new(
                    Kind::Extra,
                    format!("{}: no projection writes it", name(shard, &stored)),
                )),
            }
        }
    }
    Ok(rows)
}

async fn compare(
    reader: &Arc<LogReader>,
    bounds: &PartitionMap<OffsetRange>,
    rows: PartitionMap<(i64, Vec<Row>)>,
    check: &mut Check,
) -> Result<(), AuditError> {
    let below: PartitionMap<OffsetRange> = rows
        .iter()
        .map(|(partition, (next, _))| {
            let OffsetRange { start, end } = bounds[partition];
            let end = (*next).clamp(start, end);
            (partition, OffsetRange { start, end })
        })
        .collect();
    let read = below.clone();
    let newest = reader.blocking(move |reader| reader.newest_events(read, NEWEST_EVENTS));
    let newest = newest.await?;
    for (partition, (next, rows)) in rows {
        let watermark = match newest.get(partition) {
            Some(newest) => Some(newest.last.offset),
            // Without its start the log does not say what was before.
            None => (below[partition].start == 0).then_some(SourceOffset::START),
        };
        for Row { shard, stored, .. } in rows {
            let end = bounds[partition].end;
            let found = stored.position.watermark;
            let what = if next > end {
                format!("next_offset is {next}, and the log ends at {end}")
            } else if next < 0 {
                format!("next_offset is {next}")
            } else if let Some(expected) = watermark.filter(|expected| *expected != found) {
                format!(
                    "src_epoch and src_offset are {}:{}, {}:{} is right",
                    found.epoch, found.offset, expected.epoch, expected.offset
                )
            } else {
                continue;
            };
            let what = format!("{}: {what}", name(shard, &stored));
            check.add(Finding::new(Kind::Different, what));
        }
    }
    Ok(())
}

fn name(shard: Shard, row: &StoredOffset) -> String {
    let StoredOffset {
        sink,
        topic,
        partition,
        ..
    } = row;
    let shard = shard.get();
    format!("resume_offset in database {shard}: {sink:?} of {topic:?}, partition {partition}")
}

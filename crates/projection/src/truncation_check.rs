//! Checks whether the log below a position is still the one that was read there. As for the sequencer's snapshots (PROTOCOL S12), the offset alone
//! does not show it.
//!
//! When the brokers lose the end of `chat.events`, the sequencer decides its inbound records again, but progress records fall differently, so offsets
//! shift. Every position therefore has a watermark: the highest source below it. If the log below a position has a higher source by now, reading on
//! would skip the records between the two.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    fmt,
    ops::{ControlFlow, Range},
    sync::Arc,
    time::Duration,
};

use event_log::{EventLogError, LogReader};
use schemas::{
    LogPosition, OffsetRange, Partition, PartitionMap,
    event::{ReadError, SourceOffset, UnknownRules},
    topics::Topic,
};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::{Settings, SinkError};

/// How long a worker waits for a check; one that takes longer continues in the background.
const TIMEOUT: Duration = Duration::from_secs(10);

/// If the records above did not decide, this many times as many records are read next: repeats of a former owner and records that are not events may
/// be above the record that the watermark came from.
const WIDENING: i64 = 16;

/// All positions that a store keeps of each partition.
pub(crate) type StoredPositions = PartitionMap<BTreeSet<LogPosition>>;

/// The highest leader epoch seen in each partition that has records: no later leader had been elected yet.
type LeaderEpochs = PartitionMap<i32>;

/// Compares positions with the log before a worker reads on from them.
pub(crate) struct TruncationCheck {
    log: Arc<LogReader>,
    leader_epochs: LeaderEpochs,
    /// A comparison that has not ended, and the positions that it compares.
    running: Option<(
        StoredPositions,
        JoinHandle<Result<Comparison, EventLogError>>,
    )>,
}

impl TruncationCheck {
    pub(crate) fn new(log: Arc<LogReader>) -> Self {
        Self {
            log,
            leader_epochs: LeaderEpochs::new(),
            running: None,
        }
    }

    /// The partitions in which the log below a position is not the one that was read there, with the remedy. Fails if the brokers do not answer.
    pub(crate) async fn check(
        &mut self,
        stored: StoredPositions,
        settings: &Settings,
    ) -> Result<PartitionMap<String>, SinkError> {
        let unanswered = |why: String| {
            SinkError::Transient(format!("checking chat.events for truncation: {why}"))
        };
        let mut running = self.start_or_continue(stored.clone());
        let Ok(ended) = timeout(TIMEOUT, &mut running).await else {
            self.running = Some((stored, running));
            return Err(unanswered("it takes long".to_owned()));
        };
        let comparison = ended
            .expect("reading the log does not panic")
            .map_err(|error| unanswered(error.to_string()))?;
        let refused = comparison.refused(settings);
        for (partition, epoch) in comparison.leader_epochs {
            self.record_leader(partition, epoch);
        }
        Ok(refused)
    }

    fn start_or_continue(
        &mut self,
        stored: StoredPositions,
    ) -> JoinHandle<Result<Comparison, EventLogError>> {
        match self.running.take() {
            Some((of, running)) if of == stored => running,
            _ => {
                let log = Arc::clone(&self.log);
                spawn_blocking(move || Comparison::of(&log, &stored))
            }
        }
    }

    /// Notes that a record was read which a leader of this epoch had appended.
    pub(crate) fn record_leader(&mut self, partition: Partition, epoch: i32) {
        let highest = self.leader_epochs.get_or_insert_with(partition, || epoch);
        *highest = epoch.max(*highest);
    }

    /// The highest leader epoch that had records when the positions were checked.
    pub(crate) fn leader_epoch(&self, partition: Partition) -> Option<i32> {
        self.leader_epochs.get(partition).copied()
    }

    pub(crate) fn forget(&mut self, partition: Partition) {
        self.leader_epochs.remove(partition);
    }
}

/// As [`TruncationCheck::check`], without a time limit.
pub(crate) async fn check_once(
    log: &Arc<LogReader>,
    stored: StoredPositions,
    settings: &Settings,
) -> Result<PartitionMap<String>, EventLogError> {
    let comparison = log
        .blocking(move |log| Comparison::of(log, &stored))
        .await?;
    Ok(comparison.refused(settings))
}

/// A position that the log does not agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncation {
    pub(crate) next: i64,
    pub(crate) found: Found,
}

/// What the log has at or below the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The log begins above the position.
    Start(i64),
    /// The log ends below the position.
    End(i64),
    /// The highest source below the position is not the one that was read there.
    Watermark {
        was: SourceOffset,
        is: Option<SourceOffset>,
    },
    /// A newer program wrote a record below the position. Another newer program has read that record; this one does not understand it.
    UnknownRules(UnknownRules),
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { next, found } = self;
        write!(f, "chat.events was read up to offset {next}, ")?;
        match found {
            Found::Start(start) => write!(f, "and begins at {start} now"),
            Found::End(end) => write!(f, "and ends at {end} now"),
            Found::Watermark { was, is } => {
                let source =
                    |watermark: &SourceOffset| format!("{}:{}", watermark.epoch, watermark.offset);
                let is = is.as_ref().map_or("none near it".to_owned(), source);
                write!(
                    f,
                    "where the highest source was {}, and is {is} now",
                    source(was)
                )
            }
            Found::UnknownRules(unknown) => write!(f, "and below that, {unknown}"),
        }
    }
}

/// The remedy for positions of a partition that the log does not agree with.
pub(crate) fn describe(
    partition: Partition,
    truncations: &[Truncation],
    settings: &Settings,
) -> String {
    let by_newer = |truncation: &&Truncation| matches!(truncation.found, Found::UnknownRules(_));
    if let Some(newer) = truncations.iter().find(by_newer) {
        return newer.to_string();
    }
    let is_deleted = |truncation: &&Truncation| matches!(truncation.found, Found::Start(_));
    if let Some(deleted) = truncations.iter().find(is_deleted) {
        let remedy = settings.if_deleted;
        return format!("{deleted}: records were deleted unread. {remedy}");
    }
    let each: Vec<String> = truncations.iter().map(ToString::to_string).collect();
    let remedy = (settings.if_truncated)(partition);
    let is_shorter = |truncation: &Truncation| matches!(truncation.found, Found::End(_));
    let when = if truncations.iter().any(is_shorter) {
        ", once the log is as long again"
    } else {
        ""
    };
    format!(
        "{}: the end of the log was lost. To go on{when}: {remedy}",
        each.join("; ")
    )
}

/// The result of comparing positions with the log.
#[derive(Default)]
struct Comparison {
    leader_epochs: LeaderEpochs,
    truncations: PartitionMap<Vec<Truncation>>,
}

impl Comparison {
    /// Compares every position with the log. Blocks.
    fn of(log: &LogReader, stored: &StoredPositions) -> Result<Self, EventLogError> {
        let mut comparison = Self::default();
        let partitions: Vec<Partition> = stored.partitions().collect();
        let bounds: PartitionMap<OffsetRange> = log
            .bounds(Topic::Events, &partitions)?
            .into_iter()
            .collect();
        let newest = bounds
            .iter()
            .filter(|(_, bounds)| bounds.start < bounds.end)
            .map(|(partition, bounds)| (partition, RangeBelow::new(bounds.end, 1, *bounds)))
            .collect();
        for (partition, scanned) in scan(log, &newest)? {
            let epoch = scanned.leader_epoch;
            comparison.leader_epochs.insert(partition, epoch);
        }
        // A scan reads one range of a partition. The parts of a store mostly have the same position.
        let most = stored.values().map(BTreeSet::len).max().unwrap_or_default();
        for index in 0..most {
            let positions = stored
                .iter()
                .filter_map(|(partition, stored)| Some((partition, *stored.iter().nth(index)?)))
                .collect();
            comparison.compare(log, &bounds, positions)?;
        }
        Ok(comparison)
    }

    fn refused(&self, settings: &Settings) -> PartitionMap<String> {
        let describe = |(partition, found): (Partition, &Vec<Truncation>)| {
            (partition, describe(partition, found, settings))
        };
        self.truncations.iter().map(describe).collect()
    }

    /// Compares one position of each partition.
    fn compare(
        &mut self,
        log: &LogReader,
        bounds: &PartitionMap<OffsetRange>,
        mut positions: PartitionMap<LogPosition>,
    ) -> Result<(), EventLogError> {
        positions.retain(|partition, position| {
            let OffsetRange { start, end } = bounds[partition];
            if position.next.get() < start {
                self.record(partition, *position, Found::Start(start));
            }
            if position.next.get() > end {
                self.record(partition, *position, Found::End(end));
            }
            (start + 1..=end).contains(&position.next.get())
        });
        let mut undecided = positions.map(|_, position| Undecided::new(position));
        let mut records = 1;
        while !undecided.is_empty() {
            let ranges = undecided
                .iter()
                .map(|(partition, undecided)| {
                    let bounds = bounds[partition];
                    (
                        partition,
                        RangeBelow::new(undecided.down_to, records, bounds),
                    )
                })
                .collect();
            for (partition, scanned) in scan(log, &ranges)? {
                let Some(open) = undecided.get_mut(partition) else {
                    continue;
                };
                open.highest = open.highest.max(scanned.highest);
                open.down_to = ranges[partition].offsets.start;
                let (position, is) = (open.position, open.highest);
                if let Some(unknown) = scanned.unknown {
                    undecided.remove(partition);
                    self.record(partition, position, Found::UnknownRules(unknown));
                    continue;
                }
                match verdict(position.watermark, is, scanned.below) {
                    Verdict::Agrees => drop(undecided.remove(partition)),
                    Verdict::Disagrees => {
                        undecided.remove(partition);
                        let was = position.watermark;
                        self.record(partition, position, Found::Watermark { was, is });
                    }
                    Verdict::Undecided => {}
                }
            }
            records *= WIDENING;
        }
        Ok(())
    }

    fn record(&mut self, partition: Partition, position: LogPosition, found: Found) {
        let next = position.next.get();
        self.truncations
            .get_or_insert_with(partition, Vec::new)
            .push(Truncation { next, found });
    }
}

/// A position about which the records read so far do not decide. Together with all records before them, down to the beginning of the log, they do.
#[derive(Clone, Copy, Debug)]
struct Undecided {
    position: LogPosition,
    /// The records from this offset up to the position were read.
    down_to: i64,
    highest: Option<SourceOffset>,
}

impl Undecided {
    fn new(position: LogPosition) -> Self {
        Self {
            position,
            down_to: position.next.get(),
            highest: None,
        }
    }
}

/// The records right below an offset, as they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scanned {
    /// The highest source of the events among them.
    highest: Option<SourceOffset>,
    /// A record among them that this program does not understand.
    unknown: Option<UnknownRules>,
    leader_epoch: i32,
    below: Below,
}

/// What lies below the records that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// Nothing: the records are the first of the log.
    Nothing,
    /// Records that were deleted.
    Deleted,
    /// More records.
    More,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Agrees,
    Disagrees,
    /// More records have to be read.
    Undecided,
}

/// Whether the log below a position is the one that gave the position its watermark. `highest` is the highest source read there so far.
fn verdict(watermark: SourceOffset, highest: Option<SourceOffset>, below: Below) -> Verdict {
    let highest = match below {
        Below::Nothing => Some(highest.unwrap_or_default()),
        Below::Deleted | Below::More => highest,
    };
    match (highest.cmp(&Some(watermark)), below) {
        (Ordering::Greater, _) | (Ordering::Less, Below::Nothing) => Verdict::Disagrees,
        // If it is less, the record that the watermark came from may have been deleted.
        (Ordering::Equal, _) | (Ordering::Less, Below::Deleted) => Verdict::Agrees,
        (Ordering::Less, Below::More) => Verdict::Undecided,
    }
}

/// A range of offsets that ends below some offset.
struct RangeBelow {
    offsets: Range<i64>,
    below: Below,
}

impl RangeBelow {
    /// The offsets of at most `records` records below `next`.
    fn new(next: i64, records: i64, bounds: OffsetRange) -> Self {
        let start = bounds.start.max(next - records);
        let below = match start {
            0 => Below::Nothing,
            _ if start == bounds.start => Below::Deleted,
            _ => Below::More,
        };
        Self {
            offsets: start..next,
            below,
        }
    }
}

fn scan(
    log: &LogReader,
    ranges: &PartitionMap<RangeBelow>,
) -> Result<PartitionMap<Scanned>, EventLogError> {
    let mut scanned: PartitionMap<Scanned> = ranges
        .iter()
        .map(|(partition, range)| {
            let nothing_yet = Scanned {
                highest: None,
                unknown: None,
                leader_epoch: -1,
                below: range.below,
            };
            (partition, nothing_yet)
        })
        .collect();
    let ranges: Vec<(Partition, Range<i64>)> = ranges
        .iter()
        .map(|(partition, range)| (partition, range.offsets.clone()))
        .collect();
    log.scan(Topic::Events, &ranges, |record| {
        if let Some(scanned) = scanned.get_mut(record.partition) {
            scanned.leader_epoch = scanned.leader_epoch.max(record.leader_epoch);
            match record.event() {
                Ok(event) => scanned.highest = scanned.highest.max(Some(event.src.offset)),
                Err(ReadError::Skipped(_)) => {}
                Err(ReadError::UnknownRules(unknown)) => scanned.unknown = Some(unknown),
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(scanned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATERMARK: SourceOffset = source(0, 7);

    const fn source(epoch: u32, offset: i64) -> SourceOffset {
        SourceOffset { epoch, offset }
    }

    fn verdict_of(highest: impl Into<Option<SourceOffset>>, below: Below) -> Verdict {
        verdict(WATERMARK, highest.into(), below)
    }

    #[test]
    fn the_highest_source_below_a_position_must_be_its_watermark() {
        for below in [Below::Nothing, Below::Deleted, Below::More] {
            assert_eq!(verdict_of(WATERMARK, below), Verdict::Agrees);
            assert_eq!(verdict_of(source(0, 8), below), Verdict::Disagrees);
            assert_eq!(verdict_of(source(1, -1), below), Verdict::Disagrees);
        }
    }

    #[test]
    fn a_lower_source_or_no_event_leaves_the_verdict_to_the_records_below() {
        for highest in [Some(source(0, 6)), None] {
            assert_eq!(verdict_of(highest, Below::More), Verdict::Undecided);
            assert_eq!(verdict_of(highest, Below::Deleted), Verdict::Agrees);
            assert_eq!(verdict_of(highest, Below::Nothing), Verdict::Disagrees);
        }
    }

    #[test]
    fn a_log_without_events_agrees_with_the_first_watermark() {
        let verdict = verdict(SourceOffset::START, None, Below::Nothing);
        assert_eq!(verdict, Verdict::Agrees);
    }

    #[test]
    fn ranges_end_at_the_beginning_of_the_log() {
        let range = |next, records, start| {
            let RangeBelow { offsets, below } =
                RangeBelow::new(next, records, OffsetRange { start, end: 100 });
            (offsets, below)
        };
        assert_eq!(range(50, 16, 0), (34..50, Below::More));
        assert_eq!(range(50, 256, 0), (0..50, Below::Nothing));
        assert_eq!(range(50, 16, 40), (40..50, Below::Deleted));
        assert_eq!(range(50, 10, 40), (40..50, Below::Deleted));
    }
}

//! Whether the log below a position is still what was read there. As for the sequencer's snapshots (PROTOCOL S12), a resume offset
//! needs a witness.
//!
//! A tail of `chat.events` that no disk kept is decided again, but records of progress fall differently, and offsets shift. The
//! witness is the watermark that is kept with every offset: the highest source below it. Where the log has a higher one there by now,
//! going on would pass over what lies between the two.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::{ControlFlow, Range},
};

use event_log::{Bounds, EventLogError, LogReader};
use schemas::{LogPosition, Partition, event::SourceOffset, topics::Topic};

/// How many times as many records are looked at each time that those above did not decide: repeats of a former owner and what is no
/// event may lie above the record that the watermark came from.
const WIDER: i64 = 16;

/// Every position that a store keeps of a partition.
pub(crate) type Kept = BTreeMap<Partition, BTreeSet<LogPosition>>;

/// The leader epoch of the newest record of each partition, where there is one: those of later leaders were not there yet.
pub(crate) type Leaders = BTreeMap<Partition, i32>;

/// A position that the log does not agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoneBack {
    pub(crate) partition: Partition,
    pub(crate) next: i64,
    pub(crate) found: Found,
}

/// What the log has instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It ends below the position.
    End(i64),
    /// The highest source below the position is another than when that was read.
    Watermark {
        was: SourceOffset,
        is: Option<SourceOffset>,
    },
}

impl fmt::Display for GoneBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            partition,
            next,
            found,
        } = self;
        write!(
            f,
            "partition {partition} of chat.events was read up to offset {next}, "
        )?;
        match found {
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
        }
    }
}

/// Positions that the log does not agree with, for people.
pub(crate) fn told(gone_back: &[GoneBack]) -> String {
    let each: Vec<String> = gone_back.iter().map(ToString::to_string).collect();
    format!("{}: the end of the log was lost", each.join("; "))
}

/// What a look at the log came to.
#[derive(Default)]
pub(crate) struct Looked {
    pub(crate) leaders: Leaders,
    pub(crate) gone_back: Vec<GoneBack>,
}

/// Compares every position with the log. Blocks.
pub(crate) fn look_back(log: &LogReader, kept: &Kept) -> Result<Looked, EventLogError> {
    let mut looked = Looked::default();
    let partitions: Vec<Partition> = kept.keys().copied().collect();
    let bounds = log.bounds(Topic::Events, &partitions)?;
    let newest = bounds
        .iter()
        .filter(|(_, bounds)| bounds.start < bounds.end)
        .map(|(partition, bounds)| (*partition, below(bounds.end, 1, *bounds)))
        .collect();
    for (partition, seen) in scan(log, &newest)? {
        looked.leaders.insert(partition, seen.leader_epoch);
    }
    // A scan reads one range of a partition; parts of a store mostly stand at the same place.
    let most = kept.values().map(BTreeSet::len).max().unwrap_or_default();
    for index in 0..most {
        let positions = kept
            .iter()
            .filter_map(|(partition, kept)| Some((*partition, *kept.iter().nth(index)?)))
            .collect();
        looked.compare(log, &bounds, positions)?;
    }
    Ok(looked)
}

impl Looked {
    /// Compares a position of each partition.
    fn compare(
        &mut self,
        log: &LogReader,
        bounds: &BTreeMap<Partition, Bounds>,
        mut open: BTreeMap<Partition, LogPosition>,
    ) -> Result<(), EventLogError> {
        open.retain(|partition, at| {
            let Bounds { start, end } = bounds[partition];
            if at.next.get() > end {
                self.note(*partition, *at, Found::End(end));
            }
            (start + 1..=end).contains(&at.next.get())
        });
        let mut looks: BTreeMap<Partition, Look> = open
            .into_iter()
            .map(|(partition, at)| (partition, Look::at(at)))
            .collect();
        let mut records = 1;
        while !looks.is_empty() {
            let next = |(partition, look): (&Partition, &Look)| {
                (*partition, below(look.down_to, records, bounds[partition]))
            };
            let ranges = looks.iter().map(next).collect();
            for (partition, seen) in scan(log, &ranges)? {
                let Some(look) = looks.get_mut(&partition) else {
                    continue;
                };
                look.highest = look.highest.max(seen.highest);
                look.down_to = ranges[&partition].range.start;
                let (at, is) = (look.at, look.highest);
                match judge(at.watermark, is, seen.below) {
                    Verdict::Agrees => drop(looks.remove(&partition)),
                    Verdict::Disagrees => {
                        looks.remove(&partition);
                        self.note(
                            partition,
                            at,
                            Found::Watermark {
                                was: at.watermark,
                                is,
                            },
                        );
                    }
                    Verdict::Open => {}
                }
            }
            records *= WIDER;
        }
        Ok(())
    }

    fn note(&mut self, partition: Partition, at: LogPosition, found: Found) {
        self.gone_back.push(GoneBack {
            partition,
            next: at.next.get(),
            found,
        });
    }
}

/// How far below a position the log was looked at. That ends: at its beginning nothing is left open.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: LogPosition,
    down_to: i64,
    highest: Option<SourceOffset>,
}

impl Look {
    fn at(at: LogPosition) -> Self {
        Self {
            at,
            down_to: at.next.get(),
            highest: None,
        }
    }
}

/// The records right below an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// The highest source of the events among them.
    highest: Option<SourceOffset>,
    leader_epoch: i32,
    below: Below,
}

/// What lies below the records that were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// They are the first that there ever were.
    Nothing,
    /// Others, which are no longer on the log.
    Deleted,
    /// Others.
    More,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Agrees,
    Disagrees,
    /// What was looked at does not tell.
    Open,
}

/// Whether the log below a position is that which gave the position its watermark, `highest` being the highest source that was seen there so far.
fn judge(watermark: SourceOffset, highest: Option<SourceOffset>, below: Below) -> Verdict {
    let highest = match below {
        Below::Nothing => Some(highest.unwrap_or_default()),
        Below::Deleted | Below::More => highest,
    };
    match (highest.cmp(&Some(watermark)), below) {
        (Ordering::Greater, _) | (Ordering::Less, Below::Nothing) => Verdict::Disagrees,
        // Where it is less, the record that the watermark came from may be one that is gone.
        (Ordering::Equal, _) | (Ordering::Less, Below::Deleted) => Verdict::Agrees,
        (Ordering::Less, Below::More) => Verdict::Open,
    }
}

/// The offsets of at most `records` records below `next`.
fn below(next: i64, records: i64, bounds: Bounds) -> Ranged {
    let start = bounds.start.max(next - records);
    let below = match start {
        0 => Below::Nothing,
        _ if start == bounds.start => Below::Deleted,
        _ => Below::More,
    };
    Ranged {
        range: start..next,
        below,
    }
}

struct Ranged {
    range: Range<i64>,
    below: Below,
}

fn scan(
    log: &LogReader,
    ranges: &BTreeMap<Partition, Ranged>,
) -> Result<BTreeMap<Partition, Seen>, EventLogError> {
    let empty = |ranged: &Ranged| Seen {
        highest: None,
        leader_epoch: -1,
        below: ranged.below,
    };
    let mut seen: BTreeMap<Partition, Seen> = ranges
        .iter()
        .map(|(partition, ranged)| (*partition, empty(ranged)))
        .collect();
    let ranges: Vec<(Partition, Range<i64>)> = ranges
        .iter()
        .map(|(partition, ranged)| (*partition, ranged.range.clone()))
        .collect();
    log.scan(Topic::Events, &ranges, |record| {
        if let Some(seen) = seen.get_mut(&record.partition) {
            seen.leader_epoch = seen.leader_epoch.max(record.leader_epoch);
            let watermark = record.event().ok().map(|event| event.src.offset);
            seen.highest = seen.highest.max(watermark);
        }
        ControlFlow::Continue(())
    })?;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: SourceOffset = watermark(0, 7);

    const fn watermark(epoch: u32, offset: i64) -> SourceOffset {
        SourceOffset { epoch, offset }
    }

    fn judged(highest: impl Into<Option<SourceOffset>>, below: Below) -> Verdict {
        judge(MARK, highest.into(), below)
    }

    #[test]
    fn the_highest_source_below_has_to_be_the_one_that_was_kept() {
        for below in [Below::Nothing, Below::Deleted, Below::More] {
            assert_eq!(judged(MARK, below), Verdict::Agrees);
            assert_eq!(judged(watermark(0, 8), below), Verdict::Disagrees);
            assert_eq!(judged(watermark(1, -1), below), Verdict::Disagrees);
        }
    }

    #[test]
    fn what_is_lower_or_no_event_leaves_it_to_what_lies_below() {
        for highest in [Some(watermark(0, 6)), None] {
            assert_eq!(judged(highest, Below::More), Verdict::Open);
            assert_eq!(judged(highest, Below::Deleted), Verdict::Agrees);
            assert_eq!(judged(highest, Below::Nothing), Verdict::Disagrees);
        }
    }

    #[test]
    fn without_any_event_from_the_beginning_on_the_mark_is_the_first() {
        let verdict = judge(SourceOffset::START, None, Below::Nothing);
        assert_eq!(verdict, Verdict::Agrees);
    }

    #[test]
    fn looking_back_ends_where_the_log_begins() {
        let bounds = |start| Bounds { start, end: 100 };
        let ranged = |next, records, start| {
            let Ranged { range, below } = below(next, records, bounds(start));
            (range, below)
        };
        assert_eq!(ranged(50, 16, 0), (34..50, Below::More));
        assert_eq!(ranged(50, 256, 0), (0..50, Below::Nothing));
        assert_eq!(ranged(50, 16, 40), (40..50, Below::Deleted));
        assert_eq!(ranged(50, 10, 40), (40..50, Below::Deleted));
    }
}

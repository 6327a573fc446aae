//! Finds the epoch in which an inbound record was decided.

use std::ops::{ControlFlow, Range};

use event_log::LogReader;
use schemas::{
    InboundPosition, Partition,
    event::{ReadError, SourceOffset},
    topics::Topic,
};

use super::reader_pool::{LookupError, ScanBudget};

/// How many records before the event found by bisection are searched.
const LOOK_BACK: i64 = 1_000;

/// The epoch of the record at `position`, whose event is in `range` of `chat.events` if it has one. An epoch begins with an event that
/// names the last record that was decided before it (PROTOCOL S13).
pub(super) fn epoch_of(
    reader: &LogReader,
    position: InboundPosition,
    mut range: Range<i64>,
    current: u32,
    budget: &mut ScanBudget,
) -> Result<u32, LookupError> {
    let InboundPosition { partition, offset } = position;
    let Some((_, first)) = first_event(reader, partition, range.clone(), |_| true, budget)? else {
        return Ok(current);
    };
    for epoch in (first.epoch + 1..=current).rev() {
        match first_of_epoch(reader, partition, range.clone(), epoch, budget)? {
            Some((_, start)) if start.offset < offset => return Ok(epoch),
            Some((at, _)) => range.end = at,
            // An interrupted raise did not reach this partition.
            None => {}
        }
    }
    Ok(first.epoch)
}

/// The first event of `epoch` or a later one, and its offset. Events that a former owner appends after a raise belong to the epoch before it. They
/// can mislead the bisection to a later event; then an earlier one is right before the event found.
fn first_of_epoch(
    reader: &LogReader,
    partition: Partition,
    Range { start, mut end }: Range<i64>,
    epoch: u32,
    budget: &mut ScanBudget,
) -> Result<Option<(i64, SourceOffset)>, LookupError> {
    let mut first = None;
    loop {
        first = bisect(reader, partition, start..end, epoch, budget)?.or(first);
        end = first.map_or(end, |(at, _)| at);
        let before = start.max(end - LOOK_BACK)..end;
        let is_of_epoch = |source: SourceOffset| source.epoch >= epoch;
        let Some(earlier) = first_event(reader, partition, before, is_of_epoch, budget)? else {
            return Ok(first);
        };
        end = earlier.0;
        first = Some(earlier);
    }
}

/// The first event of `epoch` or a later one and its offset, provided that epochs rise along the log.
fn bisect(
    reader: &LogReader,
    partition: Partition,
    Range { mut start, mut end }: Range<i64>,
    epoch: u32,
    budget: &mut ScanBudget,
) -> Result<Option<(i64, SourceOffset)>, LookupError> {
    let mut first = None;
    while start < end {
        let middle = start + (end - start) / 2;
        match first_event(reader, partition, middle..end, |_| true, budget)? {
            Some((at, source)) if source.epoch < epoch => start = at + 1,
            found => {
                end = middle;
                first = found.or(first);
            }
        }
    }
    Ok(first)
}

/// The source offset and the offset of the first event in a range for which `is_sought` is true.
fn first_event(
    reader: &LogReader,
    partition: Partition,
    range: Range<i64>,
    is_sought: impl Fn(SourceOffset) -> bool,
    budget: &mut ScanBudget,
) -> Result<Option<(i64, SourceOffset)>, LookupError> {
    let mut found = Ok(None);
    reader.scan(Topic::Events, &[(partition, range)], |record| {
        found = match record.event() {
            Ok(event) if is_sought(event.src.offset) => Ok(Some((record.offset, event.src.offset))),
            // The projectors report records that are not events.
            Ok(_) | Err(ReadError::Skipped(_)) => return budget.spend(),
            Err(ReadError::UnknownRules(newer)) => Err(newer),
        };
        ControlFlow::Break(())
    })?;
    let found = found?;
    if found.is_none() {
        budget.check()?;
    }
    Ok(found)
}

//! Finds the epoch in which an inbound record was decided.

use std::ops::{ControlFlow, Range};

use event_log::LogReader;
use schemas::{
    InboundPosition, Partition,
    event::{ReadError, SourceOffset},
    topics::Topic,
};

use super::reader_pool::{LookupError, ScanBudget};

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
    let Some((_, first)) = first_event(reader, partition, range.clone(), budget)? else {
        return Ok(current);
    };
    for epoch in (first.epoch + 1..=current).rev() {
        match first_of_epoch(reader, partition, range.clone(), epoch, budget)? {
            Some((_, start)) if start.offset < offset => return Ok(epoch),
            Some((at, _)) => range.end = at,
            // A raise that broke off did not come to this partition.
            None => {}
        }
    }
    Ok(first.epoch)
}

/// The first event of `epoch` or a later one and its offset, by bisection: epochs rise along the log.
fn first_of_epoch(
    reader: &LogReader,
    partition: Partition,
    Range { mut start, mut end }: Range<i64>,
    epoch: u32,
    budget: &mut ScanBudget,
) -> Result<Option<(i64, SourceOffset)>, LookupError> {
    let mut first = None;
    while start < end {
        let middle = start + (end - start) / 2;
        match first_event(reader, partition, middle..end, budget)? {
            Some((at, source)) if source.epoch < epoch => start = at + 1,
            found => {
                end = middle;
                first = found.or(first);
            }
        }
    }
    Ok(first)
}

/// The source offset and offset of the first record of a range that is an event.
fn first_event(
    reader: &LogReader,
    partition: Partition,
    range: Range<i64>,
    budget: &mut ScanBudget,
) -> Result<Option<(i64, SourceOffset)>, LookupError> {
    let mut found = Ok(None);
    reader.scan(Topic::Events, &[(partition, range)], |record| {
        found = match record.event() {
            Ok(event) => Ok(Some((record.offset, event.src.offset))),
            // The projectors report records that are not events.
            Err(ReadError::Skipped(_)) => return budget.spend(),
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

//! Finds the event of the command that a record repeats (PROTOCOL S3, S15).

use std::ops::{ControlFlow, Range};

use event_log::LogReader;
use schemas::{
    InboundPosition, Partition,
    command::{Command, InboundValue},
    event::{Event, ReadError},
    topics::Topic,
};

use super::reader_pool::{LookupError, ScanBudget};

/// How many events before the end of the search are read: the two copies of a record that a producer appended twice are close together.
const LOOK_BACK: i64 = 4_096;

/// The command that counts, if another record repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Original {
    /// The position of the command's record.
    pub(super) at: InboundPosition,
    /// The offset of its event in the same partition.
    pub(super) events_offset: i64,
    pub(super) event: Event,
}

/// The newest event below the offset `below` that `value` would have caused, searched in the last [`LOOK_BACK`] events.
pub(super) fn find(
    reader: &LogReader,
    partition: Partition,
    value: &InboundValue,
    below: i64,
    budget: &mut ScanBudget,
) -> Result<Option<Original>, LookupError> {
    let bounds = reader.bounds(Topic::Events, &[partition])?;
    let start = bounds.get(partition).map_or(below, |bounds| bounds.start);
    let range = start.max(below - LOOK_BACK)..below;
    newest(reader, partition, range, value, budget)
}

fn newest(
    reader: &LogReader,
    partition: Partition,
    range: Range<i64>,
    value: &InboundValue,
    budget: &mut ScanBudget,
) -> Result<Option<Original>, LookupError> {
    let mut found: Result<Option<Original>, LookupError> = Ok(None);
    if range.is_empty() {
        return found;
    }
    reader.scan(Topic::Events, &[(partition, range)], |record| {
        match record.event() {
            Ok(event) if is_answer(value, &event) => {
                let offset = event.src.offset.offset;
                found = Ok(Some(Original {
                    at: InboundPosition { partition, offset },
                    events_offset: record.offset,
                    event,
                }));
            }
            // The projectors report records that are not events.
            Ok(_) | Err(ReadError::Skipped(_)) => {}
            Err(ReadError::UnknownRules(newer)) => {
                found = Err(newer.into());
                return ControlFlow::Break(());
            }
        }
        budget.spend()
    })?;
    found
}

/// Whether an event answers a command with the same content and the same id. Hides and clears need no id.
fn is_answer(value: &InboundValue, event: &Event) -> bool {
    if value.command.mismatched_field(&event.body).is_some() {
        return false;
    }
    match &value.command {
        Command::Send(_) => true,
        Command::ChangeMessage(asked) if asked.change.is_for_one() => true,
        command => {
            let id = event.command.as_ref().map(|command| command.id.as_str());
            id == Some(&*value.id) && event.body.scope() == Some(command.scope())
        }
    }
}

//! Reads events. [`schemas`] decodes the records, as for all readers; tests there check it against the .proto files.

use event_log::Record;
use schemas::event::{Event, ReadError, SkippedRecord};

use crate::AuditError;

/// The event of a record of `chat.events`, or why readers skip the record (PROTOCOL S10).
///
/// # Errors
/// [`AuditError::UnknownRules`] (PROTOCOL S5).
pub(crate) fn event(record: &Record) -> Result<Result<Event, SkippedRecord>, AuditError> {
    match record.event() {
        Ok(event) => Ok(Ok(event)),
        Err(ReadError::Skipped(skipped)) => Ok(Err(skipped)),
        Err(ReadError::UnknownRules(unknown)) => Err(AuditError::unknown_rules(record, unknown)),
    }
}

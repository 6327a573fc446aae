//! Tracks where an owner's own appends land in `chat.events`, and whether another owner has appended in between.

use schemas::event::Source;

use super::HaltReason;

pub(super) struct AppendTracker {
    /// The lowest offset that the next append can take.
    next: i64,
    /// Every record below this offset was folded at the start or is the owner's own.
    complete: i64,
    /// The source of the record before `complete`; `None` at the beginning of the log.
    before_complete: Option<Source>,
    /// Another owner has appended.
    foreign: bool,
}

impl AppendTracker {
    pub(super) fn new(end: i64, before_end: Option<Source>) -> Self {
        Self {
            next: end,
            complete: end,
            before_complete: before_end,
            foreign: false,
        }
    }

    /// Records the acknowledgement of an own record at `offset`. With `None` the client does not know the offset, because the broker had already
    /// stored the record at an earlier try; a foreign record may then be before it.
    pub(super) fn appended(&mut self, offset: Option<i64>, src: Source) -> Result<(), HaltReason> {
        let Some(offset) = offset else {
            self.foreign = true;
            return Ok(());
        };
        if offset < self.next {
            return Err(HaltReason::EventsTruncated {
                offset,
                known: self.next,
            });
        }
        self.foreign |= offset > self.next;
        self.next = offset + 1;
        if !self.foreign {
            self.complete = self.next;
            self.before_complete = Some(src);
        }
        Ok(())
    }

    /// Whether another owner has appended.
    pub(super) fn has_foreign_record(&self) -> bool {
        self.foreign
    }

    /// The offset up to which the state covers every record, and the source of the record before it.
    pub(super) fn complete_up_to(&self) -> (i64, Option<Source>) {
        (self.complete, self.before_complete)
    }
}

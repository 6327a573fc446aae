//! How much of its partition of `chat.events` an owner knows.

use schemas::event::Source;

use super::HaltReason;

/// An owner's knowledge of the log: what it folded at its start, and its own records since.
pub(super) struct KnownLog {
    /// The lowest offset that the next append can take.
    next: i64,
    /// Up to here every record was folded at the start or is the owner's own.
    whole: i64,
    /// The source of the record before `whole`; `None` at the log's beginning.
    before_whole: Option<Source>,
    foreign: bool,
}

impl KnownLog {
    pub(super) fn new(end: i64, before_end: Option<Source>) -> Self {
        Self {
            next: end,
            whole: end,
            before_whole: before_end,
            foreign: false,
        }
    }

    /// An own record was acknowledged at `offset`, which is `None` where the client could not learn it (a retry that
    /// the broker had already stored): then a foreign record may lie before it.
    pub(super) fn appended(&mut self, offset: Option<i64>, src: Source) -> Result<(), HaltReason> {
        let Some(offset) = offset else {
            self.foreign = true;
            return Ok(());
        };
        if offset < self.next {
            return Err(HaltReason::EventsWentBack {
                offset,
                known: self.next,
            });
        }
        self.foreign |= offset > self.next;
        self.next = offset + 1;
        if !self.foreign {
            self.whole = self.next;
            self.before_whole = Some(src);
        }
        Ok(())
    }

    /// Whether another owner has written in between.
    pub(super) fn has_foreign(&self) -> bool {
        self.foreign
    }

    /// Up to where the log is known whole, and the source of the record before.
    pub(super) fn whole(&self) -> (i64, Option<Source>) {
        (self.whole, self.before_whole)
    }

    /// Behind the owner's last acknowledged record: what a snapshot that drops PROTOCOL S12 takes for whole.
    pub(super) fn sabotaged_whole(&self) -> i64 {
        self.next
    }
}

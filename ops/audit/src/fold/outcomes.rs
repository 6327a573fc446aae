//! The outcome of each inbound record. A new epoch can begin below records that were already accounted for: their outcomes are discarded, since other
//! records have those offsets now.

use crate::{Check, Finding, InboundAccount, Kind};

/// The outcome of an inbound record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sequenced,
    Repeat,
    WithoutEffect,
    DeadLetter,
    Unverifiable,
    Unaccounted,
}

/// The outcomes so far, by offset: 16 bytes for each retained record.
#[derive(Debug)]
pub(super) struct Outcomes {
    entries: Vec<Entry>,
    /// The first `max_shown` differences, with the offsets of their records.
    findings: Vec<(i64, Finding)>,
    max_shown: usize,
    /// Discarded offsets at which an earlier epoch sequenced the record that is there, without a difference; ascending.
    sequenced_earlier: Vec<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: i64,
    outcome: Outcome,
    wrong: Option<Kind>,
}

impl Outcomes {
    pub(super) fn new(max_shown: usize) -> Self {
        Self {
            entries: Vec::new(),
            findings: Vec::new(),
            max_shown,
            sequenced_earlier: Vec::new(),
        }
    }

    /// Adds a record's outcome and what is wrong with it. Offsets ascend.
    pub(super) fn add(&mut self, offset: i64, outcome: Outcome, wrong: Option<Finding>) {
        let kind = wrong.as_ref().map(|finding| finding.kind);
        self.entries.push(Entry {
            offset,
            outcome,
            wrong: kind,
        });
        if let Some(finding) = wrong
            && self.findings.len() < self.max_shown
        {
            self.findings.push((offset, finding));
        }
    }

    /// Discards the outcomes above `offset`, since a later epoch continues there and decides those records. Remembers which of them were sequenced without
    /// a difference.
    pub(super) fn discard_above(&mut self, offset: i64) {
        let kept = self.entries.partition_point(|entry| entry.offset <= offset);
        let was_sequenced =
            |entry: &Entry| entry.outcome == Outcome::Sequenced && entry.wrong.is_none();
        self.sequenced_earlier.extend(
            self.entries
                .drain(kept..)
                .filter(was_sequenced)
                .map(|entry| entry.offset),
        );
        self.sequenced_earlier.sort_unstable();
        self.sequenced_earlier.dedup();
        self.findings.retain(|(at, _)| *at <= offset);
    }

    /// Whether an earlier epoch sequenced this record. Known only of outcomes that [`Self::discard_above`] has discarded.
    pub(super) fn was_sequenced_earlier(&self, offset: i64) -> bool {
        self.sequenced_earlier.binary_search(&offset).is_ok()
    }

    /// Adds the outcomes to the report.
    pub(super) fn sum(self, check: &mut Check, account: &mut InboundAccount) {
        for entry in &self.entries {
            check.compared += 1;
            match entry.outcome {
                Outcome::Sequenced => account.sequenced += 1,
                Outcome::Repeat => account.repeats += 1,
                Outcome::WithoutEffect => account.without_effect += 1,
                Outcome::DeadLetter => account.dead_letters += 1,
                Outcome::Unverifiable => account.unverifiable += 1,
                Outcome::Unaccounted => {}
            }
            if let Some(kind) = entry.wrong {
                check.count(kind);
            }
        }
        for (_, finding) in self.findings {
            check.show(finding);
        }
    }
}

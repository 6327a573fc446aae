//! What the fold found of each inbound record, so that it can be taken back: an epoch that begins before records that were looked at
//! says that others lie there now.

use crate::{Check, Finding, InboundAccount, Kind};

/// What became of an inbound record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Sequenced,
    Repeat,
    WithoutEffect,
    DeadLetter,
    Unverifiable,
    Nothing,
}

/// The answers so far, by offset. 16 bytes a record that is retained.
#[derive(Debug)]
pub(super) struct Answers {
    taken: Vec<Taken>,
    /// Of the first that are wrong: as many as the report shows.
    findings: Vec<(i64, Finding)>,
    examples: usize,
    /// Records that were sequenced already, with the same content, in an epoch before the present one; ascending.
    before: Vec<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    offset: i64,
    answer: Answer,
    wrong: Option<Kind>,
}

impl Answers {
    pub(super) fn new(examples: usize) -> Self {
        Self {
            taken: Vec::new(),
            findings: Vec::new(),
            examples,
            before: Vec::new(),
        }
    }

    /// Takes the answer of a record that lies above all those before, and what is wrong with it.
    pub(super) fn take(&mut self, offset: i64, answer: Answer, wrong: Option<Finding>) {
        let kind = wrong.as_ref().map(|finding| finding.kind);
        self.taken.push(Taken {
            offset,
            answer,
            wrong: kind,
        });
        if let Some(finding) = wrong
            && self.findings.len() < self.examples
        {
            self.findings.push((offset, finding));
        }
    }

    /// A later epoch goes on behind `offset`: what lies above is answered in that epoch.
    pub(super) fn take_back_above(&mut self, offset: i64) {
        let kept = self.taken.partition_point(|taken| taken.offset <= offset);
        let was_sequenced =
            |taken: &Taken| taken.answer == Answer::Sequenced && taken.wrong.is_none();
        self.before.extend(
            self.taken
                .drain(kept..)
                .filter(was_sequenced)
                .map(|taken| taken.offset),
        );
        self.before.sort_unstable();
        self.before.dedup();
        self.findings.retain(|(at, _)| *at <= offset);
    }

    /// Whether this very record was sequenced in an earlier epoch, in which it was taken back.
    pub(super) fn was_sequenced_before(&self, offset: i64) -> bool {
        self.before.binary_search(&offset).is_ok()
    }

    /// Adds up what was not taken back.
    pub(super) fn sum(self, check: &mut Check, account: &mut InboundAccount) {
        for taken in &self.taken {
            check.compared += 1;
            match taken.answer {
                Answer::Sequenced => account.sequenced += 1,
                Answer::Repeat => account.repeats += 1,
                Answer::WithoutEffect => account.without_effect += 1,
                Answer::DeadLetter => account.dead_letters += 1,
                Answer::Unverifiable => account.unverifiable += 1,
                Answer::Nothing => {}
            }
            if let Some(kind) = taken.wrong {
                check.count(kind);
            }
        }
        for (_, finding) in self.findings {
            check.show(finding);
        }
    }
}

//! Compares values with the log. They change while they are compared: a value that looks wrong is a possible mismatch, which a second
//! read clears or confirms.

use std::collections::BTreeSet;

use schemas::UserId;

use super::{
    key::{Key, Rows},
    mismatch::{Mismatch, mismatches},
    read::{Found, read},
    redis::{compare_cached_profiles, compare_unread_counts},
    redis_keys::StateHash,
    table::compare_table,
    value::Value,
};
use crate::{
    Area, AuditError, Finding, Options, Progress, Sources,
    fold::{LogState, Subject},
    report::Checks,
};

/// A value that looked wrong, and what the log said before it was read.
pub(crate) struct PossibleMismatch {
    pub(crate) key: Key,
    pub(crate) found: Found,
    pub(crate) low: Option<Value>,
}

impl PossibleMismatch {
    /// What is wrong with it if the log says `high` now.
    fn mismatches(&self, high: Option<&Value>) -> Vec<Mismatch> {
        match &self.found {
            Ok(found) => mismatches(self.key, [found.as_ref(), self.low.as_ref(), high]),
            Err(cause) => vec![self.key.unreadable(cause)],
        }
    }
}

pub(crate) struct Comparison {
    pub(crate) checks: Checks,
    pub(crate) possible_mismatches: Vec<PossibleMismatch>,
    /// What was not compared, and why.
    pub(super) unchecked: Vec<String>,
    /// Users whose states are being rebuilt.
    rebuilding: BTreeSet<UserId>,
    /// Users of the log without a state: those who have another key, and the number of the others.
    without_state: BTreeSet<UserId>,
    pub(super) without_keys: usize,
    /// Rows of who left a group that were deleted.
    pub(super) forgotten: usize,
    examples: usize,
    events_topic: String,
}

impl Comparison {
    pub(crate) fn new(events_topic: String, examples: usize) -> Self {
        Self {
            checks: Checks::new(examples),
            possible_mismatches: Vec::new(),
            unchecked: Vec::new(),
            rebuilding: BTreeSet::new(),
            without_state: BTreeSet::new(),
            without_keys: 0,
            forgotten: 0,
            examples,
            events_topic,
        }
    }

    /// What was not compared, and why.
    pub(crate) fn unchecked(&self) -> Vec<String> {
        let mut unchecked = self.unchecked.clone();
        let without = self.without_keys + self.without_state.len();
        if without > 0 {
            unchecked.push(format!(
                "unread counts of {without} users of the log, who have no state in Redis"
            ));
        }
        if self.forgotten > 0 {
            unchecked.push(format!(
                "{} rows of who left groups, which were deleted",
                self.forgotten
            ));
        }
        let users: Vec<String> = self.rebuilding.iter().map(UserId::to_string).collect();
        if !users.is_empty() {
            let (named, others) = users.split_at(users.len().min(self.examples));
            let others = if others.is_empty() { "" } else { ", …" };
            unchecked.push(format!(
                "unread counts of {} users, whose states are being rebuilt: {}{others}",
                users.len(),
                named.join(", ")
            ));
        }
        unchecked
    }

    /// Compares a value for the first time.
    pub(super) fn check(&mut self, log: &LogState, key: Key, found: Found) {
        self.count(log, key, &found);
        let low = key.expected(log);
        let value = PossibleMismatch { key, found, low };
        if !value.mismatches(value.low.as_ref()).is_empty() {
            self.possible_mismatches.push(value);
        }
    }

    fn count(&mut self, log: &LogState, key: Key, found: &Found) {
        match found {
            Ok(Some(Value::Keys(keys))) if matches!(keys.state, StateHash::Complete(_)) => {
                self.checks.of(Area::UnreadStates).compared += 1;
                self.checks.of(Area::UnreadViews).compared += 2;
            }
            Ok(Some(Value::Keys(_))) => self.note_without_counts(log, key, found),
            _ => self.checks.of(key.rows.area()).compared += 1,
        }
    }

    /// A user whose state is absent or being rebuilt is not compared.
    fn note_without_counts(&mut self, log: &LogState, key: Key, found: &Found) {
        let (Subject::User(uid), Ok(Some(Value::Keys(keys)))) = (key.subject, found) else {
            return;
        };
        match keys.state {
            StateHash::Complete(_) => {}
            StateHash::Rebuilding => drop(self.rebuilding.insert(uid)),
            StateHash::Absent if log.contacts(uid).is_empty() => {}
            StateHash::Absent => drop(self.without_state.insert(uid)),
        }
    }

    /// Clears the mismatches whose value is within what the log said before and after it was read.
    pub(crate) fn clear(&mut self, log: &LogState) {
        self.possible_mismatches.retain(|value| {
            let high = value.key.expected(log);
            !value.mismatches(high.as_ref()).is_empty()
        });
    }

    /// Reports the mismatches that the second read confirms.
    pub(crate) fn confirm(&mut self, log: &LogState, again: Vec<PossibleMismatch>) {
        for value in again {
            self.note_without_counts(log, value.key, &value.found);
            let high = value.key.expected(log);
            for mismatch in value.mismatches(high.as_ref()) {
                self.add(log, mismatch);
            }
        }
    }

    pub(super) fn add(&mut self, log: &LogState, mismatch: Mismatch) {
        let Mismatch {
            area,
            kind,
            what,
            about,
        } = mismatch;
        let mut finding = Finding::new(kind, what);
        if let Some(subject) = about
            && let Some(offset) = log.newest_event(subject)
        {
            finding = finding.at(&self.events_topic, subject.partition(), offset);
        }
        self.checks.of(area).add(finding);
    }
}

/// Compares every value in scope for the first time.
pub(crate) async fn compare_values(
    sources: &Sources,
    options: &Options,
    log: &LogState,
    comparison: &mut Comparison,
    progress: &(impl Fn(Progress) + Sync),
) -> Result<(), AuditError> {
    let in_groups = [
        Rows::Groups,
        Rows::Members,
        Rows::Memberships,
        Rows::HiddenInGroups,
    ];
    for (what, kinds) in [
        ("read positions", &[Rows::ReadPositions][..]),
        ("contacts", &[Rows::Contacts]),
        ("hidden messages", &[Rows::Hidden]),
        ("groups", &in_groups),
        ("profiles", &[Rows::Profiles]),
    ] {
        progress(Progress::Comparing { what });
        for rows in kinds {
            let mut subjects = rows.subjects(log);
            for number in rows.tables(options.scope) {
                let expected = subjects.remove(&number).unwrap_or_default();
                compare_table(sources, log, (*rows, number), expected, comparison).await?;
            }
        }
    }
    compare_cached_profiles(sources, options.scope, log, comparison).await?;
    progress(Progress::Comparing {
        what: "unread counts",
    });
    compare_unread_counts(sources, options, log, comparison).await
}

/// Compares these values for the first time.
pub(crate) async fn compare_changed(
    sources: &Sources,
    log: &LogState,
    keys: impl Iterator<Item = Key>,
    comparison: &mut Comparison,
) -> Result<(), AuditError> {
    for key in keys {
        let found = read(sources, log, key).await?;
        comparison.check(log, key, found);
    }
    Ok(())
}

/// Reads the values a second time. If the projections have passed the log's folded end by now, a value must not be below it.
pub(crate) async fn read_again(
    sources: &Sources,
    log: &LogState,
    possible_mismatches: Vec<PossibleMismatch>,
    has_passed: bool,
) -> Result<Vec<PossibleMismatch>, AuditError> {
    let mut again = Vec::with_capacity(possible_mismatches.len());
    for PossibleMismatch { key, low, .. } in possible_mismatches {
        let low = if has_passed { key.expected(log) } else { low };
        let found = read(sources, log, key).await?;
        again.push(PossibleMismatch { key, found, low });
    }
    Ok(again)
}

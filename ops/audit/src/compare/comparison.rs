//! Compares values with the log. The values change during the comparison: one that looks wrong is a possible mismatch, which a second read clears or
//! confirms.

use std::collections::BTreeSet;

use schemas::UserId;

use super::{
    differences::mismatches,
    key::Key,
    mismatch::{Compared, Mismatch},
    read::Found,
    redis_keys::StateHash,
    value::Value,
};
use crate::{
    Area, Finding,
    fold::{LogState, Subject},
    report::Checks,
};

/// A value that looked wrong, and what the log said before the value was read.
pub(crate) struct PossibleMismatch {
    pub(crate) key: Key,
    pub(crate) found: Found,
    pub(crate) lower: Option<Value>,
}

impl PossibleMismatch {
    /// What is wrong with the value if the log now says `upper`.
    fn mismatches(&self, upper: Option<&Value>) -> Vec<Mismatch> {
        match &self.found {
            Ok(found) => {
                let (found, lower) = (found.as_ref(), self.lower.as_ref());
                let values = Compared {
                    found,
                    lower,
                    upper,
                };
                mismatches(self.key, values)
            }
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
    /// Users of the log without a state in Redis: those with another key, and the number of the others.
    without_state: BTreeSet<UserId>,
    pub(super) without_keys: usize,
    /// Deleted rows of users who left a group.
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
        let lower = key.expected(log);
        let value = PossibleMismatch { key, found, lower };
        if !value.mismatches(value.lower.as_ref()).is_empty() {
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

    /// Clears the mismatches whose value lies between what the log said before and after the read.
    pub(crate) fn clear(&mut self, log: &LogState) {
        self.possible_mismatches.retain(|value| {
            let upper = value.key.expected(log);
            !value.mismatches(upper.as_ref()).is_empty()
        });
    }

    /// Reports the mismatches that the second read confirms.
    pub(crate) fn confirm(&mut self, log: &LogState, again: Vec<PossibleMismatch>) {
        for value in again {
            self.note_without_counts(log, value.key, &value.found);
            let upper = value.key.expected(log);
            for mismatch in value.mismatches(upper.as_ref()) {
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

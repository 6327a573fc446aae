//! Compares the tables about groups. As with contacts, a row that looks wrong is read a second time.

use std::collections::{HashMap, HashSet};

use message_store::StoreError;
use schemas::TableNumber;

use super::{
    Values,
    group_rows::{GroupKey, GroupRow, GroupTable, group_mismatches},
    mismatch::Mismatch,
    stored_groups::{FoundRow, read_group_row, scan},
};
use crate::{AuditError, Finding, Kind, Scope, Sources, fold::LogState};

/// A row that looked wrong, and what the log said before it was read.
pub(crate) struct PossibleInGroup {
    key: GroupKey,
    found: FoundRow,
    low: Option<GroupRow>,
}

impl Values {
    pub(crate) fn check_group_row(&mut self, log: &LogState, key: GroupKey, found: FoundRow) {
        self.checks.of(key.table.area()).compared += 1;
        let low = key.expected(log);
        let row = PossibleInGroup { key, found, low };
        if !row.mismatches(log).is_empty() {
            self.possible_in_groups.push(row);
        }
    }

    /// See [`Values::clear`].
    pub(super) fn clear_in_groups(&mut self, log: &LogState) {
        self.possible_in_groups
            .retain(|row| !row.mismatches(log).is_empty());
    }

    /// See [`Values::confirm`].
    pub(crate) fn confirm_in_groups(&mut self, log: &LogState, again: Vec<PossibleInGroup>) {
        let mismatches = again.iter().flat_map(|row| row.mismatches(log));
        for mismatch in mismatches.collect::<Vec<_>>() {
            self.add(log, mismatch);
        }
    }
}

impl PossibleInGroup {
    /// With what the log says by now.
    fn mismatches(&self, log: &LogState) -> Vec<Mismatch> {
        let (low, high) = (self.low.as_ref(), self.key.expected(log));
        match &self.found {
            Ok(found) => group_mismatches(self.key, found.as_ref(), low, high.as_ref()),
            Err(cause) => vec![self.key.mismatch(Kind::Different, cause)],
        }
    }
}

/// Reads the rows a second time; see [`read_again`](super::read_again).
pub(crate) async fn read_groups_again(
    sources: &Sources,
    log: &LogState,
    possible: Vec<PossibleInGroup>,
    has_passed: bool,
) -> Result<Vec<PossibleInGroup>, AuditError> {
    let mut again = Vec::with_capacity(possible.len());
    for PossibleInGroup { key, low, .. } in possible {
        let low = if has_passed { key.expected(log) } else { low };
        let found = read_group_row(sources, key).await?;
        again.push(PossibleInGroup { key, found, low });
    }
    Ok(again)
}

/// Compares these rows with the log.
pub(crate) async fn compare_group_rows(
    sources: &Sources,
    log: &LogState,
    keys: impl Iterator<Item = GroupKey>,
    values: &mut Values,
) -> Result<(), AuditError> {
    for key in keys {
        let found = read_group_row(sources, key).await?;
        values.check_group_row(log, key, found);
    }
    Ok(())
}

/// The rows that the log has in each table, by its number.
pub(crate) fn group_keys_by(
    log: &LogState,
    table: GroupTable,
) -> HashMap<TableNumber, HashSet<GroupKey>> {
    let mut tables: HashMap<TableNumber, HashSet<GroupKey>> = HashMap::new();
    for (gid, group) in log.groups() {
        let of_members = group.everybody().filter_map(|(uid, member)| {
            GroupRow::of_member(table, member)?;
            Some(GroupKey::of_member(table, gid, uid))
        });
        let of_group = (table == GroupTable::Groups).then(|| GroupKey::of_group(gid));
        for key in of_members.chain(of_group) {
            if log.covers_in_group(key.gid, key.uid) {
                tables.entry(key.number()).or_default().insert(key);
            }
        }
    }
    tables
}

/// Compares a whole table with the log; `expected` are the rows that belong into it.
pub(crate) async fn compare_group_table(
    sources: &Sources,
    log: &LogState,
    table: GroupTable,
    number: TableNumber,
    mut expected: HashSet<GroupKey>,
    values: &mut Values,
) -> Result<(), AuditError> {
    let store = &sources.messages;
    let mut snapshot = store.snapshot(store.layout().shard_of(number)).await?;
    let scanned = scan(&mut snapshot, table, number, |key, found| {
        if key.number() != number {
            if log.scope() == Scope::All {
                values.add(log, key.mismatch(Kind::Extra, "in another table"));
            }
        } else if log.covers_in_group(key.gid, key.uid) {
            expected.remove(&key);
            values.check_group_row(log, key, Ok(Some(found)));
        }
    });
    match scanned.await {
        // A row that cannot be decoded was not written by a projection.
        Err(StoreError::Fatal(cause)) => {
            let what = format!("{}_{number} cannot be read: {cause}", table.area().name());
            let check = values.checks.of(table.area());
            check.add(Finding::new(Kind::Different, what));
            return Ok(());
        }
        scanned => scanned?,
    }
    for key in expected {
        values.check_group_row(log, key, Ok(None));
    }
    Ok(())
}

//! Reads the values in scope and compares them.

use super::{
    comparison::{Comparison, PossibleMismatch},
    key::{Key, Rows},
    read::read,
    redis::{compare_cached_profiles, compare_unread_counts},
    table::compare_table,
};
use crate::{AuditError, Options, Progress, Sources, fold::LogState};

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

/// Reads the values a second time. If the projections have passed the log's folded end by now, a value must not be older than that.
pub(crate) async fn read_again(
    sources: &Sources,
    log: &LogState,
    possible_mismatches: Vec<PossibleMismatch>,
    has_passed: bool,
) -> Result<Vec<PossibleMismatch>, AuditError> {
    let mut again = Vec::with_capacity(possible_mismatches.len());
    for PossibleMismatch { key, lower, .. } in possible_mismatches {
        let lower = if has_passed { key.expected(log) } else { lower };
        let found = read(sources, log, key).await?;
        again.push(PossibleMismatch { key, found, lower });
    }
    Ok(again)
}

use schemas::StoredProfile;

use crate::{
    StoreError,
    arguments::Arguments,
    datetime,
    multi_row::{Insert, MultiRow, Preparation},
};

/// How many rows a statement has: up to 6 KB each.
const ROWS_AT_ONCE: usize = 250;

/// The rows of one `user_<n>`.
pub(super) fn merge(table: &str, rows: &[&StoredProfile]) -> Result<Vec<MultiRow>, StoreError> {
    let insert = Insert {
        table,
        columns: "uid, nick, avatar, extra, ts, pos",
        tail: include_str!("../../sql/write/merge_profile.sql"),
        sizes: Preparation::Once,
    };
    let mut statements = Vec::new();
    for rows in rows.chunks(ROWS_AT_ONCE) {
        statements.extend(insert.statements(rows, bind_row)?);
    }
    Ok(statements)
}

fn bind_row(arguments: Arguments, row: &&StoredProfile) -> Result<Arguments, StoreError> {
    let profile = &row.profile;
    Ok(arguments
        .with(profile.uid.get())
        .with(profile.nick.as_str())
        .with(profile.avatar.as_deref())
        .with(profile.extra.as_deref())
        .with(datetime::to_column(row.ts)?)
        .with(row.event_offset))
}

//! Groups: their messages, settings and members beside the messages of the same partitions, and memberships beside contacts.

use schemas::{Chg, GroupRole, Mid, TableNumber, TimestampMs};

use super::{
    changes::{self, ChangeRecord},
    transaction::RemovedKeys,
};
use crate::{
    ChangeKind, GroupChangeRow, GroupDelta, GroupMemberRow, GroupMessageRow, Membership, Month,
    StoreError,
    arguments::Arguments,
    datetime,
    multi_row::{Insert, MultiRow, Preparation},
};

/// Inserts messages of one month of one table.
pub(super) fn insert(place: &str, rows: &[&GroupMessageRow]) -> Result<Vec<MultiRow>, StoreError> {
    let insert = Insert {
        table: place,
        columns: "id, gid, mid, srcid, msg, ts, client_msg_id, state, edited_ts",
        tail: "",
        sizes: Preparation::Kept,
    };
    insert.statements(rows, |arguments, row| {
        Ok(arguments
            .with(row.id)
            .with(row.gid.get())
            .with(row.mid.get())
            .with(row.srcid.get())
            .with(row.msg.as_str())
            .with(datetime::to_column(row.ts)?)
            .with(row.client_msg_id.as_str())
            .with(row.state.to_column())
            .with(row.edited_ts.map(datetime::to_column).transpose()?))
    })
}

/// The rows of `msg_change_<n>`, and their keys: 0 is no user.
pub(super) fn insert_changes(
    table: &str,
    rows: &[&GroupChangeRow],
    kept_from: Option<Month>,
) -> Result<(Vec<MultiRow>, RemovedKeys), StoreError> {
    let records = rows.iter().map(|row| ChangeRecord {
        key: (0, row.gid.get(), row.chg.get()),
        mid: row.mid,
        by: row.by,
        kind: ChangeKind::of(&row.change),
        ts: row.ts,
        id: row.id,
    });
    changes::inserts(table, records, kept_from)
}

/// What becomes of the messages in `group_msg_<n>`.
pub(super) fn update_messages(
    table: &str,
    rows: &[&GroupChangeRow],
) -> Result<Vec<MultiRow>, StoreError> {
    let places = rows.iter().map(|row| {
        let place = format!("gid = {} AND mid = {}", row.gid, row.mid);
        (place, &row.change, row.ts)
    });
    changes::updates(table, places)
}

/// Comes before [`merge_last`], which raises `pos`: settings are compared with it.
pub(super) fn merge_settings(
    table: &str,
    rows: &[(i64, &GroupDelta)],
) -> Result<Vec<MultiRow>, StoreError> {
    let with_settings = rows
        .iter()
        .filter_map(|(gid, row)| Some((*gid, row.settings.as_ref()?)));
    let with_settings: Vec<_> = with_settings.collect();
    let insert = Insert {
        table,
        columns: "gid, name, owner, open, whole_history, muted, dissolved, member_count, pos",
        tail: include_str!("../../sql/write/merge_group.sql"),
        sizes: Preparation::Once,
    };
    insert.statements(
        &with_settings,
        |arguments, (gid, (pos, settings, count))| {
            Ok(arguments
                .with(*gid)
                .with(settings.name.as_str())
                .with(settings.owner.get())
                .with(settings.open)
                .with(settings.whole_history)
                .with(settings.muted)
                .with(settings.dissolved)
                .with(*count)
                .with(*pos))
        },
    )
}

pub(super) fn merge_last(
    table: &str,
    rows: &[(i64, &GroupDelta)],
) -> Result<Vec<MultiRow>, StoreError> {
    let insert = Insert {
        table,
        columns: "gid, last_mid, last_ts, last_srcid, preview, last_chg, last_state, chg, pos",
        tail: include_str!("../../sql/write/merge_group_last.sql"),
        sizes: Preparation::Once,
    };
    insert.statements(rows, |arguments, (gid, row)| {
        let last = row.last.as_ref();
        let state = last.map(|last| last.state).unwrap_or_default();
        Ok(arguments
            .with(*gid)
            .with(last.map_or(Mid::ZERO, |last| last.mid).get())
            .with(datetime::to_column(
                last.map_or(TimestampMs(0), |last| last.ts),
            )?)
            .with(last.map_or(0, |last| last.srcid.get()))
            .with(last.map_or("", |last| last.preview.as_str()))
            .with(last.map_or(Chg::ZERO, |last| last.chg).get())
            .with(state.to_column())
            .with(row.chg.get())
            .with(row.pos))
    })
}

pub(super) fn merge_members(
    table: &str,
    rows: &[&GroupMemberRow],
) -> Result<Vec<MultiRow>, StoreError> {
    let insert = Insert {
        table,
        columns: "gid, uid, role, muted, join_mid, pos",
        tail: include_str!("../../sql/write/merge_group_member.sql"),
        sizes: Preparation::Once,
    };
    insert.statements(rows, |arguments, row| {
        Ok(arguments
            .with(row.gid.get())
            .with(row.uid.get())
            .with(role_to_column(row.role))
            .with(row.muted)
            .with(row.join_mid.get())
            .with(row.pos))
    })
}

pub(crate) fn role_to_column(role: Option<GroupRole>) -> i8 {
    match role {
        None => 0,
        Some(GroupRole::Member) => 1,
        Some(GroupRole::Admin) => 2,
        Some(GroupRole::Owner) => 3,
    }
}

pub(super) fn merge_memberships(
    table: &str,
    rows: &[&Membership],
) -> Result<Vec<MultiRow>, StoreError> {
    let insert = Insert {
        table,
        columns: "uid, gid, join_pos, left_pos, join_mid, own_last_mid, pc_read_mid, mobile_read_mid, clear_mid, pos",
        tail: include_str!("../../sql/write/merge_membership.sql"),
        sizes: Preparation::Once,
    };
    insert.statements(rows, |arguments, row| {
        Ok(arguments
            .with(row.uid.get())
            .with(row.gid.get())
            .with(row.join_pos)
            .with(row.left_pos)
            .with(row.join_mid.get())
            .with(row.own_last_mid.get())
            .with(row.read.pc.get())
            .with(row.read.mobile.get())
            .with(row.clear_mid.get())
            .with(row.pos))
    })
}

/// `kind` of a hidden message that is a group's.
const KIND_GROUP: i8 = 1;

pub(super) fn hide(table: &str, rows: &[&Membership]) -> Result<Vec<MultiRow>, StoreError> {
    let of_row = |row: &'_ &Membership| {
        let key = (row.uid, row.gid);
        row.hidden
            .iter()
            .map(move |mid| (key, *mid))
            .collect::<Vec<_>>()
    };
    let hidden: Vec<_> = rows.iter().flat_map(of_row).collect();
    let insert = Insert {
        table,
        columns: "uid, kind, peer, mid",
        tail: include_str!("../../sql/write/hide.sql"),
        sizes: Preparation::Once,
    };
    insert.statements(&hidden, |arguments: Arguments, ((uid, gid), mid)| {
        Ok(arguments
            .with(uid.get())
            .with(KIND_GROUP)
            .with(gid.get())
            .with(mid.get()))
    })
}

/// The number of the tables of a group.
pub(super) fn table_of(gid: schemas::GroupId) -> TableNumber {
    gid.partition().into()
}

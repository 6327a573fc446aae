//! The rows of groups: settings and members, written with the messages of the same partitions, and memberships, written with contacts.

use schemas::{ChangeSeq, GroupRole, Mid, TimestampMs};

use crate::{
    GroupDelta, GroupMemberRow, Membership, SettingsAt, StoreError, datetime,
    multi_row::{Insert, MultiRow, Preparation},
};

/// To be executed before [`merge_last`], which raises `pos`: settings are compared with it.
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
    insert.statements(&with_settings, |arguments, (gid, set)| {
        let SettingsAt { settings, .. } = set;
        Ok(arguments
            .with(*gid)
            .with(settings.name.as_str())
            .with(settings.owner.get())
            .with(settings.open)
            .with(settings.whole_history)
            .with(settings.muted)
            .with(settings.dissolved)
            .with(set.member_count)
            .with(set.event_offset))
    })
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
            .with(last.map_or(ChangeSeq::ZERO, |last| last.change_seq).get())
            .with(state.to_column())
            .with(row.change_seq.get())
            .with(row.event_offset))
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
            .with(row.event_offset))
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
        columns: "uid, gid, join_pos, left_pos, join_mid, own_last_mid, pc_read_mid, mobile_read_mid, clear_mid, own_pos, pos",
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
            .with(row.own_pos)
            .with(row.event_offset))
    })
}

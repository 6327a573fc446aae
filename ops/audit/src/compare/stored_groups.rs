//! Reads the tables about groups.

use message_store::{GroupMemberRow, GroupRow as StoredGroup, Membership, ReadTx, StoreError};
use schemas::{GroupId, Mid, TableNumber};

use super::group_rows::{
    GroupColumns, GroupKey, GroupRow, GroupTable, MemberColumns, MembershipColumns,
};
use crate::{
    AuditError, Sources,
    fold::{LastInGroup, preview_digest},
};

const PAGE: u32 = 2_000;

/// Gives each row of a table to `take`; the hidden messages of a user in a group are one.
pub(super) async fn scan(
    snapshot: &mut ReadTx,
    table: GroupTable,
    number: TableNumber,
    mut take: impl FnMut(GroupKey, GroupRow),
) -> Result<(), StoreError> {
    if table == GroupTable::Hidden {
        return scan_hidden(snapshot, number, take).await;
    }
    let mut after: Option<GroupKey> = None;
    loop {
        let gid = after.map(|key| key.gid);
        let uid = after.and_then(|key| key.uid);
        let page: Vec<(GroupKey, GroupRow)> = match table {
            GroupTable::Groups => {
                let rows = snapshot.scan_groups(number, gid, PAGE).await?;
                rows.iter().map(of_group).collect()
            }
            GroupTable::Members => {
                let rows = snapshot.scan_group_members(number, gid.zip(uid), PAGE);
                rows.await?.iter().map(of_member).collect()
            }
            GroupTable::Memberships | GroupTable::Hidden => {
                let rows = snapshot.scan_memberships(number, uid.zip(gid), PAGE);
                rows.await?.iter().map(of_membership).collect()
            }
        };
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        after = Some(*last);
        for (key, row) in page {
            take(key, row);
        }
    }
}

async fn scan_hidden(
    snapshot: &mut ReadTx,
    number: TableNumber,
    mut take: impl FnMut(GroupKey, GroupRow),
) -> Result<(), StoreError> {
    let mut after = None;
    // Of one user in one group.
    let mut of: Option<GroupKey> = None;
    let mut mids = Vec::new();
    loop {
        let page = snapshot.scan_hidden_in_groups(number, after, PAGE).await?;
        after = page.last().copied();
        for (uid, gid, mid) in &page {
            let key = GroupKey::of_member(GroupTable::Hidden, *gid, *uid);
            if of != Some(key) {
                let before = std::mem::take(&mut mids);
                if let Some(of) = of {
                    take(of, hidden(before));
                }
                of = Some(key);
            }
            mids.push(mid.get());
        }
        if after.is_none() {
            if let Some(of) = of {
                take(of, hidden(mids));
            }
            return Ok(());
        }
    }
}

fn hidden(mids: Vec<i64>) -> GroupRow {
    let clear_mid = 0;
    GroupRow::Hidden { mids, clear_mid }
}

/// A row, if there is one, or why it cannot be read.
pub(super) type FoundRow = Result<Option<GroupRow>, String>;

pub(super) async fn read_group_row(
    sources: &Sources,
    key: GroupKey,
) -> Result<FoundRow, AuditError> {
    match read(sources, key).await {
        Err(StoreError::Fatal(cause)) => Ok(Err(cause.to_string())),
        found => Ok(Ok(found?)),
    }
}

async fn read(sources: &Sources, key: GroupKey) -> Result<Option<GroupRow>, StoreError> {
    let store = &sources.messages;
    let shard = store.layout().shard_of(key.number());
    let mut snapshot = store.snapshot(shard).await?;
    let GroupKey { table, gid, uid } = key;
    let found = match (table, uid) {
        (GroupTable::Groups, _) | (_, None) => {
            let rows = snapshot.groups(&[gid]).await?;
            rows.first().map(of_group)
        }
        (GroupTable::Members, Some(uid)) => {
            let row = snapshot.group_member(gid, uid).await?;
            row.as_ref().map(of_member)
        }
        (GroupTable::Memberships, Some(uid)) => {
            let before = GroupId::try_from(gid.get() - 1).ok();
            let rows = snapshot.memberships(uid, before, 1).await?;
            rows.first().filter(|row| row.gid == gid).map(of_membership)
        }
        (GroupTable::Hidden, Some(uid)) => {
            let all = Mid::ZERO..=Mid::try_from(i64::MAX).expect("it is not below 0");
            let mids = snapshot.hidden(uid, gid, all).await?;
            let mids: Vec<i64> = mids.into_iter().map(Mid::get).collect();
            (!mids.is_empty()).then_some((key, hidden(mids)))
        }
    };
    Ok(found.map(|(_, row)| row))
}

fn of_group(row: &StoredGroup) -> (GroupKey, GroupRow) {
    let last = row.last.as_ref();
    let columns = GroupColumns {
        settings: row.settings.clone(),
        member_count: row.member_count,
        last: last.map_or_else(LastInGroup::default, |last| LastInGroup {
            mid: last.mid.get(),
            ts: last.ts.0,
            srcid: last.srcid.get(),
            preview: preview_digest(&last.preview),
            chg: last.chg.get(),
            state: last.state.into(),
        }),
        chg: row.chg.get(),
        pos: row.pos,
    };
    let key = GroupKey::of_group(row.gid);
    (key, GroupRow::Group(Box::new(columns)))
}

fn of_member(row: &GroupMemberRow) -> (GroupKey, GroupRow) {
    let columns = MemberColumns {
        role: row.role,
        muted: row.muted,
        join_mid: row.join_mid.get(),
        pos: row.pos,
    };
    let key = GroupKey::of_member(GroupTable::Members, row.gid, row.uid);
    (key, GroupRow::Member(columns))
}

fn of_membership(row: &Membership) -> (GroupKey, GroupRow) {
    let columns = MembershipColumns {
        join_pos: row.join_pos,
        left_pos: row.left_pos,
        join_mid: row.join_mid.get(),
        own_last_mid: row.own_last_mid.get(),
        reads: row.read.map(Mid::get),
        clear_mid: row.clear_mid.get(),
        pos: row.pos,
    };
    let key = GroupKey::of_member(GroupTable::Memberships, row.gid, row.uid);
    (key, GroupRow::Membership(columns))
}

//! The newest groups of a user with very many: read by an index of the groups, not through all memberships.

use std::{cmp::Reverse, collections::BTreeMap};

use message_store::{Membership, Shard, Sink};
use schemas::{GroupId, Partition, TimestampMs, UserId};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    call::Call,
    cursor::ListPosition,
    deadline::Deadline,
    error::QueryError,
    listed_group::{self, ListedGroup},
    sink_watermarks,
};

/// A user with this number of memberships or more is in very many groups.
pub(crate) const VERY_MANY: u32 = 500;

/// How many groups of each table are read at first, with or without the user as a member; and how many at the second, last attempt.
const GROUPS_OF_TABLE: [usize; 2] = [8, 256];

/// The first position in a list's descending order: the last millisecond that a DATETIME has.
const FIRST: (TimestampMs, i64) = (TimestampMs(253_402_300_799_999), i64::MAX);

/// The next `count` groups after `begin` in the user's list, or all that are left; `None` if the user's groups are too rare among all groups.
pub(crate) async fn read(
    call: &Call,
    uid: UserId,
    begin: Option<ListPosition>,
    count: usize,
    required: &RequiredWatermarks,
    deadline: Deadline,
    mut as_of: AsOf,
) -> Result<Option<(Vec<ListedGroup>, AsOf)>, QueryError> {
    for of_table in GROUPS_OF_TABLE {
        let mut newest = Vec::new();
        // One after the other: a call that waits for two connections of its user's share could wait for itself.
        for shard in call.store.layout().shards() {
            let attempt = || newest_of(call, shard, begin, of_table, required);
            let (groups, watermarks) = call.poll(deadline, attempt).await?;
            newest.extend(groups);
            as_of = as_of.and(watermarks);
        }
        let (gids, are_all) = known(newest, of_table, begin);
        let memberships = async {
            let mut tx = call
                .snapshot(call.store.layout().shard_of_user(uid))
                .await?;
            tx.memberships_of(uid, &gids).await
        };
        let memberships = deadline.bound(memberships).await??.into_iter();
        let mut memberships: BTreeMap<GroupId, Membership> =
            memberships.map(|row| (row.gid, row)).collect();
        let of_user = gids.iter().filter_map(|gid| memberships.remove(gid));
        let of_user: Vec<Membership> = of_user.filter(Membership::is_member).collect();
        let parts = of_user.chunks(count).map(<[Membership]>::to_vec);
        let until = (begin, count);
        let read = listed_group::read_listed(call, uid, parts, until, required, deadline, as_of);
        let listed;
        (listed, as_of) = read.await?;
        if are_all || listed.len() >= count {
            return Ok(Some((listed, as_of)));
        }
    }
    Ok(None)
}

async fn newest_of(
    call: &Call,
    shard: Shard,
    begin: Option<ListPosition>,
    of_table: usize,
    required: &RequiredWatermarks,
) -> Result<(Vec<(GroupId, TimestampMs)>, Watermarks), QueryError> {
    let layout = call.store.layout();
    let required = required
        .clone()
        .restrict_to(|partition| layout.shard_of(partition) == shard);
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(call, shard, Sink::Messages, &required).await?;
    // Pinned contacts come before all groups.
    let begin = begin.filter(|begin| !begin.pinned);
    let begin = begin.map_or(FIRST, |begin| (begin.last_ts, begin.number));
    Ok((tx.newest_groups(begin, of_table).await?, watermarks))
}

/// The next groups after `begin`, up to the first position that a group that was not read may have: if a table may have more groups, below the last
/// one that was read of it. Also returns whether these are all groups.
fn known(
    newest: Vec<(GroupId, TimestampMs)>,
    of_table: usize,
    begin: Option<ListPosition>,
) -> (Vec<GroupId>, bool) {
    let mut tables: BTreeMap<Partition, Vec<ListPosition>> = BTreeMap::new();
    let mut known = Vec::new();
    for (gid, last_ts) in newest {
        let position = ListPosition::of_group(gid, last_ts);
        tables.entry(gid.partition()).or_default().push(position);
        known.push((position, gid));
    }
    let is_cut = |table: &&Vec<ListPosition>| table.len() >= of_table;
    let ends = tables.values().filter(is_cut);
    let end = ends.filter_map(|table| table.iter().min()).max();
    known.retain(|(position, _)| {
        begin.is_none_or(|begin| *position < begin) && end.is_none_or(|end| position >= end)
    });
    known.sort_by_key(|(position, _)| Reverse(*position));
    let gids = known.into_iter().map(|(_, gid)| gid).collect();
    (gids, end.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_come_after_a_group_that_was_not_looked_at_is_not_known() {
        let groups = [(65, 90), (129, 70), (66, 80), (130, 60), (67, 50)];
        let groups = groups.map(|(gid, ts): (i64, i64)| (gid.try_into().unwrap(), TimestampMs(ts)));
        let first = |of_table, begin| {
            let (gids, are_all) = known(groups.to_vec(), of_table, begin);
            (gids.into_iter().map(GroupId::get).collect(), are_all)
        };
        let all: (Vec<i64>, bool) = first(3, None);
        assert_eq!(all, (vec![65, 66, 129, 130, 67], true));
        // Table 1 may have another group at 65, and table 2 one at 55.
        assert_eq!(first(2, None), (vec![65, 66, 129], false));
        let begin = ListPosition::of_group(groups[2].0, groups[2].1);
        assert_eq!(first(2, Some(begin)), (vec![129], false));
    }
}

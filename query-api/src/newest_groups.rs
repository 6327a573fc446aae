//! The newest groups of a user who is in very many: read by an index of the groups, not by way of all memberships.

use std::{cmp::Reverse, collections::BTreeMap};

use message_store::{Membership, NewestGroup, Shard, Sink};
use schemas::{GroupId, TableNumber, TimestampMs, UserId};

use crate::{
    after::{AsOf, RequiredWatermarks, Watermarks},
    api::Api,
    cursor::{Kind, ListPosition},
    deadline::Deadline,
    error::QueryError,
    sink_watermarks,
};

/// A user with so many memberships is in very many groups.
pub(crate) const VERY_MANY: u32 = 500;

/// How many groups of each table are looked at, whoever is in them; then more, and no more than these.
const GROUPS_OF_TABLE: [u32; 2] = [16, 256];

/// The end of a list's order: the last millisecond that a DATETIME has.
const FIRST: (TimestampMs, i64) = (TimestampMs(253_402_300_799_999), i64::MAX);

/// The memberships of the next `count` groups after `begin` in the user's list, or of all that are left; `None` if the user's are too rare among those of
/// everybody.
pub(crate) async fn memberships(
    api: &Api,
    uid: UserId,
    begin: Option<ListPosition>,
    count: usize,
    required: &RequiredWatermarks,
    deadline: Deadline,
    mut as_of: AsOf,
) -> Result<Option<(Vec<Membership>, AsOf)>, QueryError> {
    for of_table in GROUPS_OF_TABLE {
        let mut newest = Vec::new();
        // One after the other: a call that waits for two connections of its user's share could wait for itself.
        for shard in api.store.layout().shards() {
            let attempt = || newest_of(api, uid, shard, begin, of_table, required);
            let (groups, watermarks) = api.poll(deadline, attempt).await?;
            newest.extend(groups);
            as_of = as_of.and(watermarks);
        }
        if let Some(gids) = first_of(&newest, of_table, begin, count) {
            let read = async {
                let mut tx = api.snapshot(api.store.layout().shard_of_user(uid)).await?;
                tx.memberships_of(uid, &gids).await
            };
            return Ok(Some((deadline.bound(read).await??, as_of)));
        }
    }
    Ok(None)
}

async fn newest_of(
    api: &Api,
    uid: UserId,
    shard: Shard,
    begin: Option<ListPosition>,
    of_table: u32,
    required: &RequiredWatermarks,
) -> Result<(Vec<NewestGroup>, Watermarks), QueryError> {
    let layout = api.store.layout();
    let required = required
        .clone()
        .restrict_to(|partition| layout.shard_of(partition) == shard);
    let (mut tx, watermarks) =
        sink_watermarks::snapshot(api, shard, Sink::Messages, &required).await?;
    // Pinned contacts come before all groups.
    let begin = begin.filter(|begin| !begin.pinned);
    let begin = begin.map_or(FIRST, |begin| (begin.last_ts, begin.number));
    Ok((tx.newest_groups(uid, begin, of_table).await?, watermarks))
}

/// The user's next groups after `begin`, if nothing that was not looked at comes before them: of a table with more, that is below the last that
/// was.
fn first_of(
    newest: &[NewestGroup],
    of_table: u32,
    begin: Option<ListPosition>,
    count: usize,
) -> Option<Vec<GroupId>> {
    let place = |group: &NewestGroup| ListPosition {
        pinned: false,
        last_ts: group.last_ts,
        number: group.gid.get(),
        kind: Kind::Group,
    };
    let mut tables: BTreeMap<TableNumber, Vec<ListPosition>> = BTreeMap::new();
    for group in newest {
        tables.entry(group.number).or_default().push(place(group));
    }
    let is_cut = |table: &&Vec<ListPosition>| table.len() >= of_table as usize;
    let ends = tables.values().filter(is_cut);
    let known_to = ends.filter_map(|table| table.iter().min()).max().copied();
    let is_known = |group: &&NewestGroup| {
        let place = place(group);
        group.is_listed
            && begin.is_none_or(|begin| place < begin)
            && known_to.is_none_or(|end| place >= end)
    };
    let mut known: Vec<&NewestGroup> = newest.iter().filter(is_known).collect();
    known.sort_by_key(|group| Reverse(place(group)));
    known.truncate(count);
    let is_whole = known.len() == count || known_to.is_none();
    is_whole.then(|| known.into_iter().map(|group| group.gid).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(number: i64, gid: i64, ts: i64, is_listed: bool) -> NewestGroup {
        NewestGroup {
            number: number.try_into().unwrap(),
            gid: gid.try_into().unwrap(),
            last_ts: TimestampMs(ts),
            is_listed,
        }
    }

    fn gids(found: Option<Vec<GroupId>>) -> Option<Vec<i64>> {
        Some(found?.into_iter().map(GroupId::get).collect())
    }

    #[test]
    fn what_may_come_after_a_group_that_was_not_looked_at_is_not_known() {
        let groups = [
            group(1, 65, 90, true),
            group(1, 129, 70, false),
            group(2, 66, 80, true),
            group(2, 130, 60, true),
            group(3, 67, 50, true),
        ];
        let first = |of_table, count| gids(first_of(&groups, of_table, None, count));
        assert_eq!(first(2, 2), Some(vec![65, 66]));
        assert_eq!(first(2, 3), None, "table 1 may have one of 65");
        assert_eq!(first(3, 3), Some(vec![65, 66, 130]));
        assert_eq!(first(3, 9), Some(vec![65, 66, 130, 67]));
        let begin = ListPosition {
            pinned: false,
            last_ts: TimestampMs(80),
            number: 66,
            kind: Kind::Group,
        };
        assert_eq!(gids(first_of(&groups, 3, Some(begin), 1)), Some(vec![130]));
    }
}

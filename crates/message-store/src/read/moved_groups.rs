//! Groups of a user who is in very many: those that have moved, and the newest, each by an index of the groups. The number of groups read is bounded
//! by what has happened, or by a limit; all memberships of the user are looked at.

use schemas::{GroupId, Partition, StoredProfile, TableNumber, TimestampMs, UserId};
use sqlx::{Row as _, mysql::MySqlRow};

use super::{ReadTx, decode};
use crate::{GroupHead, Membership, StoreError, datetime, names::Table};

impl ReadTx {
    /// From these partitions, all in this database: the groups of which `uid` is a member and whose `pos` is at least `since` of their partition; and
    /// the groups that `uid` has left by an event at or above `left_since`, which is not below `since`. Both are found by the index of `pos`. `None`
    /// if `limit` groups or more of a partition have moved, with or without `uid` as a member.
    pub async fn moved_groups(
        &mut self,
        uid: UserId,
        partitions: &[Partition],
        since: impl Fn(Partition) -> i64,
        left_since: impl Fn(Partition) -> i64,
        limit: u32,
    ) -> Result<Option<(Vec<GroupHead>, Vec<GroupId>)>, StoreError> {
        let sql = |tx: &Self, partition: &Partition| {
            Ok(include_str!("../../sql/read/count_moved_groups.sql")
                .replace("{partition}", &partition.to_string())
                .replace("{table}", &tx.table(Table::Group, *partition)?)
                .replace("{since}", &since(*partition).to_string())
                .replace("{limit}", &limit.to_string()))
        };
        let mut moved = Vec::new();
        for row in self.fetch_of_each(partitions.iter(), sql).await? {
            let count: i64 = row.try_get("moved")?;
            if count >= i64::from(limit) {
                return Ok(None);
            }
            let partition: i64 = row.try_get("partition_no")?;
            moved.push(partition.try_into().map_err(StoreError::fatal)?);
        }
        let sql = |tx: &Self, partition| {
            Ok(include_str!("../../sql/read/moved_groups.sql")
                .replace("{columns}", &decode::group_head_columns())
                .replace("{table}", &tx.table(Table::Group, partition)?)
                .replace("{members}", &tx.table(Table::GroupMember, partition)?)
                .replace("{uid}", &uid.to_string())
                .replace("{since}", &since(partition).to_string())
                .replace("{left_since}", &left_since(partition).to_string()))
        };
        let (mut heads, mut left) = (Vec::new(), Vec::new());
        for row in self.fetch_of_each(moved.into_iter(), sql).await? {
            match row.try_get::<i8, _>("member_role")? {
                0 => left.push(decode::number(&row, "gid")?),
                _ => heads.push(decode::group_head(&row)?),
            }
        }
        Ok(Some((heads, left)))
    }

    /// The `limit` newest groups of each group table of this database with messages up to `(last_ts, gid)`, with any members, and the time of their
    /// newest message. Reads the index only, no rows.
    pub async fn newest_groups(
        &mut self,
        (last_ts, gid): (TimestampMs, i64),
        limit: usize,
    ) -> Result<Vec<(GroupId, TimestampMs)>, StoreError> {
        let last_ts = datetime::to_column(last_ts)?;
        let sql = |tx: &Self, number: TableNumber| {
            Ok(include_str!("../../sql/read/newest_groups.sql")
                .replace("{table}", &tx.table(Table::Group, number)?)
                .replace("{ts}", &last_ts.to_string())
                .replace("{gid}", &gid.to_string())
                .replace("{limit}", &limit.to_string()))
        };
        let tables = self.names.layout().tables_of(self.shard);
        let rows = self.fetch_of_each(tables, sql).await?;
        let newest = |row: &MySqlRow| {
            let last_ts = datetime::from_column(row.try_get("last_ts")?);
            Ok((decode::number(row, "gid")?, last_ts))
        };
        rows.iter().map(newest).collect()
    }

    /// The start of a sync, in one statement: the user's own profile, and whether the user has `memberships` memberships or more, those of groups
    /// that the user has left included.
    pub async fn sync_head(
        &mut self,
        uid: UserId,
        memberships: u32,
    ) -> Result<(Option<StoredProfile>, bool), StoreError> {
        let number = TableNumber::of_user(uid);
        let table = self.table(Table::User, number)?;
        let sql = include_str!("../../sql/read/sync_head.sql")
            .replace("{memberships}", &self.table(Table::Membership, number)?)
            .replace("{uid}", &uid.to_string())
            .replace("{count}", &memberships.to_string());
        let head = |row: &MySqlRow| {
            let has_profile = row.try_get::<Option<i64>, _>("pos")?.is_some();
            let profile = has_profile.then(|| decode::profile(row)).transpose()?;
            let found: i64 = row.try_get("memberships")?;
            Ok((profile, found >= i64::from(memberships)))
        };
        let mut heads = self.fetch_once(&sql, &table, head).await?;
        heads
            .pop()
            .ok_or_else(|| StoreError::fatal("a statement without a table has no row"))
    }

    /// Up to `limit` memberships of a user whose `pos` is at least `since` of the group's partition, in no order.
    pub async fn memberships_since(
        &mut self,
        uid: UserId,
        since: impl Fn(Partition) -> i64,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        let table = self.table(Table::Membership, TableNumber::of_user(uid))?;
        let since: Vec<String> = Partition::all().map(|p| since(p).to_string()).collect();
        let sql = include_str!("../../sql/read/memberships_since.sql")
            .replace("{columns}", decode::MEMBERSHIP)
            .replace("{uid}", &uid.to_string())
            .replace("{since}", &since.join(", "))
            .replace("{limit}", &limit.to_string());
        self.fetch_once(&sql, &table, decode::membership).await
    }

    /// The user's memberships of these groups.
    pub async fn memberships_of(
        &mut self,
        uid: UserId,
        gids: &[GroupId],
    ) -> Result<Vec<Membership>, StoreError> {
        if gids.is_empty() {
            return Ok(Vec::new());
        }
        let table = self.table(Table::Membership, TableNumber::of_user(uid))?;
        let gids: Vec<String> = gids.iter().map(ToString::to_string).collect();
        let sql = include_str!("../../sql/read/memberships_of.sql")
            .replace("{columns}", decode::MEMBERSHIP)
            .replace("{uid}", &uid.to_string())
            .replace("{gids}", &gids.join(", "));
        self.fetch_once(&sql, &table, decode::membership).await
    }
}

//! Groups of users who are in very many: those that have moved, and the newest, each by an index of the groups. How many
//! groups are read is bounded by what has happened, or by a limit; the user's memberships are all looked at.

use schemas::{GroupId, Partition, StoredProfile, TableNumber, TimestampMs, UserId};
use sqlx::{Row as _, types::time::PrimitiveDateTime};

use super::{ReadTx, decode};
use crate::{GroupHead, Membership, StoreError, datetime, names::Table};

/// A group among the newest of its table, whoever is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestGroup {
    /// The table.
    pub number: TableNumber,
    /// The group.
    pub gid: GroupId,
    /// When its newest message was sent.
    pub last_ts: TimestampMs,
    /// The user is a member, and there is a message that is not from before joining.
    pub is_listed: bool,
}

impl ReadTx {
    /// Whether any of the group tables of this database has `limit` groups or more whose `pos` is at least that of `since` for their partition.
    ///
    /// # Errors
    /// As all reads.
    pub async fn has_many_moved_groups(
        &mut self,
        since: impl Fn(Partition) -> i64,
        limit: u32,
    ) -> Result<bool, StoreError> {
        let sql = |tx: &Self, number: TableNumber| {
            Ok(include_str!("../../sql/read/moved_groups.sql")
                .replace("{number}", &number.get().to_string())
                .replace("{table}", &tx.table(Table::Group, number)?)
                .replace("{since}", &since(partition_of(number)?).to_string())
                .replace("{limit}", &limit.to_string()))
        };
        let rows = self.fetch_of_all_tables(sql).await?;
        let mut moved = rows.iter().map(|row| row.try_get::<i64, _>("moved"));
        Ok(moved.any(|moved| moved.map_or(true, |moved| moved >= i64::from(limit))))
    }

    /// The groups of this database of which `uid` is a member and whose `pos` is at least that of `since` for their partition, by the index of `pos`.
    ///
    /// # Errors
    /// As all reads.
    pub async fn moved_group_heads(
        &mut self,
        uid: UserId,
        since: impl Fn(Partition) -> i64,
    ) -> Result<Vec<GroupHead>, StoreError> {
        let sql = |tx: &Self, number: TableNumber| {
            Ok(include_str!("../../sql/read/moved_group_heads.sql")
                .replace("{table}", &tx.table(Table::Group, number)?)
                .replace("{members}", &tx.table(Table::GroupMember, number)?)
                .replace("{uid}", &uid.to_string())
                .replace("{since}", &since(partition_of(number)?).to_string()))
        };
        let rows = self.fetch_of_all_tables(sql).await?;
        rows.iter().map(decode::group_head).collect()
    }

    /// The groups of this database that `uid` has left by an event at or above that of `since` for their partition, by the index of `pos`.
    ///
    /// # Errors
    /// As all reads.
    pub async fn groups_left_since(
        &mut self,
        uid: UserId,
        since: impl Fn(Partition) -> i64,
    ) -> Result<Vec<GroupId>, StoreError> {
        let sql = |tx: &Self, number: TableNumber| {
            Ok(include_str!("../../sql/read/groups_left_since.sql")
                .replace("{table}", &tx.table(Table::Group, number)?)
                .replace("{members}", &tx.table(Table::GroupMember, number)?)
                .replace("{uid}", &uid.to_string())
                .replace("{since}", &since(partition_of(number)?).to_string()))
        };
        let rows = self.fetch_of_all_tables(sql).await?;
        rows.iter().map(|row| decode::gid(row, "gid")).collect()
    }

    /// Of each group table of this database the `limit` newest groups up to `(last_ts, gid)`, whoever is in them, by the index of their last message.
    ///
    /// # Errors
    /// As all reads.
    pub async fn newest_groups(
        &mut self,
        uid: UserId,
        (last_ts, gid): (TimestampMs, i64),
        limit: u32,
    ) -> Result<Vec<NewestGroup>, StoreError> {
        let last_ts = datetime::to_column(last_ts)?;
        let sql = |tx: &Self, number: TableNumber| {
            Ok(include_str!("../../sql/read/newest_groups.sql")
                .replace("{number}", &number.get().to_string())
                .replace("{table}", &tx.table(Table::Group, number)?)
                .replace("{members}", &tx.table(Table::GroupMember, number)?)
                .replace("{uid}", &uid.to_string())
                .replace("{ts}", &last_ts.to_string())
                .replace("{gid}", &gid.to_string())
                .replace("{limit}", &limit.to_string()))
        };
        let rows = self.fetch_of_all_tables(sql).await?;
        let newest = |row: &sqlx::mysql::MySqlRow| {
            let last_ts: PrimitiveDateTime = row.try_get("last_ts")?;
            let number: i64 = row.try_get("number")?;
            Ok(NewestGroup {
                number: number.try_into().map_err(StoreError::fatal)?,
                gid: decode::gid(row, "gid")?,
                last_ts: datetime::from_column(last_ts),
                is_listed: row.try_get::<Option<i64>, _>("is_listed")? == Some(1),
            })
        };
        rows.iter().map(newest).collect()
    }

    /// What a sync begins with, in one statement: the user's own profile, and whether there are so many memberships or more, of groups that were left,
    /// too.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
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
        let rows = self.fetch_once(&sql, &table).await?;
        let row = rows
            .first()
            .ok_or_else(|| StoreError::fatal("a statement without a table has no row"))?;
        let has_profile = row.try_get::<Option<i64>, _>("pos")?.is_some();
        let profile = has_profile.then(|| decode::profile(row)).transpose()?;
        let found: i64 = row.try_get("memberships")?;
        Ok((profile, found >= i64::from(memberships)))
    }

    /// Up to `limit` memberships of a user whose `pos` is at least that of `since` for the group's partition, in no order.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
    pub async fn memberships_since(
        &mut self,
        uid: UserId,
        since: impl Fn(Partition) -> i64,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        let table = self.table(Table::Membership, TableNumber::of_user(uid))?;
        let since: Vec<String> = Partition::all().map(|p| since(p).to_string()).collect();
        let sql = include_str!("../../sql/read/memberships_since.sql")
            .replace("{uid}", &uid.to_string())
            .replace("{since}", &since.join(", "))
            .replace("{limit}", &limit.to_string());
        let rows = self.fetch_once(&sql, &table).await?;
        rows.iter().map(decode::membership).collect()
    }

    /// What a user has of these groups.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
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
            .replace("{uid}", &uid.to_string())
            .replace("{gids}", &gids.join(", "));
        let rows = self.fetch_once(&sql, &table).await?;
        rows.iter().map(decode::membership).collect()
    }
}

fn partition_of(number: TableNumber) -> Result<Partition, StoreError> {
    i64::from(number.get())
        .try_into()
        .map_err(StoreError::fatal)
}

//! Groups as a member sees them.

use std::collections::BTreeSet;

use schemas::{GroupId, Mid, Partition, TableNumber, UserId};
use sqlx::mysql::MySqlRow;

use super::{ReadTx, decode};
use crate::{GroupHead, Membership, StoreError, arguments::Arguments, names::Table};

impl ReadTx {
    /// The groups among these, all in this database, of which `uid` is a member, dissolved or not; in one statement. Groups that are not projected
    /// yet are left out.
    pub async fn group_heads(
        &mut self,
        uid: UserId,
        gids: &[GroupId],
    ) -> Result<Vec<GroupHead>, StoreError> {
        self.group_heads_since(uid, gids, |_| -1).await
    }

    /// As [`Self::group_heads`], but only groups whose `pos` is at least `since` of their partition.
    pub async fn group_heads_since(
        &mut self,
        uid: UserId,
        gids: &[GroupId],
        since: impl Fn(Partition) -> i64,
    ) -> Result<Vec<GroupHead>, StoreError> {
        let ids = gids.iter().map(|gid| (gid.partition().into(), gid.get()));
        let sql = |tx: &Self, number: TableNumber, gids: &str| {
            let partition = i64::from(number.get()).try_into();
            let partition = partition.map_err(StoreError::fatal)?;
            Ok(include_str!("../../sql/read/group_heads.sql")
                .replace("{columns}", &decode::group_head_columns())
                .replace("{table}", &tx.table(Table::Group, number)?)
                .replace("{members}", &tx.table(Table::GroupMember, number)?)
                .replace("{uid}", &uid.to_string())
                .replace("{since}", &since(partition).to_string())
                .replace("{gids}", gids))
        };
        self.fetch_of_tables(ids, sql, decode::group_head).await
    }

    /// The groups among these, all in this database, that `uid` has left by an event at or above `since` of their partition.
    pub async fn left_groups(
        &mut self,
        uid: UserId,
        gids: &[GroupId],
        since: impl Fn(Partition) -> i64,
    ) -> Result<Vec<GroupId>, StoreError> {
        let ids = gids.iter().map(|gid| (gid.partition().into(), gid.get()));
        let sql = |tx: &Self, number: TableNumber, gids: &str| {
            let partition = i64::from(number.get()).try_into();
            let partition = partition.map_err(StoreError::fatal)?;
            Ok(include_str!("../../sql/read/left_groups.sql")
                .replace("{table}", &tx.table(Table::GroupMember, number)?)
                .replace("{uid}", &uid.to_string())
                .replace("{since}", &since(partition).to_string())
                .replace("{gids}", gids))
        };
        self.fetch_of_tables(ids, sql, |row| decode::number(row, "gid"))
            .await
    }

    /// A user's membership of a group, also after the user has left it.
    pub async fn membership(
        &mut self,
        uid: UserId,
        gid: GroupId,
    ) -> Result<Option<Membership>, StoreError> {
        let table = self.table(Table::Membership, TableNumber::of_user(uid))?;
        let arguments = Arguments::default().with(uid.get()).with(gid.get());
        let sql =
            include_str!("../../sql/read/membership.sql").replace("{columns}", decode::MEMBERSHIP);
        let memberships = self.fetch(&sql, &table, arguments, decode::membership);
        Ok(memberships.await?.pop())
    }

    /// The messages among these, all of groups, that `uid` has hidden.
    pub async fn hidden_in_groups(
        &mut self,
        uid: UserId,
        messages: &[(GroupId, Mid)],
    ) -> Result<BTreeSet<(GroupId, Mid)>, StoreError> {
        if messages.is_empty() {
            return Ok(BTreeSet::new());
        }
        let table = self.table(Table::Hidden, TableNumber::of_user(uid))?;
        let keys: Vec<String> = messages
            .iter()
            .map(|(gid, mid)| format!("(peer = {gid} AND mid = {mid})"))
            .collect();
        let sql = include_str!("../../sql/read/hidden_in_groups.sql")
            .replace("{uid}", &uid.to_string())
            .replace("{keys}", &keys.join(" OR "));
        let key = |row: &MySqlRow| Ok((decode::number(row, "peer")?, decode::number(row, "mid")?));
        let hidden = self.fetch_once(&sql, &table, key).await?;
        Ok(hidden.into_iter().collect())
    }
}

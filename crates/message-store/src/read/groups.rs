//! Groups, their members, and a user's memberships.

use schemas::{GroupId, Partition, TableNumber, UserId};

use super::{ReadTx, decode};
use crate::{GroupMemberRow, GroupRow, Membership, StoreError, arguments::Arguments, names::Table};

impl ReadTx {
    fn group_table(&self, table: Table, gid: GroupId) -> Result<String, StoreError> {
        self.table(table, gid.partition())
    }

    /// These groups, all in this database; absent ones are not there (yet).
    ///
    /// # Errors
    /// As all reads; fatal where a group is in another database.
    pub async fn groups(&mut self, gids: &[GroupId]) -> Result<Vec<GroupRow>, StoreError> {
        let ids = gids.iter().map(|gid| (gid.partition().into(), gid.get()));
        let sql = |tx: &Self, number, gids: &str| {
            Ok(include_str!("../../sql/read/groups.sql")
                .replace("{table}", &tx.table(Table::Group, number)?)
                .replace("{gids}", gids))
        };
        let rows = self.fetch_of_tables(ids, sql).await?;
        rows.iter().map(decode::group).collect()
    }

    /// What a group has of a user.
    ///
    /// # Errors
    /// As all reads; fatal where the group is in another database.
    pub async fn group_member(
        &mut self,
        gid: GroupId,
        uid: UserId,
    ) -> Result<Option<GroupMemberRow>, StoreError> {
        let table = self.group_table(Table::GroupMember, gid)?;
        let arguments = Arguments::default().with(gid.get()).with(uid.get());
        let sql = include_str!("../../sql/read/group_member.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.first().map(decode::group_member).transpose()
    }

    /// Up to `limit` members of a group above `after`, by uid.
    ///
    /// # Errors
    /// As all reads; fatal where the group is in another database.
    pub async fn group_members(
        &mut self,
        gid: GroupId,
        after: Option<UserId>,
        limit: u32,
    ) -> Result<Vec<GroupMemberRow>, StoreError> {
        let table = self.group_table(Table::GroupMember, gid)?;
        let arguments = Arguments::default()
            .with(gid.get())
            .with(after.map_or(0, UserId::get))
            .with(limit);
        let sql = include_str!("../../sql/read/group_members.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(decode::group_member).collect()
    }

    /// Up to `limit` memberships of a user above the group `after`, by gid, also of groups that the user has left.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
    pub async fn memberships(
        &mut self,
        uid: UserId,
        after: Option<GroupId>,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        let table = self.table(Table::Membership, TableNumber::of_user(uid))?;
        let arguments = Arguments::default()
            .with(uid.get())
            .with(after.map_or(0, GroupId::get))
            .with(limit);
        let sql = include_str!("../../sql/read/memberships.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(decode::membership).collect()
    }

    /// Up to `limit` memberships of a user behind `after`, by partition and gid, also of groups that the user has left.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
    pub async fn memberships_by_partition(
        &mut self,
        uid: UserId,
        (partition, gid): (Partition, i64),
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        let table = self.table(Table::Membership, TableNumber::of_user(uid))?;
        let arguments = Arguments::default()
            .with(uid.get())
            .with(partition.get())
            .with(partition.get())
            .with(gid)
            .with(limit);
        let sql = include_str!("../../sql/read/memberships_by_partition.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(decode::membership).collect()
    }
}

impl ReadTx {
    /// The next `limit` rows of `group_<n>` behind the group `after`, ascending.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn scan_groups(
        &mut self,
        number: TableNumber,
        after: Option<GroupId>,
        limit: u32,
    ) -> Result<Vec<GroupRow>, StoreError> {
        let table = self.table(Table::Group, number)?;
        let sql = include_str!("../../sql/read/scan_groups.sql");
        let values = [
            ("after", after.map_or(0, GroupId::get)),
            ("limit", limit.into()),
        ];
        let rows = self.scan(sql, &table, &values).await?;
        rows.iter().map(decode::group).collect()
    }

    /// The next `limit` rows of `group_member_<n>` behind `after`, by group and user.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn scan_group_members(
        &mut self,
        number: TableNumber,
        after: Option<(GroupId, UserId)>,
        limit: u32,
    ) -> Result<Vec<GroupMemberRow>, StoreError> {
        let table = self.table(Table::GroupMember, number)?;
        let (gid, uid) = after.map_or((0, 0), |(gid, uid)| (gid.get(), uid.get()));
        let sql = include_str!("../../sql/read/scan_group_members.sql");
        let values = [("gid", gid), ("uid", uid), ("limit", limit.into())];
        let rows = self.scan(sql, &table, &values).await?;
        rows.iter().map(decode::group_member).collect()
    }

    /// The next `limit` rows of `membership_<n>` behind `after`, by user and group.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn scan_memberships(
        &mut self,
        number: TableNumber,
        after: Option<(UserId, GroupId)>,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        let table = self.table(Table::Membership, number)?;
        let (uid, gid) = after.map_or((0, 0), |(uid, gid)| (uid.get(), gid.get()));
        let sql = include_str!("../../sql/read/scan_memberships.sql");
        let values = [("uid", uid), ("gid", gid), ("limit", limit.into())];
        let rows = self.scan(sql, &table, &values).await?;
        rows.iter().map(decode::membership).collect()
    }
}

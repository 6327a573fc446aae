//! Groups, their members, and a user's memberships.

use schemas::{GroupId, Partition, TableNumber, UserId};

use super::{ReadTx, decode};
use crate::{GroupMemberRow, GroupRow, Membership, StoreError, arguments::Arguments, names::Table};

impl ReadTx {
    fn group_table(&self, table: Table, gid: GroupId) -> Result<String, StoreError> {
        self.table(table, gid.partition())
    }

    /// These groups, all in this database; a missing one does not exist (yet).
    pub async fn groups(&mut self, gids: &[GroupId]) -> Result<Vec<GroupRow>, StoreError> {
        let ids = gids.iter().map(|gid| (gid.partition().into(), gid.get()));
        let sql = |tx: &Self, number, gids: &str| {
            Ok(include_str!("../../sql/read/groups.sql")
                .replace("{columns}", decode::GROUP)
                .replace("{table}", &tx.table(Table::Group, number)?)
                .replace("{gids}", gids))
        };
        self.fetch_of_tables(ids, sql, decode::group).await
    }

    /// A group's row of a user.
    pub async fn group_member(
        &mut self,
        gid: GroupId,
        uid: UserId,
    ) -> Result<Option<GroupMemberRow>, StoreError> {
        let table = self.group_table(Table::GroupMember, gid)?;
        let arguments = Arguments::default().with(gid.get()).with(uid.get());
        let sql = include_str!("../../sql/read/group_member.sql")
            .replace("{columns}", decode::GROUP_MEMBER);
        let members = self.fetch(&sql, &table, arguments, decode::group_member);
        Ok(members.await?.pop())
    }

    /// Up to `limit` members of a group above `after`, by uid.
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
        let sql = include_str!("../../sql/read/group_members.sql")
            .replace("{columns}", decode::GROUP_MEMBER);
        self.fetch(&sql, &table, arguments, decode::group_member)
            .await
    }

    /// Up to `limit` memberships of a user above the group `after`, by gid, also of groups that the user has left.
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
        let sql =
            include_str!("../../sql/read/memberships.sql").replace("{columns}", decode::MEMBERSHIP);
        self.fetch(&sql, &table, arguments, decode::membership)
            .await
    }

    /// Up to `limit` memberships of a user after `after`, by partition and gid, also of groups that the user has left.
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
        let sql = include_str!("../../sql/read/memberships_by_partition.sql")
            .replace("{columns}", decode::MEMBERSHIP);
        self.fetch(&sql, &table, arguments, decode::membership)
            .await
    }
}

impl ReadTx {
    /// The next `limit` rows of `group_<n>` after the group `after`, ascending.
    pub async fn scan_groups(
        &mut self,
        number: TableNumber,
        after: Option<GroupId>,
        limit: u32,
    ) -> Result<Vec<GroupRow>, StoreError> {
        let sql =
            include_str!("../../sql/read/scan_groups.sql").replace("{columns}", decode::GROUP);
        let key = [("after", after.map_or(0, GroupId::get))];
        self.scan(&sql, (Table::Group, number), &key, limit, decode::group)
            .await
    }

    /// The next `limit` rows of `group_member_<n>` after `after`, by group and user.
    pub async fn scan_group_members(
        &mut self,
        number: TableNumber,
        after: Option<(GroupId, UserId)>,
        limit: u32,
    ) -> Result<Vec<GroupMemberRow>, StoreError> {
        let (gid, uid) = after.map_or((0, 0), |(gid, uid)| (gid.get(), uid.get()));
        let sql = include_str!("../../sql/read/scan_group_members.sql")
            .replace("{columns}", decode::GROUP_MEMBER);
        let (table, key) = ((Table::GroupMember, number), [("gid", gid), ("uid", uid)]);
        self.scan(&sql, table, &key, limit, decode::group_member)
            .await
    }

    /// The next `limit` rows of `membership_<n>` after `after`, by user and group.
    pub async fn scan_memberships(
        &mut self,
        number: TableNumber,
        after: Option<(UserId, GroupId)>,
        limit: u32,
    ) -> Result<Vec<Membership>, StoreError> {
        let (uid, gid) = after.map_or((0, 0), |(uid, gid)| (uid.get(), gid.get()));
        let sql = include_str!("../../sql/read/scan_memberships.sql")
            .replace("{columns}", decode::MEMBERSHIP);
        let (table, key) = ((Table::Membership, number), [("uid", uid), ("gid", gid)]);
        self.scan(&sql, table, &key, limit, decode::membership)
            .await
    }
}

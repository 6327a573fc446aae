//! Whole tables, piece by piece, in the order of their primary keys.

use std::fmt::Display;

use schemas::{ConversationId, GroupId, Mid, TableNumber, UserId};
use sqlx::{Row as _, mysql::MySqlRow};

use super::{ReadTx, decode};
use crate::{
    ContactRow, MessageRow, Sink, StoreError, StoredChange, StoredRead,
    conversation::{Kind, lo_and_hi},
    names::Table,
};

impl ReadTx {
    /// The next `limit` rows of `chat_msg_<n>` after the id `after` (−1 to begin), ascending.
    pub async fn scan_messages(
        &mut self,
        number: TableNumber,
        after: i64,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        self.scan_messages_of(Kind::Direct, number, after, limit)
            .await
    }

    /// As [`Self::scan_messages`], for `group_msg_<n>`.
    pub async fn scan_group_messages(
        &mut self,
        number: TableNumber,
        after: i64,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        self.scan_messages_of(Kind::Group, number, after, limit)
            .await
    }

    async fn scan_messages_of(
        &mut self,
        kind: Kind,
        number: TableNumber,
        after: i64,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let sql = kind.fill(include_str!("../../sql/read/scan_messages.sql"));
        let key = [("after", after)];
        self.scan(&sql, (kind.messages(), number), &key, limit, |row| {
            decode::message(kind, row)
        })
        .await
    }

    /// The next `limit` rows of `msg_change_<n>` after that of `after`, by conversation and [number](StoredChange::number).
    pub async fn scan_changes(
        &mut self,
        number: TableNumber,
        after: Option<(ConversationId, i64)>,
        limit: u32,
    ) -> Result<Vec<StoredChange>, StoreError> {
        let (lo, hi, change_seq) = after.map_or((0, 0, 0), |(conversation, change_seq)| {
            let (lo, hi) = lo_and_hi(conversation);
            (lo, hi, change_seq)
        });
        let sql = include_str!("../../sql/read/scan_changes.sql");
        let key = [("lo", lo), ("hi", hi), ("chg", change_seq)];
        self.scan(sql, (Table::MsgChange, number), &key, limit, decode::change)
            .await
    }

    /// The next `limit` rows of `hidden_<n>` after `after` that are of direct conversations: (uid, peer, mid), ascending.
    pub async fn scan_hidden(
        &mut self,
        number: TableNumber,
        after: Option<(UserId, UserId, Mid)>,
        limit: u32,
    ) -> Result<Vec<(UserId, UserId, Mid)>, StoreError> {
        let after = after.map(|(uid, peer, mid)| (uid.get(), peer.get(), mid.get()));
        self.scan_hidden_of(Kind::Direct, number, after, limit)
            .await
    }

    /// As [`Self::scan_hidden`], for groups: (uid, gid, mid).
    pub async fn scan_hidden_in_groups(
        &mut self,
        number: TableNumber,
        after: Option<(UserId, GroupId, Mid)>,
        limit: u32,
    ) -> Result<Vec<(UserId, GroupId, Mid)>, StoreError> {
        let after = after.map(|(uid, gid, mid)| (uid.get(), gid.get(), mid.get()));
        self.scan_hidden_of(Kind::Group, number, after, limit).await
    }

    async fn scan_hidden_of<P: TryFrom<i64, Error: Display>>(
        &mut self,
        kind: Kind,
        number: TableNumber,
        after: Option<(i64, i64, i64)>,
        limit: u32,
    ) -> Result<Vec<(UserId, P, Mid)>, StoreError> {
        let (uid, peer, mid) = after.unwrap_or_default();
        let sql = include_str!("../../sql/read/scan_hidden.sql");
        let kind = kind.to_column().into();
        let key = [("kind", kind), ("uid", uid), ("peer", peer), ("mid", mid)];
        let hidden = |row: &MySqlRow| {
            let (uid, peer) = (decode::number(row, "uid")?, decode::number(row, "peer")?);
            Ok((uid, peer, decode::number(row, "mid")?))
        };
        self.scan(sql, (Table::Hidden, number), &key, limit, hidden)
            .await
    }

    /// The next `limit` rows of `hidden_<n>` after `after`, of users and groups: the primary key, and whether the user has cleared the message.
    pub(crate) async fn scan_cleared(
        &mut self,
        number: TableNumber,
        after: Option<[i64; 4]>,
        limit: u32,
    ) -> Result<Vec<([i64; 4], bool)>, StoreError> {
        let sql = include_str!("../../sql/read/scan_cleared.sql")
            .replace("{contacts}", &self.table(Table::Contact, number)?)
            .replace("{memberships}", &self.table(Table::Membership, number)?);
        let [uid, kind, peer, mid] = after.unwrap_or_default();
        let key = [("uid", uid), ("kind", kind), ("peer", peer), ("mid", mid)];
        let cleared = |row: &MySqlRow| {
            let key = [
                row.try_get("uid")?,
                row.try_get("kind")?,
                row.try_get("peer")?,
                row.try_get("mid")?,
            ];
            Ok((key, row.try_get::<i64, _>("is_cleared")? != 0))
        };
        self.scan(&sql, (Table::Hidden, number), &key, limit, cleared)
            .await
    }

    /// The next `limit` rows of `read_chat_mid_<n>` after the id `after` (0 to begin), ascending.
    pub async fn scan_reads(
        &mut self,
        number: TableNumber,
        after: i64,
        limit: u32,
    ) -> Result<Vec<StoredRead>, StoreError> {
        let sql = include_str!("../../sql/read/scan_reads.sql");
        let (table, key) = ((Table::ReadChatMid, number), [("after", after)]);
        self.scan(sql, table, &key, limit, decode::stored_read)
            .await
    }

    /// The next `limit` rows of `contact_<n>` after that of `(uid, peer)`, ascending.
    pub async fn scan_contacts(
        &mut self,
        number: TableNumber,
        after: Option<(UserId, UserId)>,
        limit: u32,
    ) -> Result<Vec<ContactRow>, StoreError> {
        let (uid, peer) = after.map_or((0, 0), |(uid, peer)| (uid.get(), peer.get()));
        let sql =
            include_str!("../../sql/read/scan_contacts.sql").replace("{columns}", decode::CONTACT);
        let key = [("uid", uid), ("peer", peer)];
        self.scan(&sql, (Table::Contact, number), &key, limit, decode::contact)
            .await
    }

    /// How many rows have a value that no projection writes, in a column that no other read returns: a `hashvalue` that is not the table's number; a
    /// `kind` that is not a user's (or, of a hidden message, a group's); of a contact, a `del_flag` that does not follow from its mids, or no `pos`
    /// although the database was created with that column. Reads the whole table.
    pub async fn count_misfits(
        &mut self,
        sink: Sink,
        number: TableNumber,
    ) -> Result<i64, StoreError> {
        let own = number.to_string();
        let is_deleted = "(deleted_mid > 0 AND deleted_mid >= last_mid)";
        let made_without_pos = include_str!("../../sql/read/made_without_pos.sql")
            .replace("{database}", &self.names.database(self.shard));
        let checked: &[_] = match sink {
            Sink::Messages => &[(Table::ChatMsg, "hashvalue", own.as_str())],
            Sink::Reads => &[(Table::ReadChatMid, "hashvalue", own.as_str())],
            Sink::Contacts => &[
                (Table::Contact, "kind", "0"),
                (Table::Contact, "del_flag", is_deleted),
                (Table::Contact, "(pos < 0)", made_without_pos.as_str()),
                (Table::Hidden, "kind & ~1", "0"),
            ],
        };
        let mut misfits = 0;
        for (table, column, right) in checked {
            let table = self.table(*table, number)?;
            let sql = include_str!("../../sql/read/count_misfits.sql")
                .replace("{column}", column)
                .replace("{right}", right);
            let count = |row: &MySqlRow| Ok(row.try_get::<i64, _>("misfits")?);
            let counts = self.fetch_once(&sql, &table, count).await?;
            misfits += counts.iter().sum::<i64>();
        }
        Ok(misfits)
    }

    /// The next `limit` rows of a table after the one with this key. The statement contains the numbers and is not prepared: a scan has many
    /// statements, which would push those of other reads out of the connection's cache. Closing a statement costs 40 ms, since sqlx does not set
    /// TCP_NODELAY.
    pub(super) async fn scan<T>(
        &mut self,
        sql: &str,
        (table, number): (Table, TableNumber),
        key: &[(&str, i64)],
        limit: u32,
        decode: impl Fn(&MySqlRow) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let table = self.table(table, number)?;
        let mut sql = sql.replace("{limit}", &limit.to_string());
        for (name, value) in key {
            sql = sql.replace(&format!("{{{name}}}"), &value.to_string());
        }
        self.fetch_once(&sql, &table, decode).await
    }
}

//! Whole tables, piece by piece, in the order of their primary keys.

use schemas::{ConversationId, GroupId, Mid, TableNumber, UserId};
use sqlx::{Row as _, mysql::MySqlRow};

use super::{ReadTx, decode};
use crate::{
    ContactRow, MessageRow, Sink, StoreError, StoredChange, StoredRead,
    conversation::{Kind, lo_and_hi},
    names::Table,
};

impl ReadTx {
    /// The next `limit` rows of `chat_msg_<n>` behind the id `after` (−1 to begin), ascending.
    ///
    /// # Errors
    /// As all reads; fatal where the table is in another database or a row holds what the log cannot have said.
    pub async fn scan_messages(
        &mut self,
        number: TableNumber,
        after: i64,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        self.scan_messages_of(Kind::Direct, number, after, limit)
            .await
    }

    /// The same of `group_msg_<n>`.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
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
        let table = self.table(kind.messages(), number)?;
        let sql = include_str!("../../sql/read/scan_messages.sql");
        let sql = sql.replace("{columns}", kind.columns());
        let values = [("after", after), ("limit", limit.into())];
        let rows = self.scan(&sql, &table, &values).await?;
        rows.iter().map(|row| decode::message(kind, row)).collect()
    }

    /// The next `limit` rows of `msg_change_<n>` behind that of `after`, by conversation and [number](StoredChange::number).
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn scan_changes(
        &mut self,
        number: TableNumber,
        after: Option<(ConversationId, i64)>,
        limit: u32,
    ) -> Result<Vec<StoredChange>, StoreError> {
        let table = self.table(Table::MsgChange, number)?;
        let (lo, hi, chg) = after.map_or((0, 0, 0), |(conversation, chg)| {
            let (lo, hi) = lo_and_hi(conversation);
            (lo, hi, chg)
        });
        let sql = include_str!("../../sql/read/scan_changes.sql");
        let values = [
            ("lo", lo),
            ("hi", hi),
            ("chg", chg),
            ("limit", limit.into()),
        ];
        let rows = self.scan(sql, &table, &values).await?;
        rows.iter().map(decode::change).collect()
    }

    /// The next `limit` rows of `hidden_<n>` behind `after` that are of direct conversations: (uid, peer, mid), ascending.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn scan_hidden(
        &mut self,
        number: TableNumber,
        after: Option<(UserId, UserId, Mid)>,
        limit: u32,
    ) -> Result<Vec<(UserId, UserId, Mid)>, StoreError> {
        let after = after.map(|(uid, peer, mid)| (uid.get(), peer.get(), mid.get()));
        let rows = self
            .scan_hidden_of(Kind::Direct, number, after, limit)
            .await?;
        rows.iter()
            .map(|row| {
                Ok((
                    decode::uid(row, "uid")?,
                    decode::uid(row, "peer")?,
                    decode::mid(row, "mid")?,
                ))
            })
            .collect()
    }

    /// The same of those in groups: (uid, gid, mid).
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn scan_hidden_in_groups(
        &mut self,
        number: TableNumber,
        after: Option<(UserId, GroupId, Mid)>,
        limit: u32,
    ) -> Result<Vec<(UserId, GroupId, Mid)>, StoreError> {
        let after = after.map(|(uid, gid, mid)| (uid.get(), gid.get(), mid.get()));
        let rows = self
            .scan_hidden_of(Kind::Group, number, after, limit)
            .await?;
        rows.iter()
            .map(|row| {
                Ok((
                    decode::uid(row, "uid")?,
                    decode::gid(row, "peer")?,
                    decode::mid(row, "mid")?,
                ))
            })
            .collect()
    }

    async fn scan_hidden_of(
        &mut self,
        kind: Kind,
        number: TableNumber,
        after: Option<(i64, i64, i64)>,
        limit: u32,
    ) -> Result<Vec<MySqlRow>, StoreError> {
        let table = self.table(Table::Hidden, number)?;
        let (uid, peer, mid) = after.unwrap_or_default();
        let sql = include_str!("../../sql/read/scan_hidden.sql");
        let values = [
            ("kind", kind.to_column().into()),
            ("uid", uid),
            ("peer", peer),
            ("mid", mid),
            ("limit", limit.into()),
        ];
        self.scan(sql, &table, &values).await
    }

    /// The next `limit` rows of `hidden_<n>` behind `after`, of users and groups: the primary key, and whether the user has cleared the message.
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
        let values = [
            ("uid", uid),
            ("kind", kind),
            ("peer", peer),
            ("mid", mid),
            ("limit", limit.into()),
        ];
        let table = self.table(Table::Hidden, number)?;
        let rows = self.scan(&sql, &table, &values).await?;
        rows.iter()
            .map(|row| {
                let key = [
                    row.try_get("uid")?,
                    row.try_get("kind")?,
                    row.try_get("peer")?,
                    row.try_get("mid")?,
                ];
                Ok((key, row.try_get::<i64, _>("is_cleared")? != 0))
            })
            .collect()
    }

    /// The next `limit` rows of `read_chat_mid_<n>` behind the id `after` (0 to begin), ascending.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn scan_reads(
        &mut self,
        number: TableNumber,
        after: i64,
        limit: u32,
    ) -> Result<Vec<StoredRead>, StoreError> {
        let table = self.table(Table::ReadChatMid, number)?;
        let sql = include_str!("../../sql/read/scan_reads.sql");
        let values = [("after", after), ("limit", limit.into())];
        let rows = self.scan(sql, &table, &values).await?;
        rows.iter().map(decode::stored_read).collect()
    }

    /// The next `limit` rows of `contact_<n>` behind the one of `(uid, peer)`, ascending.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn scan_contacts(
        &mut self,
        number: TableNumber,
        after: Option<(UserId, UserId)>,
        limit: u32,
    ) -> Result<Vec<ContactRow>, StoreError> {
        let table = self.table(Table::Contact, number)?;
        let (uid, peer) = after.map_or((0, 0), |(uid, peer)| (uid.get(), peer.get()));
        let sql = include_str!("../../sql/read/scan_contacts.sql");
        let values = [("uid", uid), ("peer", peer), ("limit", limit.into())];
        let rows = self.scan(sql, &table, &values).await?;
        rows.iter().map(decode::contact).collect()
    }

    /// How many rows have a value that no projection writes in a column that no other read returns: a `hashvalue` that is not the table's
    /// number, a `kind` that is no user's or, of a hidden message, group's, or of a contact a `del_flag` that does not follow from its mids, or no
    /// `pos` although the database was made with that column. It reads the whole table.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
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
            let rows = self.fetch_once(&sql, &table).await?;
            let count = rows.first().map(|row| row.try_get("misfits")).transpose()?;
            misfits += count.unwrap_or(0_i64);
        }
        Ok(misfits)
    }

    /// A statement with these numbers in it, unprepared: the statements of a scan are many, and would push those of other reads out of the
    /// connection's cache. To close one costs 40 ms, since sqlx sets no TCP_NODELAY.
    pub(super) async fn scan(
        &mut self,
        sql: &str,
        table: &str,
        values: &[(&str, i64)],
    ) -> Result<Vec<MySqlRow>, StoreError> {
        let mut sql = sql.to_owned();
        for (name, value) in values {
            sql = sql.replace(&format!("{{{name}}}"), &value.to_string());
        }
        self.fetch_once(&sql, table).await
    }
}

//! Whole tables, piece by piece, in the order of their primary keys.

use schemas::{TableNumber, UserId};
use sqlx::Row as _;

use super::{ReadTx, decode};
use crate::{
    ContactRow, MessageRow, Sink, StoreError, StoredRead, arguments::Arguments, names::Table,
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
        let table = self.table(Table::ChatMsg, number)?;
        let arguments = Arguments::default().with(after).with(limit);
        let sql = include_str!("../../sql/read/scan_messages.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(decode::message).collect()
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
        let arguments = Arguments::default().with(after).with(limit);
        let sql = include_str!("../../sql/read/scan_reads.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
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
        let arguments = Arguments::default()
            .with(uid)
            .with(peer)
            .with(uid)
            .with(limit);
        let sql = include_str!("../../sql/read/scan_contacts.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(decode::contact).collect()
    }

    /// How many rows have a value that no projection writes in a column that no other read returns: a `hashvalue` that is not the table's
    /// number, or a contact's `kind` that is not a user's. It reads the whole table.
    ///
    /// # Errors
    /// As [`scan_messages`](Self::scan_messages).
    pub async fn count_misfits(
        &mut self,
        sink: Sink,
        number: TableNumber,
    ) -> Result<i64, StoreError> {
        let table = self.table(Table::of(sink), number)?;
        let (column, right) = match sink {
            Sink::Messages | Sink::Reads => ("hashvalue", i64::from(number.get())),
            Sink::Contacts => ("kind", 0),
        };
        let sql = include_str!("../../sql/read/count_misfits.sql").replace("{column}", column);
        let rows = self
            .fetch(&sql, &table, Arguments::default().with(right))
            .await?;
        let count = rows.first().map(|row| row.try_get("misfits")).transpose()?;
        Ok(count.unwrap_or_default())
    }
}

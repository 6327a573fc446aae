//! Whole tables, piece by piece, in the order of their primary keys.

use schemas::{TableNumber, UserId};

use super::{ReadTx, decode};
use crate::{ContactRow, MessageRow, StoreError, StoredRead, arguments::Arguments, names::Table};

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
            .with(uid)
            .with(peer)
            .with(limit);
        let sql = include_str!("../../sql/read/scan_contacts.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(decode::contact).collect()
    }
}

use std::collections::BTreeMap;

use schemas::{TableNumber, TimestampMs, UserId};

use super::{ReadTx, decode};
use crate::{ContactCursor, ContactRow, StoreError, arguments::Arguments, datetime, names::Table};

/// The last millisecond that a DATETIME has.
const END_OF_TIME: TimestampMs = TimestampMs(253_402_300_799_999);

impl ReadTx {
    /// One contact.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
    pub async fn contact(
        &mut self,
        uid: UserId,
        peer: UserId,
    ) -> Result<Option<ContactRow>, StoreError> {
        let table = self.contact_table(uid)?;
        let arguments = Arguments::default().with(uid.get()).with(peer.get());
        let sql = include_str!("../../sql/read/contact.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.first().map(decode::contact).transpose()
    }

    /// All contacts of these users, whose tables are all in this database, by uid and peer. Deleted ones too.
    ///
    /// # Errors
    /// As all reads; fatal where a user's tables are in another database.
    pub async fn contacts_of(&mut self, uids: &[UserId]) -> Result<Vec<ContactRow>, StoreError> {
        let mut by_table: BTreeMap<TableNumber, Vec<String>> = BTreeMap::new();
        for uid in uids {
            by_table
                .entry(TableNumber::of_user(*uid))
                .or_default()
                .push(uid.to_string());
        }
        let mut contacts = Vec::new();
        for (number, uids) in by_table {
            let table = self.table(Table::Contact, number)?;
            let sql = include_str!("../../sql/read/contacts_of.sql");
            let sql = sql.replace("{uids}", &uids.join(", "));
            for row in self.fetch_once(&sql, &table).await? {
                contacts.push(decode::contact(&row)?);
            }
        }
        contacts.sort_by_key(|row| (row.contact.uid, row.contact.peer));
        Ok(contacts)
    }

    /// Up to `limit` contacts of a user behind `after`, or from the top: the newest message first, then the largest peer.
    /// Deleted ones too.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
    pub async fn contact_page(
        &mut self,
        uid: UserId,
        after: Option<ContactCursor>,
        limit: u32,
    ) -> Result<Vec<ContactRow>, StoreError> {
        let table = self.contact_table(uid)?;
        let (last_ts, peer) = match after {
            Some(cursor) => (cursor.last_ts, cursor.peer.get()),
            None => (END_OF_TIME, i64::MAX),
        };
        let last_ts = datetime::to_column(last_ts)?;
        let arguments = Arguments::default()
            .with(uid.get())
            .with(last_ts)
            .with(last_ts)
            .with(peer)
            .with(limit);
        let sql = include_str!("../../sql/read/contact_page.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(decode::contact).collect()
    }
}

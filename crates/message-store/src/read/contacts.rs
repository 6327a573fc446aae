use std::collections::BTreeMap;

use schemas::{Partition, TableNumber, TimestampMs, UserId};

use super::{ReadTx, decode};
use crate::{ContactCursor, ContactRow, StoreError, arguments::Arguments, datetime, names::Table};

/// The last millisecond that a DATETIME has.
const END_OF_TIME: TimestampMs = TimestampMs(253_402_300_799_999);

impl ReadTx {
    /// One contact.
    pub async fn contact(
        &mut self,
        uid: UserId,
        peer: UserId,
    ) -> Result<Option<ContactRow>, StoreError> {
        let table = self.contact_table(uid)?;
        let arguments = Arguments::default().with(uid.get()).with(peer.get());
        let sql = include_str!("../../sql/read/contact.sql").replace("{columns}", decode::CONTACT);
        let contacts = self.fetch(&sql, &table, arguments, decode::contact);
        Ok(contacts.await?.pop())
    }

    /// The existing contacts of these pairs of user and peer, in no order.
    pub async fn contacts(
        &mut self,
        pairs: &[(UserId, UserId)],
    ) -> Result<Vec<ContactRow>, StoreError> {
        let mut by_table: BTreeMap<TableNumber, Vec<String>> = BTreeMap::new();
        for (uid, peer) in pairs {
            let pair = format!("(uid = {} AND peer = {})", uid.get(), peer.get());
            let number = TableNumber::of_user(*uid);
            by_table.entry(number).or_default().push(pair);
        }
        let sql = |tx: &Self, (number, pairs): (TableNumber, Vec<String>)| {
            Ok(include_str!("../../sql/read/contacts.sql")
                .replace("{columns}", decode::CONTACT)
                .replace("{table}", &tx.table(Table::Contact, number)?)
                .replace("{pairs}", &pairs.join(" OR ")))
        };
        let rows = self.fetch_of_each(by_table.into_iter(), sql).await?;
        rows.iter().map(decode::contact).collect()
    }

    /// The next `limit` contacts of these users of one table after that of `(uid, peer)`, by uid and peer, with deleted ones.
    pub async fn contacts_of(
        &mut self,
        number: TableNumber,
        uids: &[UserId],
        after: Option<(UserId, UserId)>,
        limit: usize,
    ) -> Result<Vec<ContactRow>, StoreError> {
        let table = self.table(Table::Contact, number)?;
        let (uid, peer) = after.map_or((0, 0), |(uid, peer)| (uid.get(), peer.get()));
        let behind = uids.iter().map(|uid| uid.get()).filter(|next| *next > uid);
        // 0 is not a uid; it keeps the list from being empty.
        let behind: Vec<String> = std::iter::once(0)
            .chain(behind)
            .map(|uid| uid.to_string())
            .collect();
        let sql = include_str!("../../sql/read/contacts_of.sql")
            .replace("{columns}", decode::CONTACT)
            .replace("{uids}", &behind.join(", "))
            .replace("{uid}", &uid.to_string())
            .replace("{peer}", &peer.to_string())
            .replace("{limit}", &limit.to_string());
        self.fetch_once(&sql, &table, decode::contact).await
    }

    /// Up to `limit` contacts of a user after `after` (a partition and a peer), ordered by the conversation's partition and the peer, whose `pos` is
    /// at least `since` of that partition; with deleted ones.
    pub async fn contacts_since(
        &mut self,
        uid: UserId,
        since: impl Fn(Partition) -> i64,
        (partition, peer): (Partition, i64),
        limit: u32,
    ) -> Result<Vec<ContactRow>, StoreError> {
        let table = self.contact_table(uid)?;
        let hidden = self.table(Table::Hidden, TableNumber::of_user(uid))?;
        let since: Vec<String> = Partition::all().map(|p| since(p).to_string()).collect();
        let sql = include_str!("../../sql/read/contacts_since.sql")
            .replace("{columns}", decode::CONTACT)
            .replace("{hidden}", &hidden)
            .replace("{uid}", &uid.to_string())
            .replace("{partition}", &partition.to_string())
            .replace("{peer}", &peer.to_string())
            .replace("{since}", &since.join(", "))
            .replace("{limit}", &limit.to_string());
        self.fetch_once(&sql, &table, decode::listed_contact).await
    }

    /// Up to `limit` contacts of a user after `after`, or from the top: pinned ones first, then the newest message, then the largest peer. Includes
    /// those that are deleted or have no message ([`ContactRow::is_listed`]).
    pub async fn contact_page(
        &mut self,
        uid: UserId,
        after: Option<ContactCursor>,
        limit: u32,
    ) -> Result<Vec<ContactRow>, StoreError> {
        let table = self.contact_table(uid)?;
        let (pinned, last_ts, peer) = match after {
            Some(cursor) => (cursor.pinned, cursor.last_ts, cursor.peer.get()),
            None => (true, END_OF_TIME, i64::MAX),
        };
        let last_ts = datetime::to_column(last_ts)?;
        let arguments = Arguments::default()
            .with(uid.get())
            .with(pinned)
            .with(last_ts)
            .with(peer)
            .with(pinned)
            .with(last_ts)
            .with(pinned)
            .with(limit);
        let hidden = self.table(Table::Hidden, TableNumber::of_user(uid))?;
        let sql = include_str!("../../sql/read/contact_page.sql")
            .replace("{columns}", decode::CONTACT)
            .replace("{hidden}", &hidden);
        self.fetch(&sql, &table, arguments, decode::listed_contact)
            .await
    }
}

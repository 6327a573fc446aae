use std::{collections::BTreeSet, ops::RangeInclusive};

use schemas::{Chg, DirectConversation, Mid, TableNumber, UserId};

use super::{ReadTx, decode};
use crate::{StoreError, StoredChange, arguments::Arguments, names::Table};

impl ReadTx {
    /// Up to `limit` changes of a conversation above `after`, in order, whoever made them; with `of_user` without what the other user hides
    /// and clears. Those that are older than the retention of messages may be gone.
    ///
    /// # Errors
    /// As all reads; fatal where the conversation is in another database.
    pub async fn changes_after(
        &mut self,
        conversation: DirectConversation,
        of_user: Option<UserId>,
        after: Chg,
        limit: u32,
    ) -> Result<Vec<StoredChange>, StoreError> {
        let table = self.table(Table::MsgChange, conversation.partition())?;
        let messages = self.table(Table::ChatMsg, conversation.partition())?;
        let arguments = Arguments::default()
            .with(conversation.lo().get())
            .with(conversation.hi().get())
            .with(after.get())
            .with(of_user.map(UserId::get))
            .with(limit);
        let sql = include_str!("../../sql/read/changes_after.sql").replace("{messages}", &messages);
        let rows = self.fetch(&sql, &table, arguments).await?;
        rows.iter().map(decode::change).collect()
    }

    /// Those of the messages `mids` in the conversation with `peer` that `uid` has hidden.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
    pub async fn hidden(
        &mut self,
        uid: UserId,
        peer: UserId,
        mids: RangeInclusive<Mid>,
    ) -> Result<BTreeSet<Mid>, StoreError> {
        let table = self.table(Table::Hidden, TableNumber::of_user(uid))?;
        let arguments = Arguments::default()
            .with(uid.get())
            .with(peer.get())
            .with(mids.start().get())
            .with(mids.end().get());
        let sql = include_str!("../../sql/read/hidden.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(|row| decode::mid(row, "mid")).collect()
    }
}

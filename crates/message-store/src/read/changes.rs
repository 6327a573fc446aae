use std::{collections::BTreeSet, ops::RangeInclusive};

use schemas::{Chg, ConversationId, Mid, TableNumber, UserId};

use super::{ReadTx, decode};
use crate::{
    StoreError, StoredChange,
    arguments::Arguments,
    conversation::{Kind, lo_and_hi, peer_number},
    names::Table,
};

impl ReadTx {
    /// Up to `limit` changes of a conversation above `after`, in order, whoever made them; with `of_user` without what others hide and clear.
    /// Those that are older than the retention of messages may be gone.
    ///
    /// # Errors
    /// As all reads; fatal where the conversation is in another database.
    pub async fn changes_after(
        &mut self,
        conversation: impl Into<ConversationId>,
        of_user: Option<UserId>,
        after: Chg,
        limit: u32,
    ) -> Result<Vec<StoredChange>, StoreError> {
        let conversation = conversation.into();
        let (kind, (lo, hi)) = (Kind::of(conversation), lo_and_hi(conversation));
        let table = self.table(Table::MsgChange, conversation.partition())?;
        let messages = self.table(kind.messages(), conversation.partition())?;
        let arguments = Arguments::default()
            .with(lo)
            .with(hi)
            .with(after.get())
            .with(of_user.map(UserId::get))
            .with(limit);
        let sql = include_str!("../../sql/read/changes_after.sql")
            .replace("{messages}", &messages)
            .replace("{is_of_editor}", kind.is_of_editor());
        let rows = self.fetch(&sql, &table, arguments).await?;
        rows.iter().map(decode::change).collect()
    }

    /// Those of the messages `mids` of a conversation that `uid` has hidden.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
    pub async fn hidden(
        &mut self,
        uid: UserId,
        conversation: impl Into<ConversationId>,
        mids: RangeInclusive<Mid>,
    ) -> Result<BTreeSet<Mid>, StoreError> {
        let conversation = conversation.into();
        let table = self.table(Table::Hidden, TableNumber::of_user(uid))?;
        let arguments = Arguments::default()
            .with(uid.get())
            .with(Kind::of(conversation).to_column())
            .with(peer_number(conversation, uid))
            .with(mids.start().get())
            .with(mids.end().get());
        let sql = include_str!("../../sql/read/hidden.sql");
        let rows = self.fetch(sql, &table, arguments).await?;
        rows.iter().map(|row| decode::mid(row, "mid")).collect()
    }
}

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
        let of_conversation = |arguments: Arguments| arguments.with(lo).with(hi);
        let (sql, arguments) = match of_user {
            None => {
                let arguments = of_conversation(Arguments::default())
                    .with(after.get())
                    .with(limit);
                (include_str!("../../sql/read/changes_after.sql"), arguments)
            }
            Some(uid) => {
                let of_all = of_conversation(Arguments::default())
                    .with(after.get())
                    .with(limit);
                let own = of_conversation(of_all)
                    .with(uid.get())
                    .with(after.get())
                    .with(limit);
                (
                    include_str!("../../sql/read/changes_seen_by.sql"),
                    own.with(limit),
                )
            }
        };
        let sql = sql
            .replace("{messages}", &messages)
            .replace("{is_of_editor}", kind.is_of_editor());
        let rows = self.fetch(&sql, &table, arguments).await?;
        rows.iter().map(decode::change).collect()
    }

    /// Those of these messages of a conversation that `uid` has hidden. However many there are in all, as many as `mids` are looked at.
    ///
    /// # Errors
    /// As all reads; fatal where the user's tables are in another database.
    pub async fn hidden_among(
        &mut self,
        uid: UserId,
        conversation: impl Into<ConversationId>,
        mids: &BTreeSet<Mid>,
    ) -> Result<BTreeSet<Mid>, StoreError> {
        if mids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let conversation = conversation.into();
        let table = self.table(Table::Hidden, TableNumber::of_user(uid))?;
        let mids: Vec<String> = mids.iter().map(ToString::to_string).collect();
        let sql = include_str!("../../sql/read/hidden_among.sql")
            .replace("{uid}", &uid.to_string())
            .replace("{kind}", &Kind::of(conversation).to_column().to_string())
            .replace("{peer}", &peer_number(conversation, uid).to_string())
            .replace("{mids}", &mids.join(", "));
        let rows = self.fetch_once(&sql, &table).await?;
        rows.iter().map(|row| decode::mid(row, "mid")).collect()
    }

    /// Those of the messages `mids` of a conversation, a range, that `uid` has hidden.
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

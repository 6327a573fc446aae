use std::{collections::BTreeSet, ops::RangeInclusive};

use schemas::{ChangeSeq, ConversationId, Mid, TableNumber, UserId};

use super::{ReadTx, decode};
use crate::{
    StoreError, StoredChange,
    arguments::Arguments,
    conversation::{Kind, lo_and_hi, peer_number},
    names::Table,
};

impl ReadTx {
    /// Up to `limit` changes of a conversation above `after`, in order, except hides and clears by other users, and changes without a number. Changes
    /// that are older than the retention of messages may be gone.
    pub async fn changes_after(
        &mut self,
        conversation: impl Into<ConversationId>,
        uid: UserId,
        after: ChangeSeq,
        limit: u32,
    ) -> Result<Vec<StoredChange>, StoreError> {
        let conversation = conversation.into();
        let (kind, (lo, hi)) = (Kind::of(conversation), lo_and_hi(conversation));
        let table = self.table(Table::MsgChange, conversation.partition())?;
        let messages = self.table(kind.messages(), conversation.partition())?;
        let of_all = Arguments::default().with(lo).with(hi).with(after.get());
        let own = of_all.with(limit).with(lo).with(hi).with(uid.get());
        let arguments = own.with(after.get()).with(limit).with(limit);
        let sql = kind.fill(include_str!("../../sql/read/changes_seen_by.sql"));
        let sql = sql.replace("{messages}", &messages);
        self.fetch(&sql, &table, arguments, decode::change).await
    }

    /// The hides and clears of `uid` in a conversation, up to `limit`: first those with a number above `chg` (none of these if it is `None`), then
    /// those without a number after the event at `pos`, in order.
    pub async fn own_changes_after(
        &mut self,
        conversation: impl Into<ConversationId>,
        uid: UserId,
        (change_seq, event_offset): (Option<ChangeSeq>, i64),
        limit: u32,
    ) -> Result<Vec<StoredChange>, StoreError> {
        let conversation = conversation.into();
        let (lo, hi) = lo_and_hi(conversation);
        let table = self.table(Table::MsgChange, conversation.partition())?;
        let own = Arguments::default().with(lo).with(hi).with(uid.get());
        let change_seq = change_seq.map_or(i64::MAX, ChangeSeq::get);
        let arguments = own.with(change_seq).with(-event_offset).with(limit);
        let sql = include_str!("../../sql/read/own_changes_after.sql");
        self.fetch(sql, &table, arguments, decode::change).await
    }

    /// Up to `limit` changes of a conversation by all users, with a [number](StoredChange::number) above `number`, in that order.
    pub async fn changes_of_all(
        &mut self,
        conversation: impl Into<ConversationId>,
        number: i64,
        limit: u32,
    ) -> Result<Vec<StoredChange>, StoreError> {
        let conversation = conversation.into();
        let (lo, hi) = lo_and_hi(conversation);
        let table = self.table(Table::MsgChange, conversation.partition())?;
        let arguments = Arguments::default().with(lo).with(hi).with(number);
        let sql = include_str!("../../sql/read/changes_of_all.sql");
        self.fetch(sql, &table, arguments.with(limit), decode::change)
            .await
    }

    /// The messages among these of a conversation that `uid` has hidden. Looks at no more rows than there are `mids`.
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
        let mids = self.fetch_once(&sql, &table, |row| decode::number(row, "mid"));
        Ok(mids.await?.into_iter().collect())
    }

    /// The messages of a conversation in the range `mids` that `uid` has hidden.
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
        let mids = self.fetch(sql, &table, arguments, |row| decode::number(row, "mid"));
        Ok(mids.await?.into_iter().collect())
    }
}

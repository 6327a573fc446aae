use std::collections::BTreeMap;

use schemas::{
    ClientMsgId, ConversationId, DirectConversation, Mid, Ordinal, TableNumber, TimestampMs, UserId,
};

use super::{ReadTx, decode};
use crate::{
    MessageRow, StoreError,
    arguments::Arguments,
    conversation::{Kind, message_keys},
    datetime,
    names::Table,
};

/// The most messages that [`ReadTx::unread_messages`] returns, as for older clients.
pub const UNREAD_LIMIT: usize = 200;

impl ReadTx {
    /// The query of older clients: the conversation's messages above `read_mid`, both directions, at most one month old, at most [`UNREAD_LIMIT`],
    /// the newest first.
    pub async fn unread_messages(
        &mut self,
        conversation: DirectConversation,
        read_mid: Mid,
        now: TimestampMs,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let since = datetime::a_month_before(datetime::to_column(now)?);
        let limit = UNREAD_LIMIT as u64;
        let bounds = |arguments: Arguments| arguments.with(read_mid.get()).with(since).with(limit);
        let arguments = both_directions(conversation, bounds).with(limit);
        let sql = include_str!("../../sql/read/unread_messages.sql");
        self.messages(sql, conversation.into(), arguments).await
    }

    /// Up to `limit` messages below `before`, or the newest of all, and above `floor`, the newest first.
    pub async fn page_before(
        &mut self,
        conversation: impl Into<ConversationId>,
        before: Option<Mid>,
        floor: Mid,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let below = before.map_or(i64::MAX, Mid::get);
        let bounds = |arguments: Arguments| arguments.with(below).with(floor.get()).with(limit);
        let conversation = conversation.into();
        let (sql, arguments) = match conversation {
            ConversationId::Direct(direct) => (
                include_str!("../../sql/read/page_before.sql"),
                both_directions(direct, bounds).with(limit),
            ),
            ConversationId::Group(gid) => (
                include_str!("../../sql/read/group_page_before.sql"),
                bounds(Arguments::default().with(gid.get())),
            ),
        };
        self.messages(sql, conversation, arguments).await
    }

    /// Up to `limit` messages above `after`, the oldest first.
    pub async fn page_after(
        &mut self,
        conversation: impl Into<ConversationId>,
        after: Mid,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let bounds = |arguments: Arguments| arguments.with(after.get()).with(limit);
        let conversation = conversation.into();
        let (sql, arguments) = match conversation {
            ConversationId::Direct(direct) => (
                include_str!("../../sql/read/page_after.sql"),
                both_directions(direct, bounds).with(limit),
            ),
            ConversationId::Group(gid) => (
                include_str!("../../sql/read/group_page_after.sql"),
                bounds(Arguments::default().with(gid.get())),
            ),
        };
        self.messages(sql, conversation, arguments).await
    }

    /// These messages, all of conversations in this database; missing ones are gone or not there yet.
    pub async fn messages_by_mid(
        &mut self,
        keys: &[(ConversationId, Mid)],
    ) -> Result<BTreeMap<(ConversationId, Mid), MessageRow>, StoreError> {
        let mut by_table: BTreeMap<(TableNumber, Kind), Vec<String>> = BTreeMap::new();
        for (conversation, mid) in keys {
            let table = (conversation.partition().into(), Kind::of(*conversation));
            let of_table = by_table.entry(table).or_default();
            of_table.extend(message_keys(*conversation, *mid));
        }
        let mut found = BTreeMap::new();
        for ((number, kind), keys) in by_table {
            let table = self.table(kind.messages(), number)?;
            let sql = kind
                .fill(include_str!("../../sql/read/messages_by_mid.sql"))
                .replace("{keys}", &keys.join(" OR "));
            let rows = self.fetch_once(&sql, &table, |row| decode::message(kind, row));
            let rows = rows.await?.into_iter();
            found.extend(rows.map(|row| ((row.conversation(), row.mid), row)));
        }
        Ok(found)
    }

    /// The messages that `sender` sent with this id, among the sender's newest 1,000 messages, the oldest first: more than one if the id was used
    /// again after the dedup window.
    pub async fn find_by_client_msg_id(
        &mut self,
        conversation: DirectConversation,
        sender: UserId,
        client_msg_id: &ClientMsgId,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let arguments = Arguments::default()
            .with(sender.get())
            .with(conversation.peer_of(sender).get())
            .with(client_msg_id.as_str());
        let sql = include_str!("../../sql/read/messages_by_client_msg_id.sql");
        self.messages(sql, conversation.into(), arguments).await
    }

    /// How many messages `sender` had sent up to `mid`: `n` of the newest row up to it (PROTOCOL R5). `None` if rows are gone and the number is
    /// therefore unknown.
    pub async fn ordinal_at(
        &mut self,
        conversation: DirectConversation,
        sender: UserId,
        mid: Mid,
    ) -> Result<Option<Ordinal>, StoreError> {
        let table = self.table(Table::ChatMsg, conversation.partition())?;
        let peer = conversation.peer_of(sender).get();
        let arguments = Arguments::default()
            .with(sender.get())
            .with(peer)
            .with(mid.get());
        let sql = include_str!("../../sql/read/newest_ordinal.sql");
        let newest = self.fetch(sql, &table, arguments, |row| decode::number(row, "n"));
        if let Some(n) = newest.await?.pop() {
            return Ok(Some(n));
        }
        if mid == Mid::ZERO {
            return Ok(Some(Ordinal::ZERO));
        }
        // The sender has no row up to `mid`. The number is 0 only if no rows are gone. The oldest rows go first, so the first message, which is then the
        // peer's, shows whether some are gone.
        let arguments = Arguments::default().with(peer).with(sender.get());
        let sql = include_str!("../../sql/read/first_message.sql");
        let first = self.fetch(sql, &table, arguments, |_| Ok(Ordinal::ZERO));
        Ok(first.await?.pop())
    }

    async fn messages(
        &mut self,
        sql: &str,
        conversation: ConversationId,
        arguments: Arguments,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let kind = Kind::of(conversation);
        let table = self.table(kind.messages(), conversation.partition())?;
        let sql = kind.fill(sql);
        self.fetch(&sql, &table, arguments, |row| decode::message(kind, row))
            .await
    }
}

/// The parameters of a statement with a branch for each direction.
fn both_directions(
    conversation: DirectConversation,
    bounds: impl Fn(Arguments) -> Arguments,
) -> Arguments {
    let (lo, hi) = (conversation.lo().get(), conversation.hi().get());
    let there = bounds(Arguments::default().with(lo).with(hi));
    bounds(there.with(hi).with(lo))
}

use schemas::{DirectConversation, UserId};

use super::{ReadTx, decode};
use crate::{ReadMids, StoreError, arguments::Arguments, names::Table};

impl ReadTx {
    /// Up to where `uid` has read, as `read_chat_mid_<n>` has it. `contact_<n>` may be ahead of it, or behind: the truth is the larger.
    ///
    /// # Errors
    /// As all reads; fatal where the conversation is in another database.
    pub async fn read_mids(
        &mut self,
        conversation: DirectConversation,
        uid: UserId,
    ) -> Result<ReadMids, StoreError> {
        let table = self.table(Table::ReadChatMid, conversation.partition())?;
        let arguments = Arguments::default()
            .with(uid.get())
            .with(conversation.to_string());
        let sql = include_str!("../../sql/read/read_mids.sql");
        match self.fetch(sql, &table, arguments).await?.first() {
            Some(row) => decode::read_mids(row),
            None => Ok(ReadMids::default()),
        }
    }
}

use schemas::{DirectConversation, Mid, PerDevice, UserId};

use super::{ReadTx, decode};
use crate::{StoreError, arguments::Arguments, names::Table};

impl ReadTx {
    /// The read positions of `uid` in `read_chat_mid_<n>`. Those in `contact_<n>` may be ahead or behind; the larger ones count.
    pub async fn read_mids(
        &mut self,
        conversation: DirectConversation,
        uid: UserId,
    ) -> Result<PerDevice<Mid>, StoreError> {
        let table = self.table(Table::ReadChatMid, conversation.partition())?;
        let arguments = Arguments::default()
            .with(uid.get())
            .with(conversation.to_string());
        let sql = include_str!("../../sql/read/read_mids.sql");
        let found = self.fetch(sql, &table, arguments, decode::read_mids);
        Ok(found.await?.pop().unwrap_or_default())
    }
}

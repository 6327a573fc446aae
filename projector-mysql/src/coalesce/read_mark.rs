use message_store::{MessageStore, ReadMids, ReadRow, ResumeMove, Shard, StoreError};
use schemas::{
    DeviceClass, DirectConversation, Mid, Partition, TimestampMs, UserId,
    event::{Message, ReadPosition},
};

use super::MergedRow;

/// A row of `read_chat_mid_<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadPositionRow(ReadRow);

impl MergedRow for ReadPositionRow {
    type Key = (UserId, DirectConversation);
    const NEEDS_ORDINALS: bool = false;

    fn of_message(_: &Message, _: TimestampMs) -> [Option<Self>; 2] {
        [None; 2]
    }

    fn of_read(position: &ReadPosition) -> Self {
        let nothing = Mid::ZERO;
        let (pc, mobile) = match position.device {
            DeviceClass::Pc => (position.mid, nothing),
            DeviceClass::Mobile => (nothing, position.mid),
        };
        Self(ReadRow {
            uid: position.uid,
            conversation: position.conversation(),
            mids: ReadMids { pc, mobile },
        })
    }

    fn key(&self) -> Self::Key {
        (self.0.uid, self.0.conversation)
    }

    fn conversation(&self) -> DirectConversation {
        self.0.conversation
    }

    fn table(&self) -> Partition {
        self.0.conversation.partition()
    }

    fn merge(&mut self, other: Self) {
        self.0.mids = self.0.mids.max(other.0.mids);
    }

    async fn write<'a>(
        store: &MessageStore,
        shard: Shard,
        topic: &str,
        rows: impl Iterator<Item = &'a Self> + Send,
        moves: &[ResumeMove],
    ) -> Result<(), StoreError> {
        let rows = rows.map(|row| &row.0);
        store.write_reads(shard, topic, rows, moves).await
    }
}

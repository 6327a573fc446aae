use message_store::{OffsetUpdate, ReadRow, StoreError};
use schemas::{
    DirectConversation, Mid, PerDevice, TableNumber, TimestampMs, UserId,
    event::{Message, ReadPosition},
};

use super::MergedRow;
use crate::destination::Destination;

impl MergedRow for ReadRow {
    type Key = (UserId, DirectConversation);

    fn of_message(_: &Message, _: TimestampMs) -> [Option<Self>; 2] {
        [None; 2]
    }

    fn of_read(position: &ReadPosition) -> Self {
        let mut mids = PerDevice::<Mid>::default();
        mids[position.device] = position.mid;
        Self {
            uid: position.uid,
            conversation: position.conversation(),
            mids,
        }
    }

    fn key(&self) -> Self::Key {
        (self.uid, self.conversation)
    }

    fn conversation(&self) -> DirectConversation {
        self.conversation
    }

    fn table(&self) -> TableNumber {
        self.conversation.partition().into()
    }

    fn merge(&mut self, other: Self) {
        self.mids = self.mids.max(other.mids);
    }

    async fn write<'a>(
        to: &Destination,
        rows: impl Iterator<Item = &'a Self> + Send,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let write = to.store.write_reads(to.shard, &to.topic, rows, updates);
        write.await
    }
}

use message_store::{OffsetUpdate, ReadRow, StoreError};
use projection::LogEvent;
use schemas::{ConversationId, DirectConversation, Mid, Partition, PerDevice, TableNumber, UserId};

use super::MergedRow;
use crate::destination::Destination;

impl MergedRow for ReadRow {
    type Key = (UserId, DirectConversation);

    fn for_each(LogEvent { event, .. }: &LogEvent, mut take: impl FnMut(Self)) {
        for position in event.body.read_positions() {
            let ConversationId::Direct(conversation) = position.conversation() else {
                continue;
            };
            let mut mids = PerDevice::<Mid>::default();
            mids[position.device] = position.mid;
            take(Self {
                uid: position.uid,
                conversation,
                mids,
            });
        }
    }

    fn key(&self) -> Self::Key {
        (self.uid, self.conversation)
    }

    fn partition(&self) -> Partition {
        self.conversation.partition()
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

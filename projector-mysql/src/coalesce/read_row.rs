use message_store::{OffsetUpdate, ReadRow, StoreError};
use projection::LogEvent;
use schemas::{DirectConversation, Mid, PerDevice, TableNumber, UserId};

use super::MergedRow;
use crate::destination::Destination;

impl MergedRow for ReadRow {
    type Key = (UserId, DirectConversation);

    fn of_event(LogEvent { event, .. }: &LogEvent) -> [Option<Self>; 2] {
        let mut rows = event.body.read_positions().map(|position| {
            let mut mids = PerDevice::<Mid>::default();
            mids[position.device] = position.mid;
            Self {
                uid: position.uid,
                conversation: position.conversation(),
                mids,
            }
        });
        [rows.next(), rows.next()]
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

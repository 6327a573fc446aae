use message_store::{ContactDelta, LastMessage, OffsetUpdate, ReadUpTo, StoreError};
use schemas::{
    DirectConversation, TableNumber, TimestampMs, UserId,
    event::{Message, ReadPosition},
};

use super::MergedRow;
use crate::destination::Destination;

impl MergedRow for ContactDelta {
    type Key = (UserId, UserId);

    /// The sender's row and the receiver's. A note to oneself has the first only, so that it never counts as a peer's.
    fn of_message(message: &Message, ts: TimestampMs) -> [Option<Self>; 2] {
        let last = LastMessage::of(message, ts);
        let (srcid, destid) = (message.srcid, message.destid);
        let receivers = (srcid != destid).then(|| Self {
            last: Some(last.clone()),
            peer_n: message.n,
            ..Self::new(destid, srcid)
        });
        let senders = Self {
            last: Some(last),
            own_n: message.n,
            ..Self::new(srcid, destid)
        };
        [Some(senders), receivers]
    }

    fn of_read(position: &ReadPosition) -> Self {
        let mut contact = Self::new(position.uid, position.peer);
        contact.read[position.device] = ReadUpTo {
            mid: position.mid,
            n: position.n,
        };
        contact
    }

    fn key(&self) -> Self::Key {
        (self.uid, self.peer)
    }

    fn conversation(&self) -> DirectConversation {
        DirectConversation::new(self.uid, self.peer)
    }

    fn table(&self) -> TableNumber {
        TableNumber::of_user(self.uid)
    }

    fn merge(&mut self, other: Self) {
        self.merge(other);
    }

    async fn write<'a>(
        to: &Destination,
        rows: impl Iterator<Item = &'a Self> + Send,
        updates: &[OffsetUpdate],
    ) -> Result<(), StoreError> {
        let write = to.store.write_contacts(to.shard, &to.topic, rows, updates);
        write.await
    }
}

#[cfg(test)]
mod tests {
    use schemas::{Mid, Ordinal};

    use super::*;

    fn rows_of_message(srcid: i64, destid: i64) -> Vec<ContactDelta> {
        let message = Message {
            srcid: srcid.try_into().unwrap(),
            destid: destid.try_into().unwrap(),
            client_msg_id: "c".to_owned().try_into().unwrap(),
            msg: "hello".to_owned(),
            mid: Mid::ZERO.next(),
            n: Ordinal::ZERO.next(),
        };
        let rows = ContactDelta::of_message(&message, TimestampMs(7));
        rows.into_iter().flatten().collect()
    }

    #[test]
    fn both_sides_have_a_row_and_count_their_own_sends() {
        let [own, peers] = rows_of_message(1, 2).try_into().unwrap();
        let users = |contact: &ContactDelta| (contact.uid.get(), contact.peer.get());
        assert_eq!((users(&own), users(&peers)), ((1, 2), (2, 1)));
        assert_eq!((own.own_n.get(), own.peer_n.get()), (1, 0));
        assert_eq!((peers.own_n.get(), peers.peer_n.get()), (0, 1));
    }

    #[test]
    fn a_note_to_oneself_is_one_row_and_no_peers_message() {
        let [own] = rows_of_message(1, 1).try_into().unwrap();
        assert_eq!((own.own_n.get(), own.peer_n.get()), (1, 0));
    }
}

use message_store::{
    ContactDelta, LastMessage, MessageStore, ReadUpTo, ResumeMove, Shard, StoreError,
};
use schemas::{
    DirectConversation, Partition, TimestampMs, UserId,
    event::{Message, ReadPosition},
};

use super::MergedRow;

/// A row of `contact_<n>`: one side's view of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contact(ContactDelta);

impl Contact {
    fn with_last(uid: UserId, peer: UserId, last: LastMessage) -> Self {
        Self(ContactDelta {
            last: Some(last),
            ..ContactDelta::new(uid, peer)
        })
    }
}

impl MergedRow for Contact {
    type Key = (UserId, UserId);
    const NEEDS_ORDINALS: bool = true;

    /// The sender's row and the receiver's. A note to oneself has the first only, so that it never counts as a peer's.
    fn of_message(message: &Message, ts: TimestampMs) -> [Option<Self>; 2] {
        let last = LastMessage::of(message, ts);
        let (srcid, destid) = (message.srcid, message.destid);
        let theirs = (srcid != destid).then(|| {
            let mut theirs = Self::with_last(destid, srcid, last.clone());
            theirs.0.peer_n = message.n;
            theirs
        });
        let mut own = Self::with_last(srcid, destid, last);
        own.0.own_n = message.n;
        [Some(own), theirs]
    }

    fn of_read(position: &ReadPosition) -> Self {
        let mut contact = ContactDelta::new(position.uid, position.peer);
        *contact.read_mut(position.device) = ReadUpTo {
            mid: position.mid,
            n: position.n,
        };
        Self(contact)
    }

    fn key(&self) -> Self::Key {
        (self.0.uid, self.0.peer)
    }

    fn conversation(&self) -> DirectConversation {
        DirectConversation::new(self.0.uid, self.0.peer)
    }

    fn table(&self) -> Partition {
        Partition::of_user(self.0.uid)
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }

    async fn write<'a>(
        store: &MessageStore,
        shard: Shard,
        topic: &str,
        rows: impl Iterator<Item = &'a Self> + Send,
        moves: &[ResumeMove],
    ) -> Result<(), StoreError> {
        let rows = rows.map(|row| &row.0);
        store.write_contacts(shard, topic, rows, moves).await
    }
}

#[cfg(test)]
mod tests {
    use schemas::{Mid, Ordinal};

    use super::*;

    fn told(srcid: i64, destid: i64) -> Vec<Contact> {
        let message = Message {
            srcid: srcid.try_into().unwrap(),
            destid: destid.try_into().unwrap(),
            client_msg_id: "c".to_owned().try_into().unwrap(),
            msg: "hello".to_owned(),
            mid: Mid::ZERO.next(),
            n: Ordinal::ZERO.next(),
        };
        let told = Contact::of_message(&message, TimestampMs(7));
        told.into_iter().flatten().collect()
    }

    #[test]
    fn both_sides_have_a_row_and_count_their_own_sends() {
        let [own, theirs] = told(1, 2).try_into().unwrap();
        let users = |contact: &Contact| (contact.0.uid.get(), contact.0.peer.get());
        assert_eq!((users(&own), users(&theirs)), ((1, 2), (2, 1)));
        assert_eq!((own.0.own_n.get(), own.0.peer_n.get()), (1, 0));
        assert_eq!((theirs.0.own_n.get(), theirs.0.peer_n.get()), (0, 1));
    }

    #[test]
    fn a_note_to_oneself_is_one_row_and_no_peers_message() {
        let [own] = told(1, 1).try_into().unwrap();
        assert_eq!((own.0.own_n.get(), own.0.peer_n.get()), (1, 0));
    }
}

//! What a user sees of a conversation: what the user has cleared or hidden is not there.

use std::collections::BTreeSet;

use message_store::{ChangeKind, ReadTx, Shard, Sink};
use schemas::{Chg, DirectConversation, Mid, PerDevice, TableNumber, UserId};

use crate::{
    after::{RequiredWatermarks, Watermarks},
    error::{LaggingStore, QueryError},
    sink_watermarks,
    state::QueryApi,
};

/// How many changes [`View::catch_up`] reads; with more, `after=` waits for the contact row.
const CATCH_UP_LIMIT: u32 = 200;

pub(crate) struct View {
    uid: UserId,
    peer: UserId,
    /// The user's database.
    shard: Shard,
    /// The read positions of the contact row.
    pub(crate) read_mids: PerDevice<Mid>,
    /// The newest message that the user has cleared; those before it are cleared, too.
    pub(crate) clear_mid: Mid,
    /// The changes of the conversation that the contact row reflects.
    chg: Chg,
    hidden: BTreeSet<Mid>,
}

impl View {
    /// Reads the user's contact row, and the watermarks of its sink.
    pub(crate) async fn read(
        api: &QueryApi,
        uid: UserId,
        peer: UserId,
        required: &RequiredWatermarks,
    ) -> Result<(Self, Watermarks), QueryError> {
        let shard = api.store.layout().shard_of(TableNumber::of_user(uid));
        let mut tx = api.store.snapshot(shard).await?;
        let watermarks =
            sink_watermarks::read(&mut tx, Sink::Contacts, &api.events_topic, required).await?;
        let row = tx.contact(uid, peer).await?;
        let read_mids = row.as_ref().map(|row| row.read_mids()).unwrap_or_default();
        let contact = row.map(|row| row.contact);
        let view = Self {
            uid,
            peer,
            shard,
            read_mids,
            clear_mid: contact.as_ref().map_or(Mid::ZERO, |row| row.clear_mid),
            chg: contact.map_or(Chg::ZERO, |row| row.chg),
            hidden: BTreeSet::new(),
        };
        Ok((view, watermarks))
    }

    /// The store that it is read from.
    pub(crate) fn store(&self) -> LaggingStore {
        LaggingStore::Sink(self.shard, Sink::Contacts)
    }

    /// Adds what the user has cleared and hidden since the contact row, and says whether that is all of it. The changes are in the
    /// conversation's own database, with its messages.
    pub(crate) async fn catch_up(&mut self, tx: &mut ReadTx) -> Result<bool, QueryError> {
        let conversation = DirectConversation::new(self.uid, self.peer);
        let changes = tx
            .changes_after(conversation, Some(self.uid), self.chg, CATCH_UP_LIMIT)
            .await?;
        for change in &changes {
            match change.kind {
                ChangeKind::Clear => self.clear_mid = self.clear_mid.max(change.mid),
                ChangeKind::Hide => {
                    self.hidden.insert(change.mid);
                }
                ChangeKind::Recall | ChangeKind::Delete | ChangeKind::Edit => {}
            }
        }
        Ok(changes.len() < CATCH_UP_LIMIT as usize)
    }

    /// Reads which of these messages are hidden. Where nothing in the conversation was changed, none is.
    pub(crate) async fn read_hidden(
        &mut self,
        api: &QueryApi,
        mids: impl Iterator<Item = Mid> + Clone,
    ) -> Result<(), QueryError> {
        if self.chg == Chg::ZERO {
            return Ok(());
        }
        if let (Some(first), Some(last)) = (mids.clone().min(), mids.max()) {
            let mut tx = api.store.snapshot(self.shard).await?;
            let hidden = tx.hidden(self.uid, self.peer, first..=last).await?;
            self.hidden.extend(hidden);
        }
        Ok(())
    }

    /// Whether the user sees this message, if it is among those of [`Self::read_hidden`].
    pub(crate) fn shows(&self, mid: Mid) -> bool {
        mid > self.clear_mid && !self.hidden.contains(&mid)
    }
}

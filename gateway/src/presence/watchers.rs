//! Who is notified of whose presence.

use schemas::{Recipient, UserId};
use tokio::time::interval;

use super::{Presence, slot::Slot};
use crate::{
    contacts::{Pair, Relation},
    frames::PresenceBody,
};

impl Presence {
    /// Notifies whoever looks at users of a slot: of those that are stale, and once in a lease of all, since notices are lost and a gateway that
    /// dies sends none.
    pub(super) async fn notify_watchers(&self, slot: &Slot) {
        let mut ticks = interval(slot.lease);
        let is_of_slot = |uid: &UserId| self.redis.store().index_of(*uid) == slot.index;
        loop {
            let uids: Vec<UserId> = tokio::select! {
                uids = slot.stale() => uids,
                _ = ticks.tick() => self.focus.watched_users().into_iter().filter(is_of_slot).collect(),
            };
            for presence in slot.read(&uids).await {
                let at = Recipient::User(presence.uid);
                for watcher in self.focus.watchers(at) {
                    let shown = match self.may_see(watcher.uid(), presence.uid).await {
                        true => presence.clone(),
                        false => PresenceBody::unknown(presence.uid),
                    };
                    self.focus.notify(&watcher, at, shown);
                }
            }
        }
    }

    /// A user shows it to whom he has written, and does not block, and to himself.
    pub(super) async fn may_see(&self, seer: UserId, of: UserId) -> bool {
        let towards = seer;
        seer == of || self.contacts.relation(Pair { of, towards }).await == Some(Relation::Contact)
    }
}

//! Who is notified of whose presence.

use std::collections::HashSet;

use api::PresenceBody;
use schemas::{Recipient, UserId};
use tokio::time::interval;

use super::{Presence, slot::Slot};
use crate::contacts::{Pair, Relation};

/// How many users' watchers are notified together.
const NOTIFIED_AT_ONCE: usize = 256;

impl Presence {
    /// Notifies the devices that look at users of a slot: of users who are stale, and once in a lease of all, since notices are lost and a gateway
    /// that dies sends none.
    pub(super) async fn notify_watchers(&self, slot: &Slot) {
        let mut ticks = interval(slot.lease);
        let is_of_slot = |uid: &UserId| self.redis.store().index_of(*uid) == slot.index;
        loop {
            let uids: Vec<UserId> = tokio::select! {
                uids = slot.stale() => uids,
                _ = ticks.tick() => self.focus.watched_users().into_iter().filter(is_of_slot).collect(),
            };
            for uids in uids.chunks(NOTIFIED_AT_ONCE) {
                self.notify_of(&slot.read(uids).await).await;
            }
        }
    }

    /// Notifies the devices that look at these users. Which of their users may see whom is read for all of them together.
    async fn notify_of(&self, present: &[PresenceBody]) {
        let watchers: Vec<_> = present
            .iter()
            .flat_map(|presence| {
                let watchers = self.focus.watchers(Recipient::User(presence.uid));
                watchers.into_iter().map(move |watcher| (watcher, presence))
            })
            .collect();
        let pairs: Vec<_> = watchers
            .iter()
            .map(|(watcher, presence)| (watcher.uid(), presence.uid))
            .collect();
        let seen = self.who_sees(&pairs).await;
        for (watcher, presence) in watchers {
            let shown = match seen.contains(&(watcher.uid(), presence.uid)) {
                true => presence.clone(),
                false => PresenceBody::unknown(presence.uid),
            };
            let at = Recipient::User(presence.uid);
            self.focus.notify(&watcher, at, shown);
        }
    }

    /// Those of these pairs of a seer and another user in which the seer sees the other user. A user is shown to the users to whom they have written
    /// and whom they do not block, and to themselves.
    pub(super) async fn who_sees(&self, pairs: &[(UserId, UserId)]) -> HashSet<(UserId, UserId)> {
        let others = pairs.iter().filter(|(seer, of)| seer != of);
        let others: HashSet<Pair> = others
            .map(|(seer, of)| Pair {
                of: *of,
                towards: *seer,
            })
            .collect();
        let others: Vec<Pair> = others.into_iter().collect();
        let relations = self.contacts.relations_of(&others).await;
        let sees = |(seer, of): &&(UserId, UserId)| {
            let pair = Pair {
                of: *of,
                towards: *seer,
            };
            seer == of || relations.get(&pair) == Some(&Relation::Contact)
        };
        pairs.iter().filter(sees).copied().collect()
    }
}

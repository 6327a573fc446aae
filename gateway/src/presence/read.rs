//! Whether users are connected, as Redis says.

use api::{PresenceBody, utc};
use futures::future::join_all;
use schemas::UserId;
use tokio::time::Instant;
use unread_store::{Connection, UserPresence};

use super::{Presence, slot::Slot};

/// How many users one request reads.
const READ_AT_ONCE: usize = 256;

impl Presence {
    /// Whether users are connected, in no particular order.
    pub(super) async fn read(&self, uids: &[UserId]) -> Vec<PresenceBody> {
        let by_slot = self.redis.store().by_slot(uids.iter().copied(), |uid| *uid);
        let reads = by_slot
            .iter()
            .map(|(index, uids)| self.slots[*index].read(uids));
        join_all(reads).await.concat()
    }
}

impl Slot {
    /// Whether users of this slot are connected, in their order. Users for whom Redis does not answer are unknown.
    pub(super) async fn read(&self, uids: &[UserId]) -> Vec<PresenceBody> {
        let mut found = Vec::with_capacity(uids.len());
        for uids in uids.chunks(READ_AT_ONCE) {
            let ask = async |redis: Connection| redis.read_presence(uids).await;
            let answer = self.redis.call(self.index, ask).await;
            let presences = answer.unwrap_or_else(|error| {
                tracing::debug!(%error, "presence is not read");
                Vec::new()
            });
            let mut presences = presences.into_iter();
            let knows_who_is_away = self.entries().knows_who_is_away(Instant::now());
            found.extend(uids.iter().map(|uid| match presences.next() {
                Some(presence) => shown(*uid, presence, knows_who_is_away),
                None => PresenceBody::unknown(*uid),
            }));
        }
        found
    }
}

/// A user without a connection is offline only if gateways have not lost their entries; otherwise the user is unknown.
fn shown(uid: UserId, presence: UserPresence, knows_who_is_away: bool) -> PresenceBody {
    let is_there = !presence.classes.is_empty();
    if !is_there && !knows_who_is_away {
        return PresenceBody::unknown(uid);
    }
    PresenceBody {
        uid,
        online: Some(is_there),
        classes: presence.classes,
        last_seen: presence.last_seen.map(utc),
    }
}

//! Who is connected, over all gateways. Each gateway has a lease in Redis, and under it an entry per connection.

mod call;
mod entries;
mod read;
mod slot;
mod watchers;

use std::sync::Arc;

use access::CallerQuota;
use futures::future::{join, join_all};
use schemas::{Recipient, UserId};
use service_runtime::Shutdown;
use tokio::time::Instant;
use unread_store::{ConnectionId, SharedConnections};

pub(crate) use self::call::get_presence;
use self::slot::Slot;
use crate::{config::GatewayConfig, contacts::Contacts, focus::Focus, hub::Connection};

pub(crate) struct Presence {
    redis: Arc<SharedConnections>,
    slots: Vec<Slot>,
    contacts: Arc<Contacts>,
    focus: Arc<Focus>,
    /// Calls over HTTP that are answered.
    calls: Arc<CallerQuota>,
}

impl Presence {
    pub(crate) fn new(
        config: &GatewayConfig,
        redis: Arc<SharedConnections>,
        contacts: Arc<Contacts>,
        focus: Arc<Focus>,
    ) -> Self {
        let indexes = 0..redis.store().slots().len();
        Self {
            slots: indexes
                .map(|index| Slot::new(index, Arc::clone(&redis), config))
                .collect(),
            redis,
            contacts,
            focus,
            calls: CallerQuota::new(call::CALLS, call::CALLS_OF_USER),
        }
    }

    /// In how many slots this gateway has held a lease long enough to say who is away.
    pub(crate) fn lease_count(&self) -> usize {
        let now = Instant::now();
        let holds = |slot: &&Slot| slot.entries().knows_who_is_away(now);
        self.slots.iter().filter(holds).count()
    }

    /// A connection that was established at `connected_at` has got its stream.
    pub(crate) fn enter(&self, connection: &Arc<Connection>, connected_at: Instant) {
        let slot = self.slot_of(connection.uid());
        slot.entries().add(connection, connected_at);
        slot.changed.notify_one();
    }

    /// A connection has ended.
    pub(crate) fn exit(&self, connection: &Connection) {
        let slot = self.slot_of(connection.uid());
        slot.entries().remove(connection);
        slot.changed.notify_one();
    }

    /// A connection looks at something else than before, and is notified of who is there.
    pub(crate) fn set_focus(&self, connection: &Arc<Connection>, at: Option<Recipient>) {
        self.focus.set(connection, at);
        if let Some(Recipient::User(uid)) = at {
            self.slot_of(uid).mark_stale(uid);
        }
    }

    /// A user's presence may have changed, or the set of users who see it.
    pub(crate) fn mark_stale_if_watched(&self, uid: UserId) {
        if self.focus.is_watched(Recipient::User(uid)) {
            self.slot_of(uid).mark_stale(uid);
        }
    }

    /// Another connection replaces this one, if it is one of this gateway.
    pub(crate) fn replace(&self, uid: UserId, id: &ConnectionId) {
        self.slot_of(uid).replace(id);
    }

    /// Holds the leases, writes the connections and notifies the devices that look, until the last connection has ended at a shutdown. The leases of
    /// a gateway that is ended by force last to their end.
    pub(crate) async fn run<F: Future<Output = ()>>(
        &self,
        shutdown: &Shutdown,
        all_closed: impl Fn() -> F,
    ) {
        let writing = join_all(self.slots.iter().map(|slot| slot.run(all_closed())));
        let notifying = join_all(self.slots.iter().map(|slot| self.notify_watchers(slot)));
        let notifying = shutdown.soft().run_until_cancelled(notifying);
        let running = join(writing, notifying);
        shutdown.hard().run_until_cancelled(running).await;
    }

    fn slot_of(&self, uid: UserId) -> &Slot {
        &self.slots[self.redis.store().index_of(uid)]
    }
}

//! Who is connected, over all gateways: each has a lease in Redis, and under it an entry per connection.

mod call;
mod entries;
mod slot;

use std::{collections::BTreeMap, sync::Arc};

use schemas::{Recipient, UserId};
use tokio::{
    task::JoinSet,
    time::{Instant, interval},
};
use unread_store::{ConnectionId, UserPresence};

pub(crate) use self::call::get_presence;
use self::slot::Slot;
use crate::{
    contacts::Standing,
    frames::{PresenceBody, Time},
    hub::Connection,
    state::Gateway,
};

pub(crate) struct Presence {
    slots: Vec<Slot>,
}

impl Presence {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| Slot::default()).collect(),
        }
    }

    /// How many slots this gateway holds a lease in, and has held it long enough to say who is away.
    pub(crate) fn lease_count(&self) -> usize {
        let now = Instant::now();
        let holds = |slot: &&Slot| slot.entries().knows_who_is_away(now);
        self.slots.iter().filter(holds).count()
    }
}

impl Gateway {
    fn slot_of(&self, uid: UserId) -> &Slot {
        &self.presence.slots[self.redis.store().index_of(uid)]
    }

    /// A connection that began at this time has a stream.
    pub(crate) fn enter(&self, connection: &Arc<Connection>, begun: Instant) {
        let slot = self.slot_of(connection.uid());
        slot.entries().add(connection, begun);
        slot.changed.notify_one();
    }

    /// A connection has ended.
    pub(crate) fn exit(&self, connection: &Arc<Connection>) {
        self.focus.set(connection, None);
        let slot = self.slot_of(connection.uid());
        slot.entries().remove(connection);
        slot.changed.notify_one();
    }

    /// A connection looks at something else than before, and is told who is there.
    pub(crate) fn look(&self, connection: &Arc<Connection>, at: Option<Recipient>) {
        self.focus.set(connection, at);
        if let Some(Recipient::User(uid)) = at {
            self.slot_of(uid).look([uid]);
        }
    }

    /// A user's presence may have changed, or who sees it.
    pub(crate) fn look_again(&self, uid: UserId) {
        if self.focus.is_watched(Recipient::User(uid)) {
            self.slot_of(uid).look([uid]);
        }
    }

    /// The place of a connection is taken, if it is one of this gateway.
    pub(crate) fn replace(&self, uid: UserId, id: &ConnectionId) {
        let entries = self.slot_of(uid).entries();
        if let Some(connection) = entries.connection(&id.lease, id.number) {
            connection.replace();
        }
    }
}

/// Holds the leases, writes the connections and tells who looks, until the shutdown.
pub(crate) async fn keep(gateway: Arc<Gateway>) -> anyhow::Result<()> {
    let mut slots = JoinSet::new();
    for index in 0..gateway.presence.slots.len() {
        let keeping = Arc::clone(&gateway);
        slots.spawn(async move { keeping.presence.slots[index].keep(&keeping, index).await });
        let telling = Arc::clone(&gateway);
        slots.spawn(async move { tell_all(&telling, index).await });
    }
    while let Some(ended) = slots.join_next().await {
        ended?;
    }
    Ok(())
}

/// Tells whoever looks: when a notice says so, and once in a lease all of them, since notices are lost and a gateway that dies sends none.
async fn tell_all(gateway: &Gateway, index: usize) {
    let slot = &gateway.presence.slots[index];
    let mut ticks = interval(gateway.config.lease());
    loop {
        tokio::select! {
            () = slot.looks.notified() => {}
            _ = ticks.tick() => {
                let store = gateway.redis.store();
                let watched = gateway.focus.watched_users();
                slot.look(watched.into_iter().filter(|uid| store.index_of(*uid) == index));
            }
            () = gateway.shutdown.soft().cancelled() => return,
        }
        tell(gateway, &slot.take_looked_at()).await;
    }
}

async fn tell(gateway: &Gateway, uids: &[UserId]) {
    for presence in read(gateway, uids).await {
        let at = Recipient::User(presence.uid);
        for watcher in gateway.focus.watchers(at) {
            let shown = match may_see(gateway, watcher.uid(), presence.uid).await {
                true => presence.clone(),
                false => PresenceBody::unknown(presence.uid),
            };
            gateway.focus.tell(&watcher, at, shown);
        }
    }
}

/// A user shows it to whom he has written, and does not block, and to himself.
async fn may_see(gateway: &Gateway, seer: UserId, of: UserId) -> bool {
    let standing = gateway.contacts.standing(&gateway.store, of, seer);
    seer == of || standing.await == Some(Standing::Contact)
}

/// So many users are read with one request.
const READ_AT_ONCE: usize = 256;

/// Whether users are connected, in no order. Where Redis does not answer it is not known.
async fn read(gateway: &Gateway, uids: &[UserId]) -> Vec<PresenceBody> {
    let mut by_slot: BTreeMap<usize, Vec<UserId>> = BTreeMap::new();
    for uid in uids {
        let index = gateway.redis.store().index_of(*uid);
        by_slot.entry(index).or_default().push(*uid);
    }
    let mut found = Vec::with_capacity(uids.len());
    for (index, uids) in by_slot {
        for uids in uids.chunks(READ_AT_ONCE) {
            let read = gateway
                .redis
                .call(index, async |redis| redis.read_presence(uids).await);
            let read = read.await.unwrap_or_else(|error| {
                tracing::debug!(%error, "presence is not read");
                Vec::new()
            });
            let mut read = read.into_iter();
            let entries = gateway.presence.slots[index].entries();
            let knows_who_is_away = entries.knows_who_is_away(Instant::now());
            found.extend(uids.iter().map(|uid| match read.next() {
                Some(presence) => shown(*uid, presence, knows_who_is_away),
                None => PresenceBody::unknown(*uid),
            }));
        }
    }
    found
}

fn shown(uid: UserId, presence: UserPresence, knows_who_is_away: bool) -> PresenceBody {
    let is_there = !presence.classes.is_empty();
    if !is_there && !knows_who_is_away {
        return PresenceBody::unknown(uid);
    }
    PresenceBody {
        uid,
        online: Some(is_there),
        classes: presence.classes,
        last_seen: presence.last_seen.map(Time),
    }
}

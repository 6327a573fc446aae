//! The gateway without sockets, Kafka or clocks: the newest events of all partitions, who is connected, and what waits for each connection.
//! The rules are SYNC W1 to W9 (docs/PROTOCOL.md).

mod audience;
mod connection;
mod memberships;
mod queue;
mod ring;
mod ring_event;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod test_events;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use schemas::{GroupId, NextOffset, Partition, PartitionMap, SyncToken, UserId};

use self::{
    audience::Audience,
    memberships::{History, change_for, dissolves},
    ring::{Key, PartitionRing},
};
pub(crate) use self::{
    connection::{Connection, End, Next},
    memberships::{Span, StoredMemberships},
    queue::{Head, Outgoing},
    ring_event::RingEvent,
};

/// What the hub may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HubLimits {
    /// For how long an event stays in its ring, milliseconds.
    pub(crate) ring_ms: u64,
    /// What all rings hold together, bytes.
    pub(crate) ring_bytes: usize,
    /// What waits for one connection, bytes.
    pub(crate) queue_bytes: usize,
    /// Connections of a user; another one takes the place of the oldest.
    pub(crate) connections_of_user: usize,
}

/// Why a device does not get its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStream {
    /// Events since its token are no longer here, or more than may wait for a connection: it has to sync.
    SyncRequired,
    /// MySQL is behind the rings: which groups the user is in cannot be known yet.
    MembershipsBehind,
}

/// A user with connections, or who had some.
#[derive(Default)]
struct ConnectedUser {
    /// The oldest first.
    connections: Vec<Arc<Connection>>,
    spans: HashMap<GroupId, Span>,
    /// Since when there is no connection. The groups are kept a while, for who comes back soon.
    idle_since_ms: Option<u64>,
}

/// All of a gateway's state.
pub(crate) struct Hub {
    limits: HubLimits,
    /// The highest seen: raised by an operator when `chat.inbound` was created again. Tokens of another one are worth nothing.
    epoch: u32,
    rings: PartitionMap<PartitionRing>,
    users: HashMap<UserId, ConnectedUser>,
    members: HashMap<GroupId, HashSet<UserId>>,
}

impl Hub {
    /// Without connections; each ring begins at the offset given.
    pub(crate) fn new(limits: HubLimits, begin: &PartitionMap<NextOffset>) -> Self {
        let begin = |partition| begin.get(partition).copied().unwrap_or_default();
        Self {
            limits,
            epoch: 0,
            rings: PartitionMap::full(|partition| PartitionRing::new(begin(partition))),
            users: HashMap::new(),
            members: HashMap::new(),
        }
    }

    /// How far each partition is read.
    pub(crate) fn read_to(&self) -> PartitionMap<NextOffset> {
        self.rings
            .iter()
            .map(|(p, ring)| (p, ring.next()))
            .collect()
    }

    /// How many connections there are.
    pub(crate) fn connection_count(&self) -> usize {
        self.users.values().map(|user| user.connections.len()).sum()
    }

    /// A record was read that concerns nobody.
    pub(crate) fn advance(&mut self, partition: Partition, next: NextOffset) {
        self.rings[partition].advance(next);
    }

    /// Takes an event that is behind all before it of its partition, and hands it to the connections of those whom it concerns (W4).
    pub(crate) fn apply(&mut self, event: RingEvent, now_ms: u64) {
        self.epoch = self.epoch.max(event.event.src.offset.epoch);
        if event.audience == Audience::Nobody {
            self.advance(event.partition, NextOffset::after(event.offset));
            return;
        }
        let event = Arc::new(event);
        self.rings[event.partition].push(Arc::clone(&event), now_ms);
        if self.users.is_empty() {
            return;
        }
        let named = event.audience.users();
        for uid in named {
            self.note_change(&event, *uid);
            if let Some(user) = self.users.get(uid) {
                user.push(&event);
            }
        }
        let Some(gid) = event.audience.group() else {
            return;
        };
        for uid in self.members.get(&gid).into_iter().flatten() {
            let Some(user) = self.users.get(uid) else {
                continue;
            };
            let is_member = user
                .spans
                .get(&gid)
                .is_some_and(|span| span.contains(event.offset));
            if is_member && !named.contains(uid) {
                user.push(&event);
            }
        }
        if dissolves(&event) {
            self.members.remove(&gid);
        }
    }

    /// A connected user whom a change of a group names joins or leaves it here, too.
    fn note_change(&mut self, event: &RingEvent, uid: UserId) {
        let (Some(named), Some(gid)) = (change_for(event, uid), event.audience.group()) else {
            return;
        };
        let Some(user) = self.users.get_mut(&uid) else {
            return;
        };
        let joined = Span {
            join_pos: event.offset,
            left_pos: None,
        };
        let span = user.spans.entry(gid).or_insert(joined);
        if !named.after {
            span.left_pos = Some(event.offset);
        } else if !named.before {
            *span = joined;
        }
        self.members.entry(gid).or_default().insert(uid);
    }

    /// Drops what is too old or too much.
    pub(crate) fn drop_old(&mut self, now_ms: u64) {
        let oldest = now_ms.saturating_sub(self.limits.ring_ms);
        for ring in self.rings.values_mut() {
            while ring.oldest_ms().is_some_and(|received| received < oldest) {
                ring.drop_oldest();
            }
        }
        let is_old = |user: &ConnectedUser| user.idle_since_ms.is_some_and(|since| since < oldest);
        let idle = self.users.iter().filter(|(_, user)| is_old(user));
        let idle: Vec<UserId> = idle.map(|(uid, _)| *uid).collect();
        for uid in idle {
            self.forget(uid);
        }
        let bytes = |ring: &PartitionRing| ring.bytes();
        let mut held: usize = self.rings.values().map(bytes).sum();
        while held > self.limits.ring_bytes {
            let rings = self.rings.values_mut();
            let oldest = rings.filter(|ring| ring.oldest_ms().is_some());
            let Some(ring) = oldest.min_by_key(|ring| ring.oldest_ms()) else {
                return;
            };
            held -= ring.bytes();
            ring.drop_oldest();
            held += ring.bytes();
        }
    }

    /// The memberships of a user who is connected, or was a while ago, as of the end of the rings.
    pub(crate) fn memberships_of(&self, uid: UserId) -> Option<StoredMemberships> {
        let user = self.users.get(&uid)?;
        Some(StoredMemberships {
            spans: user.spans.iter().map(|(gid, span)| (*gid, *span)).collect(),
            applied: self.read_to(),
        })
    }

    /// Gives a connection the stream of its user from `since` on: what the rings have of it, then everything that comes. The connection has no
    /// stream yet.
    ///
    /// # Errors
    /// [`NoStream`]; nothing has changed then.
    pub(crate) fn welcome(
        &mut self,
        connection: &Arc<Connection>,
        since: &SyncToken,
        stored: &StoredMemberships,
    ) -> Result<(), NoStream> {
        self.holds_all_since(since)?;
        let applied = |partition| stored.applied.get(partition).copied().unwrap_or_default();
        if self.rings.iter().any(|(p, ring)| applied(p) < ring.low()) {
            return Err(NoStream::MembershipsBehind);
        }
        let uid = connection.uid();
        let history = History::new(uid, stored, &self.rings);
        let missed = self.missed(uid, since, &history);
        let bytes: usize = missed.iter().map(|event| event.bytes).sum();
        if bytes > self.limits.queue_bytes {
            return Err(NoStream::SyncRequired);
        }
        let spans: HashMap<GroupId, Span> = history
            .groups()
            .filter_map(|gid| Some((gid, history.span(gid, &stored.applied)?)))
            .collect();
        connection.begin(self.read_to(), since, missed);
        let user = self.users.entry(uid).or_default();
        let is_same = |other: &&Arc<Connection>| other.device() == connection.device();
        let replaced = user.connections.iter().find(is_same);
        let is_full = user.connections.len() >= self.limits.connections_of_user;
        let oldest = user.connections.first().filter(|_| is_full);
        for replaced in replaced.into_iter().chain(oldest) {
            replaced.replace();
        }
        user.idle_since_ms = None;
        user.connections.push(Arc::clone(connection));
        for (gid, span) in spans {
            self.members.entry(gid).or_default().insert(uid);
            user.spans.insert(gid, span);
        }
        Ok(())
    }

    /// Whether a stream from `since` on can be complete (W1).
    fn holds_all_since(&self, since: &SyncToken) -> Result<(), NoStream> {
        let lacks = |(p, ring): (Partition, &PartitionRing)| since.get(p) < ring.low();
        if since.epoch() != self.epoch || self.rings.iter().any(lacks) {
            return Err(NoStream::SyncRequired);
        }
        Ok(())
    }

    /// The user's events since the token, in order within each partition.
    fn missed(&self, uid: UserId, since: &SyncToken, history: &History<'_>) -> Vec<Arc<RingEvent>> {
        let mut missed: BTreeMap<(Partition, i64), Arc<RingEvent>> = BTreeMap::new();
        let mut add = |event: &Arc<RingEvent>| {
            missed.insert((event.partition, event.offset), Arc::clone(event));
        };
        for (partition, ring) in self.rings.iter() {
            ring.newest_first(Key::User(uid), since.get(partition))
                .for_each(&mut add);
        }
        for gid in history.groups() {
            let partition = gid.partition();
            let events = self.rings[partition].newest_first(Key::Group(gid), since.get(partition));
            events
                .filter(|event| history.concerns(gid, event.offset))
                .for_each(&mut add);
        }
        missed.into_values().collect()
    }

    /// Has a token handed to a connection behind everything that waits for it (W6).
    pub(crate) fn ping(&self, connection: &Connection) {
        connection.ping(self.epoch, &self.read_to());
    }

    /// Forgets a connection.
    pub(crate) fn close(&mut self, connection: &Arc<Connection>, now_ms: u64) {
        let Some(user) = self.users.get_mut(&connection.uid()) else {
            return;
        };
        user.connections
            .retain(|other| !Arc::ptr_eq(other, connection));
        if user.connections.is_empty() {
            user.idle_since_ms.get_or_insert(now_ms);
        }
    }

    fn forget(&mut self, uid: UserId) {
        let Some(user) = self.users.remove(&uid) else {
            return;
        };
        for gid in user.spans.keys() {
            if let Some(members) = self.members.get_mut(gid) {
                members.remove(&uid);
                if members.is_empty() {
                    self.members.remove(gid);
                }
            }
        }
    }
}

impl ConnectedUser {
    fn push(&self, event: &Arc<RingEvent>) {
        for connection in &self.connections {
            connection.push_event(event);
        }
    }
}

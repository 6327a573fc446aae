//! The gateway without sockets, Kafka or clocks: the newest events of all partitions, who is connected, and what waits for each connection.
//! The rules are W1 to W9 (docs/PROTOCOL.md).

mod audience;
mod body;
mod connection;
mod memberships;
mod queue;
mod ring;
mod ring_event;
mod sends;
#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod test_events;
#[cfg(test)]
mod tests;
mod user;

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use schemas::{
    EventPosition, GroupId, InboundPosition, NextOffset, Partition, PartitionMap, Recipient,
    SyncToken, UserId, event::SourceOffset,
};

use self::{
    audience::Audience,
    body::{change_for, dissolves},
    memberships::History,
    ring::PartitionRing,
    sends::Sends,
    user::ConnectedUser,
};
pub(crate) use self::{
    connection::{Connection, DeviceOf, End, Next},
    memberships::{Span, StoredMemberships},
    queue::{Head, Outgoing},
    ring_event::RingEvent,
    sends::{Answer, Outcome, PostedSend, Refusal},
};

/// What the hub may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HubLimits {
    /// For how long an event stays in its ring, milliseconds.
    pub(crate) ring_ms: u64,
    /// What all rings hold together, bytes.
    pub(crate) ring_bytes: usize,
    /// Devices of a user and a class; another one takes the place of the oldest.
    pub(crate) max_devices: usize,
    /// For how long a dead letter waits for its send, milliseconds: longer than an append may take.
    pub(crate) dead_letters_ms: u64,
}

/// Why a device does not get its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStream {
    /// Events since its token are no longer here, or more than may wait for a connection: it has to sync.
    SyncRequired,
    /// MySQL is behind the rings: which groups the user is in cannot be known yet.
    MembershipsBehind,
    /// The token is ahead of the rings, and whether of the log, too, is not known yet: Kafka does not answer.
    LogEndUnknown,
}

impl NoStream {
    /// As metrics name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::SyncRequired => "sync_required",
            Self::MembershipsBehind => "memberships_behind",
            Self::LogEndUnknown => "log_end_unknown",
        }
    }
}

type Members = HashMap<GroupId, HashSet<UserId>>;

/// All of a gateway's state.
pub(crate) struct Hub {
    limits: HubLimits,
    /// The highest seen: raised by an operator when `chat.inbound` was created again. Tokens of another one are worth nothing.
    epoch: u32,
    rings: PartitionMap<PartitionRing>,
    /// Events that had to go before their time.
    dropped_for_room: u64,
    users: HashMap<UserId, ConnectedUser>,
    /// Of these users those whose span of the group is open.
    members: Members,
    sends: Sends,
    /// Connections with events for which they have not been woken.
    to_wake: Vec<Arc<Connection>>,
}

impl Hub {
    /// Without connections; each ring begins at the offset given.
    pub(crate) fn new(limits: HubLimits, epoch: u32, begin: &PartitionMap<NextOffset>) -> Self {
        let begin = |partition| begin.get(partition).copied().unwrap_or_default();
        Self {
            limits,
            epoch,
            rings: PartitionMap::full(|partition| PartitionRing::new(begin(partition))),
            dropped_for_room: 0,
            users: HashMap::new(),
            members: HashMap::new(),
            sends: Sends::default(),
            to_wake: Vec::new(),
        }
    }

    /// How far each partition is read.
    pub(crate) fn read_to(&self) -> PartitionMap<NextOffset> {
        self.rings
            .iter()
            .map(|(p, ring)| (p, ring.next()))
            .collect()
    }

    /// How many connections have a stream.
    pub(crate) fn stream_count(&self) -> usize {
        let connections = self.users.values().map(ConnectedUser::connections);
        connections.map(<[_]>::len).sum()
    }

    /// What the rings hold, bytes.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.rings.values().map(PartitionRing::bytes).sum()
    }

    /// How many events have left the rings since the start because these were full, not because of their age.
    pub(crate) fn dropped_for_room(&self) -> u64 {
        self.dropped_for_room
    }

    /// A record was read that is no event.
    pub(crate) fn advance(&mut self, partition: Partition, next: NextOffset) {
        self.rings[partition].advance(next);
    }

    /// What was read of a partition may be gone from the log: nobody goes on from it.
    pub(crate) fn forget_events(&mut self, partition: Partition) {
        let ring = &mut self.rings[partition];
        *ring = PartitionRing::new(ring.next());
    }

    /// Takes an event that is behind all before it of its partition, hands it to the connections of those whom it concerns (W4), and answers the
    /// device that sent it. The connections write it after [`Self::wake`].
    pub(crate) fn apply(&mut self, event: RingEvent, now_ms: u64) {
        self.epoch = self.epoch.max(event.event.src.offset.epoch);
        let event = Arc::new(event);
        if event.audience == Audience::Nobody {
            self.advance(event.at.partition, event.at.next());
        } else {
            self.rings[event.at.partition].push(Arc::clone(&event), now_ms);
            if !self.users.is_empty() {
                self.hand_out(&event);
            }
        }
        self.sends.decide(event.at.partition, &event.event);
    }

    /// Wakes the connections that got events, each once for all of them: a connection writes what it got together.
    pub(crate) fn wake(&mut self) {
        for connection in self.to_wake.drain(..) {
            connection.wake_for_events();
        }
    }

    fn hand_out(&mut self, event: &Arc<RingEvent>) {
        let named = event.audience.users();
        for uid in named {
            self.note_change(event, *uid);
            if let Some(user) = self.users.get(uid) {
                user.push(event, &mut self.to_wake);
            }
        }
        let Some(gid) = event.audience.group() else {
            return;
        };
        for uid in self.members.get(&gid).into_iter().flatten() {
            let user = self.users.get(uid).filter(|_| !named.contains(uid));
            if let Some(user) = user.filter(|user| user.is_member(gid, event.at.offset)) {
                user.push(event, &mut self.to_wake);
            }
        }
        if dissolves(event) {
            for uid in self.members.remove(&gid).into_iter().flatten() {
                let span = self
                    .users
                    .get_mut(&uid)
                    .and_then(|user| user.spans.get_mut(&gid));
                if let Some(span) = span {
                    span.end_at(event.at.next());
                }
            }
        }
    }

    /// A connected user whom a change of a group names joins or leaves it here, too (W2).
    fn note_change(&mut self, event: &RingEvent, uid: UserId) {
        let (Some(change), Some(gid)) = (change_for(event, uid), event.audience.group()) else {
            return;
        };
        let Some(user) = self.users.get_mut(&uid) else {
            return;
        };
        let before = user.spans.get(&gid).copied();
        user.spans
            .insert(gid, Span::after(before, event.at.offset, change));
        match change.is_member {
            true => drop(self.members.entry(gid).or_default().insert(uid)),
            false => unlist(&mut self.members, gid, uid),
        }
    }

    /// Drops what is too old or too much.
    pub(crate) fn drop_old(&mut self, now_ms: u64) {
        let oldest = now_ms.saturating_sub(self.limits.ring_ms);
        for ring in self.rings.values_mut() {
            while ring.oldest_ms().is_some_and(|received| received < oldest) {
                ring.drop_oldest();
            }
        }
        let mut held = self.ring_bytes();
        while held > self.limits.ring_bytes {
            let rings = self.rings.values_mut();
            let filled = rings.filter(|ring| ring.oldest_ms().is_some());
            let Some(ring) = filled.min_by_key(|ring| ring.oldest_ms()) else {
                break;
            };
            held -= ring.bytes();
            ring.drop_oldest();
            self.dropped_for_room += 1;
            held += ring.bytes();
        }
        self.forget_idle_users(oldest);
        self.sends
            .drop_early(now_ms.saturating_sub(self.limits.dead_letters_ms));
    }

    fn forget_idle_users(&mut self, since_ms: u64) {
        let is_idle = |user: &ConnectedUser| user.has_been_idle_since(since_ms);
        for (uid, user) in self.users.extract_if(|_, user| is_idle(user)) {
            for gid in user.spans.keys() {
                unlist(&mut self.members, *gid, uid);
            }
        }
    }

    /// Whether a user who is connected, or was a while ago, is a member of a group as of the end of its ring.
    pub(crate) fn is_member(&self, uid: UserId, gid: GroupId) -> bool {
        let next = self.rings[gid.partition()].next().get();
        let user = self.users.get(&uid);
        user.is_some_and(|user| user.is_member(gid, next))
    }

    /// The connections of a user that have a stream.
    pub(crate) fn connections_of(&self, uid: UserId) -> &[Arc<Connection>] {
        self.users.get(&uid).map_or(&[], ConnectedUser::connections)
    }

    /// The memberships of a user who is connected, or was a while ago, as of the end of the rings.
    pub(crate) fn memberships_of(&self, uid: UserId) -> Option<StoredMemberships> {
        let user = self.users.get(&uid)?;
        Some(StoredMemberships {
            spans: user.spans.iter().map(|(gid, span)| (*gid, *span)).collect(),
            applied: self.read_to(),
        })
    }

    /// Gives a connection the stream of its user from `since` on: what the rings have of it, then everything that comes (W4). The connection has no
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
        self.knows_memberships(stored)?;
        let uid = connection.uid();
        let history = History::new(uid, stored, &self.rings);
        let missed = self.missed(uid, since, &history);
        // What does not fit is not begun: a stream that breaks off before the token has moved would be asked for again and again (W8).
        if !connection.has_room_for(missed.iter().map(|event| event.frame_bytes()).sum()) {
            return Err(NoStream::SyncRequired);
        }
        let spans: HashMap<GroupId, Span> = history
            .groups()
            .filter_map(|gid| Some((gid, history.span(gid, &stored.applied)?)))
            .collect();
        connection.begin(self.read_to(), since, missed);
        for (gid, span) in &spans {
            let next = self.rings[gid.partition()].next();
            if span.is_open_at(next) {
                self.members.entry(*gid).or_default().insert(uid);
            }
        }
        let user = self.users.entry(uid).or_default();
        user.spans.extend(spans);
        user.connect(connection, self.limits.max_devices);
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

    /// Whether a token is ahead of a ring: this gateway lags (W9), or the token is not of this log (W1).
    ///
    /// # Errors
    /// [`NoStream::SyncRequired`] where no stream from it on can be complete.
    pub(crate) fn is_behind(&self, since: &SyncToken) -> Result<bool, NoStream> {
        self.holds_all_since(since)?;
        Ok(self
            .rings
            .iter()
            .any(|(p, ring)| since.get(p) > ring.next()))
    }

    /// Whether every change of a membership is in MySQL or in the rings (W3).
    fn knows_memberships(&self, stored: &StoredMemberships) -> Result<(), NoStream> {
        let applied = |partition| stored.applied.get(partition).copied().unwrap_or_default();
        if self.rings.iter().any(|(p, ring)| applied(p) < ring.low()) {
            return Err(NoStream::MembershipsBehind);
        }
        Ok(())
    }

    /// The user's events since the token, in order within each partition.
    fn missed(&self, uid: UserId, since: &SyncToken, history: &History<'_>) -> Vec<Arc<RingEvent>> {
        let mut missed: BTreeMap<EventPosition, Arc<RingEvent>> = BTreeMap::new();
        let mut add = |event: &Arc<RingEvent>| {
            missed.insert(event.at, Arc::clone(event));
        };
        for (partition, ring) in self.rings.iter() {
            ring.newest_first(Recipient::User(uid), since.get(partition))
                .for_each(&mut add);
        }
        for gid in history.groups() {
            let partition = gid.partition();
            let events =
                self.rings[partition].newest_first(Recipient::Group(gid), since.get(partition));
            events
                .filter(|event| history.concerns(gid, event.at.offset))
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
        self.sends.forget(connection);
        if let Some(user) = self.users.get_mut(&connection.uid()) {
            user.disconnect(connection, now_ms);
        }
    }

    /// Up to where `chat.inbound` is decided, as far as the rings go.
    pub(crate) fn decided(&self, partition: Partition) -> Option<SourceOffset> {
        self.sends.decided(partition)
    }

    /// A device's send is on `chat.inbound`: the device is told what becomes of it.
    pub(crate) fn track(&mut self, send: PostedSend) {
        let ring = &self.rings[send.at.partition];
        self.sends.add(send, ring);
    }

    /// A dead letter says that a record of `chat.inbound` was refused.
    pub(crate) fn refuse(&mut self, at: InboundPosition, refusal: Refusal, now_ms: u64) {
        self.sends.refuse(at, refusal, now_ms);
    }

    /// All dead letters of a partition below `next` were read.
    pub(crate) fn read_dead_letters(&mut self, partition: Partition, next: NextOffset) {
        self.sends
            .read_dead_letters(&self.rings[partition], partition, next);
    }

    /// The sends that have no event, and of which it is not known up to where dead letters have to be read.
    pub(crate) fn sends_without_event(&self) -> Vec<InboundPosition> {
        self.sends.without_event()
    }

    /// Where the dead letters ended after [`Self::sends_without_event`] had said so of these.
    pub(crate) fn wait_for_dead_letters(
        &mut self,
        of: &[InboundPosition],
        ends: &PartitionMap<NextOffset>,
    ) {
        self.sends.wait_for_dead_letters(of, ends);
        for partition in ends.partitions() {
            let next = self.sends.dead_letters_to(partition);
            self.sends
                .read_dead_letters(&self.rings[partition], partition, next);
        }
    }
}

fn unlist(members: &mut Members, gid: GroupId, uid: UserId) {
    if let Entry::Occupied(mut listed) = members.entry(gid) {
        listed.get_mut().remove(&uid);
        if listed.get().is_empty() {
            listed.remove();
        }
    }
}

//! The gateway without sockets, Kafka or clocks: the newest events of all partitions, who is connected, and what waits for each connection.
//! The rules are W1 to W10 (docs/PROTOCOL.md).

mod audience;
mod body;
mod connection;
mod head;
mod memberships;
mod own_changes;
mod queue;
mod replay;
mod ring;
mod ring_event;
mod sends;
mod shares;
#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod test_events;
#[cfg(test)]
mod tests;
mod user;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use schemas::{
    GroupId, InboundPosition, NextOffset, OffsetRange, Partition, PartitionMap, SyncToken, UserId,
    event::SourceOffset,
};

use self::{
    audience::{Audience, MembershipChange},
    body::author_of,
    own_changes::Budget,
    ring::PartitionRing,
    sends::Sends,
    shares::Shares,
    user::ConnectedUser,
};
pub(crate) use self::{
    connection::{Connection, DeviceOf, End, Next},
    memberships::{Adoption, Span, StoredMemberships},
    queue::Outgoing,
    replay::Replay,
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
    /// What one account's events hold of it, bytes.
    pub(crate) ring_bytes_of_account: usize,
    /// Devices of a user and a class; another one takes the place of the oldest.
    pub(crate) max_devices: usize,
    /// For how long a dead letter waits for its send, milliseconds: longer than an append may take.
    pub(crate) dead_letters_ms: u64,
    /// How much is looked at, listed or dropped in one turn: entries of rings, and groups.
    pub(crate) turn: usize,
}

/// Why a device does not get its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStream {
    /// Events since the device's token are no longer here, or are more than may wait for a connection: the device has to sync.
    SyncRequired,
    /// MySQL is behind the rings: which groups the user is in cannot be known yet.
    MembershipsBehind,
    /// The token is ahead of the rings, and it is not known yet whether it is ahead of the log, too: Kafka does not answer.
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

/// How many turns' worth of groups of users who are away are forgotten at once.
const FORGOTTEN_TURNS: usize = 16;

type Members = HashMap<GroupId, HashSet<UserId>>;

/// All of a gateway's state.
pub(crate) struct Hub {
    limits: HubLimits,
    /// The highest epoch seen. An operator raises it when `chat.inbound` is created again. Tokens of another epoch are void.
    epoch: u32,
    rings: PartitionMap<PartitionRing>,
    shares: Shares,
    /// Events that were dropped before their time.
    dropped_for_room: u64,
    users: HashMap<UserId, ConnectedUser>,
    /// The users whose span of the group is open.
    members: Members,
    sends: Sends,
    /// Connections with events for which they have not been woken.
    to_wake: Vec<Arc<Connection>>,
}

impl Hub {
    /// A hub without connections; each ring begins at its offset in `begin`.
    pub(crate) fn new(limits: HubLimits, epoch: u32, begin: &PartitionMap<NextOffset>) -> Self {
        let begin = |partition| begin.get(partition).copied().unwrap_or_default();
        Self {
            limits,
            epoch,
            rings: PartitionMap::full(|partition| PartitionRing::new(begin(partition))),
            shares: Shares::default(),
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

    /// A record was read that is not an event.
    pub(crate) fn advance(&mut self, partition: Partition, next: NextOffset) {
        self.rings[partition].advance(next);
    }

    /// Events that were read of a partition may be gone from the log: no device continues from them, and connected devices have to come back.
    pub(crate) fn forget_events(&mut self, partition: Partition) {
        let next = self.rings[partition].next();
        self.begin_again(partition, next);
    }

    /// A partition is read on from another offset. The events between were not handed out, and it is not known which users joined or left groups by
    /// them: connected devices have to come back, and everybody's groups are read again.
    pub(crate) fn begin_again(&mut self, partition: Partition, next: NextOffset) {
        while self.drop_oldest(partition) {}
        self.rings[partition].begin_again(next);
        self.members.clear();
        self.users.values_mut().for_each(ConnectedUser::forget);
    }

    /// How far a partition is read.
    pub(crate) fn next(&self, partition: Partition) -> NextOffset {
        self.rings[partition].next()
    }

    /// Takes an event that is above all before it in its partition, hands it to the connections of the users whom it concerns (W4), and answers the
    /// device that sent it. The connections write it after [`Self::wake`].
    pub(crate) fn apply(&mut self, event: RingEvent, now_ms: u64) {
        self.epoch = self.epoch.max(event.event.src.offset.epoch);
        let event = Arc::new(event);
        if event.audience == Audience::Nobody {
            self.advance(event.at.partition, event.at.next());
        } else {
            self.keep(&event, now_ms);
            if !self.users.is_empty() {
                self.hand_out(&event);
            }
        }
        self.sends.decide(event.at.partition, &event.event);
    }

    fn keep(&mut self, event: &Arc<RingEvent>, now_ms: u64) {
        let partition = event.at.partition;
        let number = self.rings[partition].push(Arc::clone(event), now_ms);
        if let Some(author) = author_of(&event.event) {
            let (kept, limit) = (
                (partition, number, event.bytes),
                self.limits.ring_bytes_of_account,
            );
            self.shares.add(author, kept, limit, &mut self.rings);
        }
    }

    /// Wakes each connection that got events, once for all of them, so that the connection writes them together.
    pub(crate) fn wake(&mut self) {
        for connection in self.to_wake.drain(..) {
            connection.wake_for_events();
        }
    }

    fn hand_out(&mut self, event: &Arc<RingEvent>) {
        if let Audience::Changed(gid, changes) = &event.audience {
            for (uid, change) in changes {
                self.note_change(*gid, event.at.offset, *uid, *change);
            }
        }
        for uid in event.audience.users() {
            if let Some(user) = self.users.get(&uid) {
                user.push(event, &mut self.to_wake);
            }
        }
        let Some(gid) = event.audience.group() else {
            return;
        };
        for uid in self.members.get(&gid).into_iter().flatten() {
            let user = self.users.get(uid);
            let user = user.filter(|user| user.is_member(gid, event.at.offset));
            if let Some(user) = user.filter(|_| !event.audience.names(*uid)) {
                user.push(event, &mut self.to_wake);
            }
        }
    }

    /// Applies here, too, that a user who is known here joins or leaves a group (W2).
    fn note_change(&mut self, gid: GroupId, offset: i64, uid: UserId, change: MembershipChange) {
        let Some(user) = self.users.get_mut(&uid) else {
            return;
        };
        user.change_span(gid, offset, change);
        match change.is_member {
            true => drop(self.members.entry(gid).or_default().insert(uid)),
            false => unlist(&mut self.members, gid, uid),
        }
    }

    /// Drops events that are too old or too many, at most one turn's worth. If that was all of them, it also forgets users without a device, up to
    /// [`FORGOTTEN_TURNS`] turns' worth of their groups. Returns whether that was all of them.
    pub(crate) fn drop_old(&mut self, now_ms: u64) -> bool {
        let oldest = now_ms.saturating_sub(self.limits.ring_ms);
        let mut budget = Budget::new(self.limits.turn);
        self.drop_old_events(oldest, &mut budget);
        if budget.left() == 0 {
            return false;
        }
        self.forget_idle_users(oldest, &mut Budget::new(FORGOTTEN_TURNS * self.limits.turn));
        self.sends
            .drop_early(now_ms.saturating_sub(self.limits.dead_letters_ms));
        true
    }

    fn drop_old_events(&mut self, oldest_ms: u64, budget: &mut Budget) {
        for partition in Partition::all() {
            let is_old = |ring: &PartitionRing| ring.oldest_ms().is_some_and(|ms| ms < oldest_ms);
            while is_old(&self.rings[partition]) && budget.take() {
                self.drop_oldest(partition);
            }
        }
        let mut held = self.ring_bytes();
        while held > self.limits.ring_bytes && budget.take() {
            let filled = self
                .rings
                .iter()
                .filter_map(|(p, ring)| Some((ring.oldest_ms()?, p)));
            let Some((_, partition)) = filled.min() else {
                break;
            };
            held -= self.rings[partition].bytes();
            self.drop_oldest(partition);
            self.dropped_for_room += 1;
            held += self.rings[partition].bytes();
        }
    }

    /// Whether there was an event to drop.
    fn drop_oldest(&mut self, partition: Partition) -> bool {
        let dropped = self.rings[partition].drop_oldest();
        if let Some((author, bytes)) = dropped.as_ref().and_then(ring::Entry::charge) {
            self.shares.remove(author, bytes);
        }
        dropped.is_some()
    }

    /// Forgets the groups of users who have been away since before `since_ms`, and then the users.
    fn forget_idle_users(&mut self, since_ms: u64, budget: &mut Budget) {
        let members = &mut self.members;
        self.users.retain(|uid, user| {
            if !user.has_been_idle_since(since_ms) {
                return true;
            }
            while budget.take() {
                let Some(gid) = user.forget_group() else {
                    return false;
                };
                unlist(members, gid, *uid);
            }
            true
        });
    }

    /// Whether a user who is connected, or was a while ago, is a member of a group as of the end of its ring. Members of a dissolved group stay
    /// members until they leave.
    pub(crate) fn is_member(&self, uid: UserId, gid: GroupId) -> bool {
        let next = self.rings[gid.partition()].next().get();
        let user = self.users.get(&uid);
        user.is_some_and(|user| user.is_member(gid, next))
    }

    /// The connections of a user that have a stream.
    pub(crate) fn connections_of(&self, uid: UserId) -> &[Arc<Connection>] {
        self.users.get(&uid).map_or(&[], ConnectedUser::connections)
    }

    /// Whether it is known in which groups a user is: the user is connected, or was a while ago.
    pub(crate) fn knows(&self, uid: UserId) -> bool {
        self.users.get(&uid).is_some_and(ConnectedUser::is_known)
    }

    /// Goes on to learn in which groups a user is. Returns whether that is known now.
    ///
    /// # Errors
    /// [`NoStream::MembershipsBehind`].
    pub(crate) fn adopt(&mut self, adoption: &mut Adoption, now_ms: u64) -> Result<bool, NoStream> {
        let uid = adoption.uid();
        if self.knows(uid) {
            return Ok(true);
        }
        let mut budget = Budget::new(self.limits.turn);
        let Some(spans) = adoption.look(&self.rings, &mut budget)? else {
            return Ok(false);
        };
        self.users.entry(uid).or_default().adopt(spans, now_ms);
        Ok(true)
    }

    /// Goes on to give a connection the stream of its user: what the rings have of it from the token on, then everything that comes (W4). Returns
    /// whether the connection has the stream now; it had none before.
    ///
    /// # Errors
    /// [`NoStream`]; the connection has no stream then.
    pub(crate) fn welcome(
        &mut self,
        replay: &mut Replay,
        connection: &Arc<Connection>,
    ) -> Result<bool, NoStream> {
        self.holds_all_since(replay.since())?;
        let mut budget = Budget::new(self.limits.turn);
        let uid = connection.uid();
        if !self.list_groups(uid, &mut budget)? {
            return Ok(false);
        }
        let user = self.users.get(&uid).ok_or(NoStream::MembershipsBehind)?;
        if !replay.look(&self.rings, user, &mut budget)? {
            return Ok(false);
        }
        let missed = replay.take_queue();
        connection.begin(self.read_to(), replay.since(), missed);
        let user = self.users.entry(uid).or_default();
        user.connect(connection, self.limits.max_devices);
        Ok(true)
    }

    /// Lists a user as a member of their groups, at most one turn's worth. Returns whether all are listed.
    fn list_groups(&mut self, uid: UserId, budget: &mut Budget) -> Result<bool, NoStream> {
        let user = self.users.get_mut(&uid).filter(|user| user.is_known());
        let user = user.ok_or(NoStream::MembershipsBehind)?;
        while let Some(gid) = user.next_unlisted() {
            if !budget.take() {
                return Ok(false);
            }
            if user.list(gid, self.rings[gid.partition()].next()) {
                self.members.entry(gid).or_default().insert(uid);
            }
        }
        Ok(true)
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
    /// [`NoStream::SyncRequired`] if no stream from the token on can be complete.
    pub(crate) fn is_behind(&self, since: &SyncToken) -> Result<bool, NoStream> {
        self.holds_all_since(since)?;
        Ok(self
            .rings
            .iter()
            .any(|(p, ring)| since.get(p) > ring.next()))
    }

    /// Queues a token for a connection, after everything that waits for it (W6).
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

    /// The source offset up to which `chat.inbound` is decided, as far as the rings go.
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

    /// The next dead letters of a partition are not on its log, whose bounds are `log`. Returns the offset from which dead letters are read on. The
    /// sends that wait are answered that their outcome is not known.
    pub(crate) fn lose_dead_letters(
        &mut self,
        partition: Partition,
        log: OffsetRange,
    ) -> NextOffset {
        self.sends.lose_dead_letters(partition, log)
    }

    /// The sends that have no event, and for which the end up to which dead letters have to be read is not known yet.
    pub(crate) fn sends_without_event(&self) -> Vec<InboundPosition> {
        self.sends.without_event()
    }

    /// `ends` are the ends of the dead letters, read after [`Self::sends_without_event`] had returned the sends `of`.
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

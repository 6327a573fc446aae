//! The connections of one slot of Redis as this gateway has them, and what of them has to be written: no I/O.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use schemas::{TimestampMs, UserId};
use tokio::time::Instant;
use unread_store::{AddedConnection, ConnectionId, PresentConnection};

use crate::hub::Connection;

/// A connection is written again after this time: a Redis that fails over loses its newest writes.
const REFRESH: Duration = Duration::from_secs(600);
/// The same for a connection that Redis reported as replaced.
const RECHECK: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Entries {
    lease: Option<Lease>,
    connections: HashMap<u64, Entry>,
    /// Numbers of connections that are not written under this lease, or are to be written again.
    unwritten: BTreeSet<u64>,
    /// Connections that were written too late, and are to be written again when all others are.
    late: BTreeSet<u64>,
    /// Connections that have ended, and may be written under this lease.
    ended: Vec<(UserId, u64)>,
}

struct Lease {
    id: String,
    /// The lease lasts at least until this time.
    until: Instant,
    /// From this time on other gateways have had the time to begin leases of their own.
    settled_at: Instant,
}

struct Entry {
    connection: Arc<Connection>,
    connected_at: Instant,
    /// `connected_at` by the clock of Redis, once Redis has told it.
    redis_connected_at: Option<TimestampMs>,
    /// When the connection was last written under this lease, or a write was tried.
    tried_at: Option<Instant>,
    /// At the last write Redis reported it as replaced.
    seems_replaced: bool,
}

/// What is to be written next.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) lease: String,
    pub(super) ended: Vec<(UserId, u64)>,
    pub(super) added: Vec<PresentConnection>,
}

impl Entries {
    /// A connection that was established at `connected_at` has got its stream.
    pub(super) fn add(&mut self, connection: &Arc<Connection>, connected_at: Instant) {
        let number = connection.number();
        let entry = Entry {
            connection: Arc::clone(connection),
            connected_at,
            redis_connected_at: None,
            tried_at: None,
            seems_replaced: false,
        };
        self.connections.insert(number, entry);
        self.unwritten.insert(number);
    }

    /// A connection has ended.
    pub(super) fn remove(&mut self, connection: &Connection) {
        let number = connection.number();
        self.unwritten.remove(&number);
        self.late.remove(&number);
        let entry = self.connections.remove(&number);
        // Without a lease there is nothing to remove: entries end with their lease.
        if self.lease.is_some() && entry.is_some_and(|entry| entry.tried_at.is_some()) {
            self.ended.push((connection.uid(), number));
        }
    }

    /// The lease under which everything is written.
    pub(super) fn lease(&self) -> Option<&str> {
        self.lease.as_ref().map(|lease| lease.id.as_str())
    }

    /// Begins a lease: everything is to be written, and what was written under the lease before is void.
    pub(super) fn begin_lease(&mut self, id: String, until: Instant, settled_at: Instant) {
        self.lease = Some(Lease {
            id,
            until,
            settled_at,
        });
        self.ended.clear();
        self.late.clear();
        self.unwritten = self.connections.keys().copied().collect();
        for entry in self.connections.values_mut() {
            entry.tried_at = None;
        }
    }

    pub(super) fn renew_lease(&mut self, until: Instant) {
        if let Some(lease) = &mut self.lease {
            lease.until = until;
        }
    }

    pub(super) fn lose_lease(&mut self) {
        self.lease = None;
        self.ended.clear();
    }

    /// Gives up a lease that was not renewed in time, so that connections that end meanwhile are not kept for it.
    pub(super) fn lose_lease_if_over(&mut self, now: Instant) {
        if self.lease.as_ref().is_some_and(|lease| lease.until <= now) {
            self.lose_lease();
        }
    }

    /// Whether a user without a connection in Redis counts as away: not while gateways may have lost their leases with Redis, or may lose them.
    pub(super) fn knows_who_is_away(&self, now: Instant) -> bool {
        let lease = self.lease.as_ref();
        lease.is_some_and(|lease| lease.settled_at <= now && now < lease.until)
    }

    /// Marks up to `limit` connections that were last written long ago, so that they are written again.
    pub(super) fn refresh(&mut self, now: Instant, limit: usize) {
        let is_old = |entry: &Entry| {
            let after = if entry.seems_replaced {
                RECHECK
            } else {
                REFRESH
            };
            entry.tried_at.is_some_and(|at| now >= at + after)
        };
        let old = self.connections.iter().filter(|(_, entry)| is_old(entry));
        self.unwritten
            .extend(old.map(|(number, _)| *number).take(limit));
    }

    /// Takes up to `limit` of each kind; `None` if there is nothing to write, or no lease to write it under.
    pub(super) fn take(&mut self, now: Instant, limit: usize) -> Option<Batch> {
        let lease = self.lease.as_ref()?.id.clone();
        let at = self.ended.len().saturating_sub(limit);
        let ended = self.ended.split_off(at);
        let mut added = Vec::new();
        while added.len() < limit
            && let Some(number) = self.unwritten.pop_first().or_else(|| self.late.pop_first())
        {
            if let Some(entry) = self.connections.get_mut(&number) {
                entry.tried_at = Some(now);
                added.push(entry.present(now));
            }
        }
        let is_empty = ended.is_empty() && added.is_empty();
        (!is_empty).then_some(Batch {
            lease,
            ended,
            added,
        })
    }

    /// A batch was written too late to say which connections came first.
    pub(super) fn write_again(&mut self, batch: &Batch) {
        if self.lease() == Some(&batch.lease) {
            let added = batch.added.iter().map(|added| added.number);
            let added = added.filter(|number| self.connections.contains_key(number));
            self.late.extend(added);
        }
    }

    /// Whether nothing else is to be written.
    pub(super) fn has_only_late(&self) -> bool {
        self.unwritten.is_empty() && self.ended.is_empty()
    }

    /// Puts back a batch that may not have been written.
    pub(super) fn put_back(&mut self, batch: Batch) {
        // Under another lease everything is written anyway.
        if self.lease() == Some(&batch.lease) {
            self.ended.extend(batch.ended);
            let added = batch.added.iter().map(|added| added.number);
            let added = added.filter(|number| self.connections.contains_key(number));
            self.unwritten.extend(added);
        }
    }

    /// A connection was written under this lease. Returns the connections that it replaces; none if it has ended since. The connection itself is
    /// among them after Redis has reported it as replaced twice in a row. Once is not enough: the connection that seems to be later may have ended
    /// without being removed yet, or have been written so late that its time is wrong.
    pub(super) fn replaced(
        &mut self,
        own: &ConnectionId,
        answer: AddedConnection,
    ) -> Vec<ConnectionId> {
        let Some(entry) = self.connections.get_mut(&own.number) else {
            return Vec::new();
        };
        entry.redis_connected_at = Some(answer.connected_at);
        let mut replaced = answer.replaced;
        let seemed_so = std::mem::replace(&mut entry.seems_replaced, replaced.contains(own));
        replaced.retain(|id| id != own || seemed_so);
        replaced
    }

    /// The connection of this id, if it is one under the present lease.
    pub(super) fn connection(&self, id: &ConnectionId) -> Option<Arc<Connection>> {
        let entry = self.connections.get(&id.number);
        let entry = entry.filter(|_| self.lease() == Some(&id.lease));
        entry.map(|entry| Arc::clone(&entry.connection))
    }
}

impl Entry {
    fn present(&self, now: Instant) -> PresentConnection {
        let device = self.connection.device();
        PresentConnection {
            uid: device.uid,
            number: self.connection.number(),
            class: device.class,
            device: device.id.clone(),
            connected_at: self.redis_connected_at,
            age_ms: (now - self.connected_at).as_millis() as u64,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use schemas::DeviceClass;

    use super::*;
    use crate::hub::DeviceOf;

    pub(in super::super) fn connection(number: u64) -> Arc<Connection> {
        connection_of(7, number)
    }

    pub(in super::super) fn connection_of(uid: i64, number: u64) -> Arc<Connection> {
        let device = DeviceOf {
            uid: uid.try_into().unwrap(),
            id: format!("d{number}").try_into().unwrap(),
            class: DeviceClass::Pc,
        };
        Arc::new(Connection::new(device, number, 1_000))
    }

    fn numbers(batch: Option<Batch>) -> (Vec<u64>, Vec<u64>) {
        let Batch { ended, added, .. } = batch.unwrap_or_default();
        let ended = ended.iter().map(|(_, number)| *number);
        (
            ended.collect(),
            added.iter().map(|added| added.number).collect(),
        )
    }

    fn with_lease(now: Instant, connections: &[Arc<Connection>]) -> Entries {
        let mut entries = Entries::default();
        for connection in connections {
            entries.add(connection, now);
        }
        let second = Duration::from_secs(1);
        entries.begin_lease("a".to_owned(), now + 3 * second, now + second);
        entries
    }

    #[test]
    fn what_was_written_is_removed_and_what_was_not_is_not_written() {
        let now = Instant::now();
        let all = [1, 2, 3].map(connection);
        let mut entries = with_lease(now, &all);
        assert_eq!(numbers(entries.take(now, 2)), (vec![], vec![1, 2]));
        entries.remove(&all[1]);
        entries.remove(&all[2]);
        assert_eq!(numbers(entries.take(now, 2)), (vec![2], vec![]));
        assert!(entries.take(now, 2).is_none());
    }

    #[test]
    fn what_ends_without_a_lease_is_not_kept() {
        let now = Instant::now();
        let all = [1, 2].map(connection);
        let mut entries = with_lease(now, &all);
        entries.take(now, 2);
        entries.lose_lease_if_over(now + Duration::from_secs(2));
        entries.remove(&all[0]);
        assert_eq!(entries.ended.len(), 1);
        entries.lose_lease_if_over(now + Duration::from_secs(3));
        entries.remove(&all[1]);
        assert!(entries.ended.is_empty());
    }

    #[test]
    fn what_may_not_have_been_written_is_written_again_unless_it_has_ended() {
        let now = Instant::now();
        let all = [1, 2].map(connection);
        let mut entries = with_lease(now, &all);
        let batch = entries.take(now, 9).unwrap();
        entries.remove(&all[0]);
        entries.put_back(batch);
        assert_eq!(numbers(entries.take(now, 9)), (vec![1], vec![2]));
    }

    #[test]
    fn what_was_written_too_late_does_not_come_before_what_was_not_written() {
        let now = Instant::now();
        let mut entries = with_lease(now, &[1, 2, 3].map(connection));
        let late = entries.take(now, 1).unwrap();
        entries.write_again(&late);
        assert_eq!(numbers(entries.take(now, 2)), (vec![], vec![2, 3]));
        assert_eq!(numbers(entries.take(now, 2)), (vec![], vec![1]));
    }

    #[test]
    fn under_another_lease_everything_is_written_with_the_same_times() {
        let now = Instant::now();
        let all = [1, 2].map(connection);
        let mut entries = with_lease(now, &all);
        let id = |lease: &str| ConnectionId {
            lease: lease.to_owned(),
            number: 1,
        };
        let batch = entries.take(now, 9).unwrap();
        let answer = AddedConnection {
            connected_at: TimestampMs(5),
            is_first: true,
            replaced: Vec::new(),
        };
        assert_eq!(entries.replaced(&id("a"), answer), []);
        entries.remove(&all[1]);
        entries.lose_lease();
        assert!(entries.take(now, 9).is_none(), "there is no lease");
        entries.begin_lease("b".to_owned(), now, now);
        entries.put_back(batch);
        assert!(entries.connection(&id("a")).is_none() && entries.connection(&id("b")).is_some());
        let batch = entries.take(now, 9).unwrap();
        assert_eq!((batch.lease.as_str(), batch.ended.len()), ("b", 0));
        assert_eq!(batch.added[0].connected_at, Some(TimestampMs(5)));
        assert_eq!(batch.added.len(), 1);
    }

    #[test]
    fn nobody_is_away_before_others_could_come_back_and_after_the_lease() {
        let now = Instant::now();
        let mut entries = with_lease(now, &[]);
        let second = Duration::from_secs(1);
        let away = |entries: &Entries, seconds| entries.knows_who_is_away(now + seconds * second);
        assert_eq!(
            [0, 1, 2, 3].map(|at| away(&entries, at)),
            [false, true, true, false]
        );
        entries.renew_lease(now + 9 * second);
        assert!(away(&entries, 3));
        entries.lose_lease();
        assert!(!away(&entries, 3));
    }

    #[test]
    fn what_was_written_long_ago_is_written_again() {
        let now = Instant::now();
        let mut entries = with_lease(now, &[1, 2].map(connection));
        entries.take(now, 9).unwrap();
        entries.refresh(now + REFRESH - Duration::from_secs(1), 9);
        assert!(entries.take(now, 9).is_none());
        entries.refresh(now + REFRESH, 1);
        assert_eq!(numbers(entries.take(now + REFRESH, 9)).1.len(), 1);
    }
}

//! A user with connections, or who had some a while ago.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

use schemas::{GroupId, NextOffset};

use super::{Connection, RingEvent, Span, audience::MembershipChange};

/// A user with connections, or who had some.
#[derive(Default)]
pub(super) struct ConnectedUser {
    /// The oldest first.
    connections: Vec<Arc<Connection>>,
    spans: BTreeMap<GroupId, Span>,
    /// Up to which group the user is listed as a member.
    listed_to: Option<GroupId>,
    /// Some groups are forgotten: the user is to be adopted again.
    is_forgotten: bool,
    /// Since when there is no connection. The groups are kept a while, in case the user comes back soon.
    idle_since_ms: Option<u64>,
}

impl ConnectedUser {
    /// Adds an event to each connection; those that are to be woken for it, once, are added to `to_wake`.
    pub(super) fn push(&self, event: &Arc<RingEvent>, to_wake: &mut Vec<Arc<Connection>>) {
        for connection in &self.connections {
            if connection.push_event(event) {
                to_wake.push(Arc::clone(connection));
            }
        }
    }

    pub(super) fn connections(&self) -> &[Arc<Connection>] {
        &self.connections
    }

    /// Takes the user's memberships as of the end of the rings, while there is no connection.
    pub(super) fn adopt(&mut self, spans: BTreeMap<GroupId, Span>, now_ms: u64) {
        *self = Self {
            spans,
            idle_since_ms: Some(now_ms),
            ..Self::default()
        };
    }

    pub(super) fn is_known(&self) -> bool {
        !self.is_forgotten
    }

    /// It is not known what happened in a gap of the log, and to which groups: the connections end, and the user is to be adopted again.
    pub(super) fn forget(&mut self) {
        self.is_forgotten = true;
        self.spans.clear();
        self.connections.iter().for_each(|one| one.forget());
    }

    /// Forgets one of the user's groups, and returns it.
    pub(super) fn forget_group(&mut self) -> Option<GroupId> {
        self.is_forgotten = true;
        self.spans.pop_first().map(|(gid, _)| gid)
    }

    pub(super) fn span(&self, gid: GroupId) -> Option<Span> {
        self.spans.get(&gid).copied()
    }

    pub(super) fn change_span(&mut self, gid: GroupId, offset: i64, change: MembershipChange) {
        let span = Span::after(self.span(gid), offset, change);
        self.spans.insert(gid, span);
    }

    /// The next group after one, of those in which the user is or was.
    pub(super) fn group_after(&self, gid: Option<GroupId>) -> Option<GroupId> {
        let behind = match gid {
            Some(gid) => self.spans.range((Excluded(gid), Unbounded)).next(),
            None => self.spans.first_key_value(),
        };
        behind.map(|(gid, _)| *gid)
    }

    /// The next group in which the user has yet to be listed.
    pub(super) fn next_unlisted(&self) -> Option<GroupId> {
        self.group_after(self.listed_to)
    }

    /// Marks a group as listed. Returns whether the user is to be listed in it: is a member from here on.
    pub(super) fn list(&mut self, gid: GroupId, next: NextOffset) -> bool {
        self.listed_to = Some(gid);
        self.span(gid).is_some_and(|span| span.is_open_at(next))
    }

    pub(super) fn is_member(&self, gid: GroupId, offset: i64) -> bool {
        let span = self.span(gid);
        span.is_some_and(|span| span.contains(offset))
    }

    pub(super) fn has_been_idle_since(&self, time_ms: u64) -> bool {
        self.idle_since_ms.is_some_and(|since| since < time_ms)
    }

    /// Adds a connection, and ends those whose place it takes: another of the device, and the oldest of its class if there are as many as there may
    /// be. A connection that began before another one of its device but gets its stream later is ended itself: the device uses the other one. A
    /// reader takes nobody's place.
    pub(super) fn connect(&mut self, connection: &Arc<Connection>, max_devices: usize) {
        if !connection.is_reader() {
            self.take_places(connection, max_devices);
        }
        self.idle_since_ms = None;
        self.connections.push(Arc::clone(connection));
    }

    fn take_places(&self, connection: &Connection, max_devices: usize) {
        let device = connection.device();
        let is_live = |other: &&Arc<Connection>| !other.is_ending() && !other.is_reader();
        let live = self.connections.iter().filter(is_live);
        let (same, others): (Vec<_>, Vec<_>) = live
            .filter(|other| other.device().id == device.id || other.device().class == device.class)
            .partition(|other| other.device().id == device.id);
        let too_many = (others.len() + 1).saturating_sub(max_devices);
        if same.iter().any(|other| connection.began_before(other)) {
            connection.replace();
        } else {
            for replaced in same.into_iter().chain(others.into_iter().take(too_many)) {
                replaced.replace();
            }
        }
    }

    pub(super) fn disconnect(&mut self, connection: &Arc<Connection>, now_ms: u64) {
        self.connections
            .retain(|other| !Arc::ptr_eq(other, connection));
        if self.connections.is_empty() {
            self.idle_since_ms.get_or_insert(now_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::DeviceClass;

    use super::*;
    use crate::hub::{
        DeviceOf, End, Next,
        test_events::{message, uid},
    };

    fn connection(number: u64, id: &str, class: DeviceClass) -> Arc<Connection> {
        let device = DeviceOf {
            uid: uid(1),
            id: id.to_owned().try_into().unwrap(),
            class,
        };
        Arc::new(Connection::new(device, number, 1_000))
    }

    fn is_replaced(connection: &Connection) -> bool {
        matches!(connection.next(), Next::Close(End::Replaced))
    }

    #[test]
    fn a_connection_is_woken_once_for_the_events_of_a_batch() {
        let mut user = ConnectedUser::default();
        let one = connection(1, "a", DeviceClass::Pc);
        user.connect(&one, 2);
        let woken = || {
            let mut to_wake = Vec::new();
            for offset in 0..2 {
                user.push(&message(offset, 1, 2), &mut to_wake);
            }
            to_wake.len()
        };
        assert_eq!((woken(), woken()), (1, 0));
        one.wake_for_events();
        assert_eq!(woken(), 1);
    }

    #[test]
    fn a_connection_does_not_replace_a_later_one_of_its_device() {
        let mut user = ConnectedUser::default();
        let [first, second] = [1, 2].map(|number| connection(number, "a", DeviceClass::Pc));
        user.connect(&second, 2);
        user.connect(&first, 2);
        assert!(is_replaced(&first) && !is_replaced(&second));
    }

    #[test]
    fn a_reader_takes_nobodys_place_and_nobody_takes_its() {
        let mut user = ConnectedUser::default();
        let own = connection(1, "a", DeviceClass::Pc);
        let reader = |number, id| {
            let reader = Arc::into_inner(connection(number, id, DeviceClass::Pc));
            Arc::new(reader.unwrap().of_reader())
        };
        let readers = [reader(0, "b"), reader(2, "a"), reader(3, "b")];
        user.connect(&readers[0], 1);
        user.connect(&own, 1);
        user.connect(&readers[1], 1);
        user.connect(&readers[2], 1);
        assert!(!is_replaced(&own) && !readers.iter().any(|reader| is_replaced(reader)));
    }

    #[test]
    fn the_oldest_of_a_class_and_the_same_device_are_replaced() {
        use DeviceClass::{Mobile, Pc};
        let mut user = ConnectedUser::default();
        let all = [
            ("a", Pc),
            ("b", Mobile),
            ("c", Pc),
            ("d", Pc),
            ("c", Mobile),
        ];
        let all = (0..).zip(all);
        let all: Vec<_> = all
            .map(|(number, (id, class))| connection(number, id, class))
            .collect();
        let mut replaced = Vec::new();
        for one in &all {
            user.connect(one, 2);
            replaced.push(all.iter().map(|one| is_replaced(one)).collect::<Vec<_>>());
        }
        let none = [false; 5];
        assert_eq!(replaced[2], none);
        // A third pc: the oldest goes. One that is ending already does not count.
        assert_eq!(replaced[3], [true, false, false, false, false]);
        // The same device, though its class is another now.
        assert_eq!(replaced[4], [true, false, true, false, false]);
        for one in &all {
            user.disconnect(one, 5);
        }
        assert!(user.has_been_idle_since(6) && !user.has_been_idle_since(5));
    }
}

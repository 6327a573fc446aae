//! Gateways that lag, stores that lag, devices that come and go, members who join and leave: no device misses an event of its user that its token
//! says it has, and none gets one twice or below its token.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use schemas::{
    GroupBody, GroupChange, GroupChangeKind, GroupEvent, GroupId, GroupMember, GroupRole,
    GroupSettings, Mid, NextOffset, Ordinal, Partition, PartitionMap, SyncToken,
    event::{Body, Event, Message},
};

use super::{
    Connection, Hub, HubLimits, Next, NoStream, Outgoing, RingEvent, Span, StoredMemberships,
    test_events::{event, uid},
};

const USERS: i64 = 5;
const GROUPS: [i64; 3] = [101, 102, 165];
const GATEWAYS: usize = 2;
const STEPS: usize = 400;
const LIMITS: HubLimits = HubLimits {
    ring_ms: 60,
    ring_bytes: 1 << 20,
    queue_bytes: 6_000,
    connections_of_user: 3,
};

/// What happened, as the log has it.
#[derive(Clone)]
struct Logged {
    body: Body,
    /// The users whom it concerns.
    users: BTreeSet<i64>,
}

#[derive(Default)]
struct Log {
    partitions: BTreeMap<Partition, Vec<Logged>>,
    /// Members now, with the offset by which they joined.
    members: BTreeMap<i64, BTreeMap<i64, i64>>,
    last_mid: BTreeMap<i64, i64>,
}

impl Log {
    fn end(&self, partition: Partition) -> i64 {
        self.partitions
            .get(&partition)
            .map_or(0, |log| log.len() as i64)
    }

    fn append(&mut self, body: Body, users: BTreeSet<i64>) {
        let sample = Event {
            body: body.clone(),
            ..event(0, 0, Body::Progress).event
        };
        let partition = sample.partition().unwrap();
        self.partitions
            .entry(partition)
            .or_default()
            .push(Logged { body, users });
    }

    fn step(&mut self, rng: &mut StdRng) {
        let (one, other) = (rng.random_range(1..=USERS), rng.random_range(1..=USERS));
        let gid = GROUPS[rng.random_range(0..GROUPS.len())];
        match rng.random_range(0..10) {
            0..=3 => {
                let message = Message {
                    srcid: uid(one),
                    destid: uid(other),
                    client_msg_id: "x".to_owned().try_into().unwrap(),
                    msg: "text".to_owned(),
                    mid: Mid::ZERO.next(),
                    n: Ordinal::ZERO,
                };
                self.append(Body::Message(message), [one, other].into());
            }
            4..=6 => self.say(gid, one),
            _ => self.come_or_go(gid, one),
        }
    }

    fn say(&mut self, gid: i64, by: i64) {
        let last = self.last_mid.entry(gid).or_default();
        *last += 1;
        let body = GroupBody::Message {
            client_msg_id: "x".to_owned().try_into().unwrap(),
            msg: "text".to_owned(),
            mid: Mid::try_from(*last).unwrap(),
        };
        let members = self.members.get(&gid).cloned().unwrap_or_default();
        self.append(of_group(gid, by, body), members.into_keys().collect());
    }

    /// Joins, or leaves where a member.
    fn come_or_go(&mut self, gid: i64, who: i64) {
        let offset = self.end(GroupId::try_from(gid).unwrap().partition());
        let members = self.members.entry(gid).or_default();
        let leaves = members.remove(&who).is_some();
        if !leaves {
            members.insert(who, offset);
        }
        let mut users: BTreeSet<i64> = members.keys().copied().collect();
        users.insert(who);
        let change = GroupChange {
            kind: if leaves {
                GroupChangeKind::Leave
            } else {
                GroupChangeKind::Join
            },
            settings: GroupSettings {
                name: "Lunch".to_owned(),
                owner: uid(1),
                open: true,
                whole_history: false,
                muted: false,
                dissolved: false,
            },
            member_count: members.len() as i64,
            last_mid: Mid::ZERO,
            members: vec![GroupMember {
                uid: uid(who),
                role: (!leaves).then_some(GroupRole::Member),
                muted: false,
                joined: !leaves,
            }],
        };
        self.append(
            of_group(gid, who, GroupBody::Change(Box::new(change))),
            users,
        );
    }

    /// What MySQL has of a user once it has everything below `applied`.
    fn stored(&self, who: i64, applied: &PartitionMap<NextOffset>) -> StoredMemberships {
        let mut spans: BTreeMap<GroupId, Span> = BTreeMap::new();
        for gid in GROUPS.map(|gid| GroupId::try_from(gid).unwrap()) {
            let partition = gid.partition();
            let log = self
                .partitions
                .get(&partition)
                .map_or(&[][..], Vec::as_slice);
            let below = log.iter().take(applied[partition].get() as usize);
            for (offset, logged) in (0..).zip(below) {
                let Body::Group(GroupEvent {
                    gid: of,
                    body: GroupBody::Change(change),
                    ..
                }) = &logged.body
                else {
                    continue;
                };
                for member in change
                    .members
                    .iter()
                    .filter(|one| one.uid == uid(who) && *of == gid)
                {
                    match member.role {
                        Some(_) => {
                            spans.insert(
                                gid,
                                Span {
                                    join_pos: offset,
                                    left_pos: None,
                                },
                            );
                        }
                        None => {
                            if let Some(span) = spans.get_mut(&gid) {
                                span.left_pos = Some(offset);
                            }
                        }
                    }
                }
            }
        }
        StoredMemberships {
            spans: spans.into_iter().collect(),
            applied: applied.clone(),
        }
    }
}

fn of_group(gid: i64, by: i64, body: GroupBody) -> Body {
    Body::Group(GroupEvent {
        gid: gid.try_into().unwrap(),
        by: uid(by),
        body,
    })
}

struct Device {
    user: i64,
    token: SyncToken,
    /// Everything below was synced.
    synced: SyncToken,
    held: BTreeSet<(Partition, i64)>,
    /// Up to where a head says that a group has come.
    heads: BTreeMap<GroupId, i64>,
    connection: Option<(usize, Arc<Connection>)>,
}

struct World {
    rng: StdRng,
    log: Log,
    hubs: Vec<Hub>,
    /// How far MySQL is.
    applied: PartitionMap<NextOffset>,
    devices: Vec<Device>,
    now_ms: u64,
    resumed: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let start = PartitionMap::full(|_| NextOffset::START);
        let devices = (1..=USERS).chain(1..=USERS).map(|user| Device {
            user,
            token: SyncToken::new(0, &start),
            synced: SyncToken::new(0, &start),
            held: BTreeSet::new(),
            heads: BTreeMap::new(),
            connection: None,
        });
        Self {
            rng: StdRng::seed_from_u64(seed),
            log: Log::default(),
            hubs: (0..GATEWAYS).map(|_| Hub::new(LIMITS, &start)).collect(),
            applied: start,
            devices: devices.collect(),
            now_ms: 0,
            resumed: 0,
        }
    }

    fn run(mut self) -> usize {
        for _ in 0..STEPS {
            self.now_ms += 1;
            match self.rng.random_range(0..12) {
                0..=3 => self.log.step(&mut self.rng),
                4..=6 => self.read(),
                7 => self.apply(),
                8 => self.connect(),
                9 => self.lose(),
                10 => self.ping(),
                _ => self.restart(),
            }
            self.handle();
            self.check();
        }
        self.resumed
    }

    /// A gateway reads on in one partition.
    fn read(&mut self) {
        let which = self.rng.random_range(0..GATEWAYS);
        let behind: Vec<(Partition, i64)> = self.hubs[which]
            .read_to()
            .iter()
            .map(|(partition, next)| (partition, next.get()))
            .filter(|(partition, next)| *next < self.log.end(*partition))
            .collect();
        let Some(&(partition, next)) = behind.get(self.rng.random_range(0..behind.len().max(1)))
        else {
            return;
        };
        let logged = self.log.partitions[&partition][next as usize].clone();
        let next = event(partition.get().into(), next, logged.body);
        self.hubs[which].apply(next, self.now_ms);
        self.hubs[which].drop_old(self.now_ms);
    }

    fn apply(&mut self) {
        let log = &self.log;
        let ends = self
            .applied
            .iter()
            .map(|(p, next)| (p, next.get(), log.end(p)));
        let ends: Vec<_> = ends.collect();
        for (partition, next, end) in ends {
            let next = self.rng.random_range(next..=end);
            self.applied.insert(partition, NextOffset::new(next));
        }
    }

    fn connect(&mut self) {
        let which = self.rng.random_range(0..self.devices.len());
        let gateway = self.rng.random_range(0..GATEWAYS);
        let device = &mut self.devices[which];
        if device.connection.is_some() {
            return;
        }
        let id = format!("device-{which}");
        let connection = Arc::new(Connection::new(uid(device.user), id, LIMITS.queue_bytes));
        let hub = &mut self.hubs[gateway];
        let known = hub.memberships_of(uid(device.user));
        let stored = known.unwrap_or_else(|| self.log.stored(device.user, &self.applied));
        match hub.welcome(&connection, &device.token, &stored) {
            Ok(()) => {
                self.resumed += 1;
                device.connection = Some((gateway, connection));
            }
            Err(NoStream::MembershipsBehind) => {}
            // A sync waits until MySQL has everything below the token (Y7), and has everything below what it returns.
            Err(NoStream::SyncRequired) => {
                for (partition, applied) in self.applied.iter_mut() {
                    *applied = device.token.get(partition).max(*applied);
                }
                device.token = SyncToken::new(0, &self.applied);
                device.synced = device.token.clone();
            }
        }
    }

    /// A connection breaks, with whatever waits.
    fn lose(&mut self) {
        let which = self.rng.random_range(0..self.devices.len());
        if let Some((gateway, connection)) = self.devices[which].connection.take() {
            self.hubs[gateway].close(&connection, self.now_ms);
        }
    }

    fn ping(&mut self) {
        let which = self.rng.random_range(0..self.devices.len());
        if let Some((gateway, connection)) = &self.devices[which].connection {
            self.hubs[*gateway].ping(connection);
        }
    }

    /// A gateway comes back, and begins where MySQL is.
    fn restart(&mut self) {
        if !self.rng.random_ratio(1, 8) {
            return;
        }
        let which = self.rng.random_range(0..GATEWAYS);
        self.hubs[which] = Hub::new(LIMITS, &self.applied);
        for device in &mut self.devices {
            device.connection.take_if(|(gateway, _)| *gateway == which);
        }
    }

    /// Some devices handle some of what waits.
    fn handle(&mut self) {
        for device in &mut self.devices {
            for _ in 0..self.rng.random_range(0..3) {
                let Some((gateway, connection)) = &device.connection else {
                    break;
                };
                match connection.next() {
                    Next::Wait => break,
                    Next::Close(_) => {
                        self.hubs[*gateway].close(connection, self.now_ms);
                        device.connection = None;
                    }
                    Next::Write(item) => device.take(item),
                }
            }
        }
    }

    /// What a token covers is held, was synced, is stood for by a head, or is from before the user joined the group last.
    fn check(&self) {
        for device in &self.devices {
            for (partition, log) in &self.log.partitions {
                let covered =
                    device.synced.get(*partition).get()..device.token.get(*partition).get();
                for (offset, logged) in (0..).zip(log) {
                    let is_needed =
                        covered.contains(&offset) && logged.users.contains(&device.user);
                    assert!(
                        !is_needed
                            || device.held.contains(&(*partition, offset))
                            || device.is_stood_for(&logged.body)
                            || self.is_before_joining(device.user, offset, &logged.body),
                        "user {} lacks {offset} of {partition:?}: {:?}",
                        device.user,
                        logged.body
                    );
                }
            }
        }
    }

    fn is_before_joining(&self, user: i64, offset: i64, body: &Body) -> bool {
        let Body::Group(GroupEvent { gid, .. }) = body else {
            return false;
        };
        let members = self.log.members.get(&gid.get());
        let joined = members.and_then(|members| members.get(&user));
        joined.is_none_or(|joined| offset < *joined)
    }
}

impl Device {
    fn take(&mut self, item: Outgoing) {
        match item {
            Outgoing::Event(event) => {
                let RingEvent {
                    partition, offset, ..
                } = &*event;
                assert!(
                    *offset >= self.token.get(*partition).get(),
                    "below the token"
                );
                let is_new = self.held.insert((*partition, *offset));
                assert!(is_new, "{offset} of {partition:?} twice");
                self.token.advance(*partition, NextOffset::after(*offset));
            }
            Outgoing::Head(head) => {
                let known = self.heads.entry(head.gid).or_default();
                *known = head.mid.get().max(*known);
                self.token
                    .advance(head.gid.partition(), NextOffset::after(head.offset));
            }
            Outgoing::Ping(token) => {
                let token: SyncToken = token.parse().unwrap();
                for partition in Partition::all() {
                    self.token.advance(partition, token.get(partition));
                }
            }
            Outgoing::Frame(frame) => panic!("{frame}"),
        }
    }

    fn is_stood_for(&self, body: &Body) -> bool {
        match body {
            Body::Group(GroupEvent {
                gid,
                body: GroupBody::Message { mid, .. },
                ..
            }) => self.heads.get(gid).is_some_and(|head| mid.get() <= *head),
            _ => false,
        }
    }
}

#[test]
fn no_device_misses_what_its_token_covers() {
    let resumed: usize = (0..300).map(|seed| World::new(seed).run()).sum();
    assert!(resumed > 1_000, "{resumed} streams");
}

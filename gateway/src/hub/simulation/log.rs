//! What happens, and what it makes of the rows of users.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng as _, rngs::StdRng};
use schemas::{DirectConversation, GroupId, NextOffset, Partition, PartitionMap, event::Body};

use crate::hub::test_events::{group_message_body, member_body, message_body, pinned_body, uid};

pub(super) const USERS: i64 = 5;
/// One is in a partition with conversations of users.
const GROUPS: [i64; 3] = [69, 102, 166];

/// An event.
pub(super) struct Logged {
    pub(super) body: Body,
    pub(super) content: Content,
    /// The users whom it concerns.
    pub(super) users: BTreeSet<i64>,
}

/// What a device reads in it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Message {
        of: [i64; 2],
        mid: i64,
    },
    Pinned {
        who: i64,
        peer: i64,
        pinned: bool,
    },
    GroupMessage {
        gid: i64,
        by: i64,
        mid: i64,
    },
    Member {
        gid: i64,
        who: i64,
        joins: bool,
        last_mid: i64,
    },
}

/// A user's rows of one partition, as of an offset. `pos` is the offset of the last event that changed a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub(super) contacts: BTreeMap<i64, Contact>,
    pub(super) memberships: BTreeMap<i64, Membership>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contact {
    pub(super) mid: i64,
    pub(super) pinned: bool,
    pub(super) pos: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    pub(super) join_pos: i64,
    pub(super) left_pos: Option<i64>,
    pub(super) pos: i64,
    /// The newest message when the user joined, or one of the user's own since.
    pub(super) read_mid: i64,
}

/// A group's row: its newest message, and the last event that changed it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupHead {
    pub(super) mid: i64,
    pub(super) pos: i64,
}

#[derive(Default)]
struct PartitionLog {
    events: Vec<Logged>,
    /// By offset: before the event there.
    rows: BTreeMap<i64, Vec<Rows>>,
    heads: Vec<BTreeMap<i64, GroupHead>>,
}

pub(super) struct Log(PartitionMap<PartitionLog>);

impl Log {
    pub(super) fn new() -> Self {
        Self(PartitionMap::full(|_| PartitionLog {
            events: Vec::new(),
            rows: (1..=USERS)
                .map(|user| (user, vec![Rows::default()]))
                .collect(),
            heads: vec![BTreeMap::new()],
        }))
    }

    pub(super) fn end(&self, partition: Partition) -> NextOffset {
        NextOffset::new(self.0[partition].events.len() as i64)
    }

    /// Partitions in which something has happened.
    pub(super) fn used(&self) -> impl Iterator<Item = Partition> {
        let used = self.0.iter().filter(|(_, log)| !log.events.is_empty());
        used.map(|(partition, _)| partition)
    }

    pub(super) fn event(&self, partition: Partition, offset: i64) -> &Logged {
        &self.0[partition].events[offset as usize]
    }

    pub(super) fn rows(&self, user: i64, partition: Partition, next: NextOffset) -> &Rows {
        &self.0[partition].rows[&user][next.get() as usize]
    }

    pub(super) fn head(&self, gid: i64, next: NextOffset) -> Option<GroupHead> {
        let heads = &self.0[partition_of(gid)].heads[next.get() as usize];
        heads.get(&gid).copied()
    }

    pub(super) fn step(&mut self, rng: &mut StdRng) {
        let (one, other) = (rng.random_range(1..=USERS), rng.random_range(1..=USERS));
        let gid = GROUPS[rng.random_range(0..GROUPS.len())];
        match rng.random_range(0..10) {
            0..=2 => self.send(one, other),
            3 => self.pin(one, other),
            4..=6 => self.say(gid, one),
            _ => self.come_or_go(gid, one),
        }
    }

    fn send(&mut self, from: i64, to: i64) {
        let partition = DirectConversation::new(uid(from), uid(to)).partition();
        let rows = self.rows(from, partition, self.end(partition));
        let mid = rows.contacts.get(&to).map_or(0, |row| row.mid) + 1;
        let of = [from, to];
        let body = message_body(from, to, "x", mid);
        self.append(partition, body, Content::Message { of, mid }, of.into());
    }

    fn pin(&mut self, who: i64, peer: i64) {
        let partition = DirectConversation::new(uid(who), uid(peer)).partition();
        let rows = self.rows(who, partition, self.end(partition));
        let pinned = !rows.contacts.get(&peer).is_some_and(|row| row.pinned);
        let body = pinned_body(who, peer, pinned);
        let content = Content::Pinned { who, peer, pinned };
        self.append(partition, body, content, [who].into());
    }

    fn say(&mut self, gid: i64, by: i64) {
        let partition = partition_of(gid);
        let mid = self.last_mid(gid) + 1;
        let members = self.members(gid);
        let body = group_message_body(gid, by, "x", mid);
        let content = Content::GroupMessage { gid, by, mid };
        self.append(partition, body, content, members);
    }

    /// Joins, or leaves where a member.
    fn come_or_go(&mut self, gid: i64, who: i64) {
        let (mut users, last_mid) = (self.members(gid), self.last_mid(gid));
        let joins = users.insert(who);
        let content = Content::Member {
            gid,
            who,
            joins,
            last_mid,
        };
        let body = member_body(gid, who, joins, last_mid);
        self.append(partition_of(gid), body, content, users);
    }

    fn last_mid(&self, gid: i64) -> i64 {
        let head = self.head(gid, self.end(partition_of(gid)));
        head.map_or(0, |head| head.mid)
    }

    fn members(&self, gid: i64) -> BTreeSet<i64> {
        let partition = partition_of(gid);
        let is_member = |user: &i64| {
            let rows = self.rows(*user, partition, self.end(partition));
            rows.is_member(gid)
        };
        (1..=USERS).filter(is_member).collect()
    }

    fn append(&mut self, partition: Partition, body: Body, content: Content, users: BTreeSet<i64>) {
        let log = &mut self.0[partition];
        let offset = log.events.len() as i64;
        for (user, rows) in &mut log.rows {
            let mut next = rows[offset as usize].clone();
            next.apply(*user, offset, content);
            rows.push(next);
        }
        let mut heads = log.heads[offset as usize].clone();
        if let Content::GroupMessage { gid, .. } | Content::Member { gid, .. } = content {
            let head = heads.entry(gid).or_default();
            head.pos = offset;
            if let Content::GroupMessage { mid, .. } = content {
                head.mid = mid;
            }
        }
        log.heads.push(heads);
        log.events.push(Logged {
            body,
            content,
            users,
        });
    }
}

impl Rows {
    pub(super) fn is_member(&self, gid: i64) -> bool {
        let row = self.memberships.get(&gid);
        row.is_some_and(|row| row.left_pos.is_none())
    }

    fn apply(&mut self, user: i64, offset: i64, content: Content) {
        match content {
            Content::Message {
                of: [from, to],
                mid,
            } if [from, to].contains(&user) => {
                let row = self
                    .contacts
                    .entry(if user == from { to } else { from })
                    .or_default();
                (row.mid, row.pos) = (mid, offset);
            }
            Content::Pinned { who, peer, pinned } if who == user => {
                let row = self.contacts.entry(peer).or_default();
                (row.pinned, row.pos) = (pinned, offset);
            }
            Content::GroupMessage { gid, by, mid } if by == user => {
                let row = self.memberships.get_mut(&gid);
                row.into_iter().for_each(|row| row.read_mid = mid);
            }
            Content::Member {
                gid,
                who,
                joins,
                last_mid,
            } if who == user => {
                let left = self.memberships.get(&gid).map(|row| row.join_pos);
                let row = Membership {
                    join_pos: if joins {
                        offset
                    } else {
                        left.unwrap_or(offset)
                    },
                    left_pos: (!joins).then_some(offset),
                    pos: offset,
                    read_mid: last_mid,
                };
                self.memberships.insert(gid, row);
            }
            _ => {}
        }
    }
}

pub(super) fn partition_of(gid: i64) -> Partition {
    GroupId::try_from(gid).unwrap().partition()
}

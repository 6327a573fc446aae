//! A device with the client's rules: it moves its token with all that it handles (W8), and takes nothing below it (W9).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schemas::{NextOffset, Partition, SyncToken};

use super::{
    log::{Content, Log},
    stores::{Answer, Row},
};
use crate::hub::{Connection, Outgoing};

/// What a device knows of a partition: by peer the newest message and whether it is pinned, by group the newest message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    contacts: BTreeMap<i64, (i64, bool)>,
    groups: BTreeMap<i64, i64>,
}

pub(super) struct Device {
    pub(super) user: i64,
    /// Absent before the first sync.
    pub(super) token: Option<SyncToken>,
    known: BTreeMap<Partition, Known>,
    /// Events that were handed to it.
    handled: BTreeSet<(Partition, i64)>,
    /// The gateway, and the connection.
    pub(super) connection: Option<(usize, Arc<Connection>)>,
}

impl Device {
    pub(super) fn new(user: i64) -> Self {
        Self {
            user,
            token: None,
            known: BTreeMap::new(),
            handled: BTreeSet::new(),
            connection: None,
        }
    }

    /// Takes the answer of a sync.
    pub(super) fn synced(&mut self, answer: Answer) {
        if answer.full {
            self.known.clear();
        }
        for (partition, row) in answer.rows {
            let known = self.known.entry(partition).or_default();
            match row {
                Row::Contact(peer, row) => {
                    known.contacts.insert(peer, (row.mid, row.pinned));
                }
                Row::Group(gid, mid) => {
                    known.groups.insert(gid, mid);
                }
                Row::Left(gid) => {
                    known.groups.remove(&gid);
                }
            }
        }
        let token = self.token.get_or_insert_with(|| answer.next.clone());
        for partition in Partition::all() {
            token.advance(partition, answer.next.get(partition));
        }
    }

    /// Handles a frame.
    pub(super) fn take(&mut self, item: Outgoing, log: &Log) {
        match item {
            Outgoing::Event(event) => {
                let (partition, offset) = (event.partition, event.offset);
                self.take_event(partition, offset, log);
                self.cover(partition, NextOffset::after(offset), log);
            }
            Outgoing::Head(head) => {
                let partition = head.gid.partition();
                self.assert_not_below(partition, head.offset);
                let known = self.known.entry(partition).or_default();
                if let Some(mid) = known.groups.get_mut(&head.gid.get()) {
                    *mid = head.mid.get().max(*mid);
                }
                self.cover(partition, NextOffset::after(head.offset), log);
            }
            Outgoing::Ping(token) => {
                let token: SyncToken = token.parse().unwrap();
                for partition in log.used() {
                    self.cover(partition, token.get(partition), log);
                }
            }
            Outgoing::Frame(frame) => panic!("{frame:?}"),
        }
    }

    fn take_event(&mut self, partition: Partition, offset: i64, log: &Log) {
        self.assert_not_below(partition, offset);
        self.handled.insert((partition, offset));
        let known = self.known.entry(partition).or_default();
        match log.event(partition, offset).content {
            Content::Message {
                of: [from, to],
                mid,
            } => {
                let peer = if from == self.user { to } else { from };
                let row = known.contacts.entry(peer).or_default();
                row.0 = mid.max(row.0);
            }
            Content::Pinned { peer, pinned, .. } => {
                known.contacts.entry(peer).or_default().1 = pinned;
            }
            Content::GroupMessage { gid, mid } => {
                if let Some(known) = known.groups.get_mut(&gid) {
                    *known = mid.max(*known);
                }
            }
            Content::Member {
                gid,
                who,
                joins,
                last_mid,
            } if who == self.user => {
                if joins {
                    known.groups.insert(gid, last_mid);
                } else {
                    known.groups.remove(&gid);
                }
            }
            Content::Member { .. } => {}
        }
    }

    fn assert_not_below(&self, partition: Partition, offset: i64) {
        let token = self.token.as_ref().unwrap();
        assert!(
            !token.covers(partition, offset),
            "{offset} of {partition:?} is below the token"
        );
    }

    /// The token moves over events: each that is the user's was handed over, or a head has stood for it. Those from before the user joined a group
    /// last are none: the membership row no longer says that there was a time before.
    fn cover(&mut self, partition: Partition, next: NextOffset, log: &Log) {
        let token = self.token.as_mut().unwrap();
        let covered = token.get(partition).get()..next.get();
        token.advance(partition, next);
        let rows = log.rows(self.user, partition, log.end(partition));
        let known = self.known.get(&partition);
        for offset in covered {
            let logged = log.event(partition, offset);
            let is_handled = self.handled.contains(&(partition, offset));
            if is_handled || !logged.users.contains(&self.user) {
                continue;
            }
            let (gid, mid) = match logged.content {
                Content::GroupMessage { gid, mid } => (gid, mid),
                Content::Member { gid, who, .. } if who != self.user => (gid, i64::MAX),
                other => panic!(
                    "user {} lacks {offset} of {partition:?}: {other:?}",
                    self.user
                ),
            };
            let is_earlier = rows.memberships[&gid].left_pos.is_some()
                || rows.memberships[&gid].join_pos > offset;
            let is_stood_for = known
                .and_then(|known| known.groups.get(&gid))
                .is_some_and(|known| mid <= *known);
            assert!(
                is_earlier || is_stood_for,
                "user {} lacks {offset} of {partition:?}: {:?}",
                self.user,
                logged.content
            );
        }
    }

    /// Where its token covers the whole of a partition, it knows what there is. Whether it covers all of them.
    pub(super) fn check(&self, log: &Log) -> bool {
        let Some(token) = &self.token else {
            return false;
        };
        let mut covers_all = true;
        for partition in log.used() {
            if token.get(partition) < log.end(partition) {
                covers_all = false;
                continue;
            }
            let known = self.known.get(&partition).cloned().unwrap_or_default();
            assert_eq!(
                known,
                truth(log, self.user, partition),
                "user {}, {partition:?}",
                self.user
            );
        }
        covers_all
    }
}

fn truth(log: &Log, user: i64, partition: Partition) -> Known {
    let end = log.end(partition);
    let rows = log.rows(user, partition, end);
    let contacts = rows.contacts.iter();
    let joined = rows.memberships.keys().filter(|gid| rows.is_member(**gid));
    Known {
        contacts: contacts
            .map(|(peer, row)| (*peer, (row.mid, row.pinned)))
            .collect(),
        groups: joined
            .map(|gid| (*gid, log.head(*gid, end).unwrap().mid))
            .collect(),
    }
}

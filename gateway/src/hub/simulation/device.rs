//! A device: the core of the client in Rust, with the frames as they are written. It moves its token with all that it handles (W8), and takes nothing
//! below it (W9).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use client::{
    SyncAnswer,
    device::{ChatWith, DeviceState, ServerFrame as Frame},
};
use schemas::{DirectConversation, NextOffset, Partition, Recipient, SyncToken};

use super::log::{Content, Log};
use crate::{
    frames::{Format, ServerFrame, head_frame},
    hub::{Connection, Outgoing, test_events::uid},
};

/// What a device knows of a partition: by peer the newest message and whether it is pinned, by group the newest message and how many are unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    contacts: BTreeMap<i64, (i64, bool)>,
    groups: BTreeMap<i64, (i64, i64)>,
}

pub(super) struct Device {
    pub(super) user: i64,
    state: DeviceState,
    /// Events that were handed to it.
    handled: BTreeSet<(Partition, i64)>,
    /// The gateway, and the connection.
    pub(super) connection: Option<(usize, Arc<Connection>)>,
}

impl Device {
    pub(super) fn new(user: i64) -> Self {
        Self {
            user,
            state: DeviceState::new(uid(user)),
            handled: BTreeSet::new(),
            connection: None,
        }
    }

    /// Absent before the first sync.
    pub(super) fn token(&self) -> Option<&SyncToken> {
        self.state.token()
    }

    /// Takes the answer of a sync.
    pub(super) fn synced(&mut self, answer: SyncAnswer) {
        self.state.take_sync(answer);
    }

    /// Handles a frame.
    pub(super) fn take(&mut self, item: &Outgoing, log: &Log) {
        let before = self.token().unwrap().clone();
        let frame = match item {
            Outgoing::Event(event) => {
                self.assert_not_below(event.partition, event.offset);
                self.handled.insert((event.partition, event.offset));
                event.frame(Format::Json).clone()
            }
            Outgoing::Head(head) => {
                self.assert_not_below(head.gid.partition(), head.offset);
                Format::Json.encode(&head_frame(head))
            }
            Outgoing::Ping(token) => Format::Json.encode(&ServerFrame::Ping { token: Some(token) }),
            Outgoing::Frame(frame) => panic!("{frame:?}"),
        };
        match serde_json::from_str(frame.to_text().unwrap()).unwrap() {
            Frame::Event(event) => drop(self.state.take_event(*event)),
            Frame::Head(head) => drop(self.state.take_head(head)),
            Frame::Ping { token } => self.state.take_ping(&token.unwrap().parse().unwrap()),
            other => panic!("{other:?}"),
        }
        for partition in log.used() {
            self.cover(partition, before.get(partition), log);
        }
    }

    fn assert_not_below(&self, partition: Partition, offset: i64) {
        let token = self.token().unwrap();
        assert!(
            !token.covers(partition, offset),
            "{offset} of {partition:?} is below the token"
        );
    }

    /// The token moves over events: each that is the user's was handed over, or a head has stood for it. Those from before the user joined a group
    /// last are none: the membership row no longer says that there was a time before.
    fn cover(&self, partition: Partition, from: NextOffset, log: &Log) {
        let covered = from.get()..self.token().unwrap().get(partition).get();
        if covered.is_empty() {
            return;
        }
        let rows = log.rows(self.user, partition, log.end(partition));
        let known = self.known(partition);
        for offset in covered {
            let logged = log.event(partition, offset);
            let is_handled = self.handled.contains(&(partition, offset));
            if is_handled || !logged.users.contains(&self.user) {
                continue;
            }
            let (gid, mid) = match logged.content {
                Content::GroupMessage { gid, mid, .. } => (gid, mid),
                Content::Member { gid, who, .. } if who != self.user => (gid, i64::MAX),
                other => panic!(
                    "user {} lacks {offset} of {partition:?}: {other:?}",
                    self.user
                ),
            };
            let is_earlier = rows.memberships[&gid].left_pos.is_some()
                || rows.memberships[&gid].join_pos > offset;
            let known = known.groups.get(&gid);
            let is_stood_for = known.is_some_and(|(last_mid, _)| mid <= *last_mid);
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
        let Some(token) = self.token() else {
            return false;
        };
        let mut covers_all = true;
        for partition in log.used() {
            if token.get(partition) < log.end(partition) {
                covers_all = false;
                continue;
            }
            assert_eq!(
                self.known(partition),
                truth(log, self.user, partition),
                "user {}, {partition:?}",
                self.user
            );
        }
        covers_all
    }

    fn known(&self, partition: Partition) -> Known {
        let mut known = Known::default();
        for (key, chat) in self.state.chats() {
            let last_mid = chat.last_mid.get();
            match (key, &chat.with) {
                (Recipient::User(peer), ChatWith::User { flags, .. })
                    if DirectConversation::new(uid(self.user), *peer).partition() == partition =>
                {
                    known.contacts.insert(peer.get(), (last_mid, flags.pinned));
                }
                (Recipient::Group(gid), _) if gid.partition() == partition => {
                    let unread = chat.unread.pc.unwrap();
                    known.groups.insert(gid.get(), (last_mid, unread));
                }
                _ => {}
            }
        }
        known
    }
}

fn truth(log: &Log, user: i64, partition: Partition) -> Known {
    let end = log.end(partition);
    let rows = log.rows(user, partition, end);
    let contacts = rows.contacts.iter();
    let joined = rows.memberships.iter();
    let joined = joined.filter(|(_, row)| row.left_pos.is_none());
    Known {
        contacts: contacts
            .map(|(peer, row)| (*peer, (row.mid, row.pinned)))
            .collect(),
        groups: joined
            .map(|(gid, row)| {
                let last_mid = log.head(*gid, end).unwrap().mid;
                (*gid, (last_mid, last_mid - row.read_mid))
            })
            .collect(),
    }
}

//! Which messages of its groups a device was told of: by their events, by heads, and by the rows of a sync. There is no gap.

use std::collections::{BTreeMap, BTreeSet};

use api::HeadFrame;
use client::SyncAnswer;
use schemas::{GroupId, Mid, Recipient, UserId, event::Body};

use crate::hub::RingEvent;

#[derive(Default)]
pub(super) struct Told {
    to: BTreeMap<GroupId, Mid>,
    /// Groups that the user has left, as a sync said. A sync that returns everything says so of all groups that it does not have.
    left: BTreeSet<GroupId>,
    has_all: bool,
    /// Another page follows of an answer that returns everything.
    goes_on: bool,
    /// Messages of `left` groups that came after the sync: its token is below what its rows know (Y2), and until the leave the user is a member.
    pub(super) of_left: usize,
}

impl Told {
    pub(super) fn take_sync(&mut self, page: &SyncAnswer) {
        if page.full && !self.goes_on {
            self.to.clear();
            self.has_all = true;
        }
        self.goes_on = page.full && page.more;
        for row in &page.groups {
            self.left.remove(&row.gid);
            self.raise(row.gid, row.last_mid);
        }
        for gid in &page.left {
            self.to.remove(gid);
            self.left.insert(*gid);
        }
    }

    pub(super) fn take_head(&mut self, head: &HeadFrame) {
        if !self.has_left(head.gid) {
            self.raise(head.gid, head.mid);
        }
    }

    fn has_left(&self, gid: GroupId) -> bool {
        self.left.contains(&gid) || (self.has_all && !self.to.contains_key(&gid))
    }

    pub(super) fn take_event(&mut self, event: &RingEvent, user: UserId) {
        match &event.event.body {
            Body::Message(message) => {
                if let Recipient::Group(gid) = message.to {
                    self.take_message(gid, message.mid);
                }
            }
            Body::GroupChange(change) => {
                let own = change.members.iter().find(|member| member.uid == user);
                match own.map(|own| (own.role, own.joined)) {
                    Some((Some(_), true)) => {
                        self.left.remove(&change.gid);
                        self.to.insert(change.gid, change.last_mid);
                    }
                    Some((None, _)) => drop(self.to.remove(&change.gid)),
                    Some((Some(_), false)) | None => {}
                }
            }
            _ => {}
        }
    }

    fn take_message(&mut self, gid: GroupId, mid: Mid) {
        if self.has_left(gid) {
            self.of_left += 1;
            return;
        }
        let known = self.to.get(&gid).copied();
        assert!(
            known.is_some_and(|known| mid <= known.next()),
            "message {mid} of {gid} comes after {known:?}"
        );
        self.raise(gid, mid);
    }

    fn raise(&mut self, gid: GroupId, mid: Mid) {
        let known = self.to.entry(gid).or_default();
        *known = mid.max(*known);
    }
}

//! MySQL: two sinks that lag and coalesce, and the answer of a sync (Y1 to Y7) and of a read of memberships from them.

use rand::{Rng as _, rngs::StdRng};
use schemas::{GroupId, NextOffset, Partition, PartitionMap, SyncToken};

use super::log::{Contact, Log};
use crate::hub::{Span, StoredMemberships};

/// How far the sinks are: contacts and memberships in the users' database, groups in theirs.
pub(super) struct Stores {
    pub(super) contacts: PartitionMap<NextOffset>,
    groups: PartitionMap<NextOffset>,
}

/// A row of a sync.
pub(super) enum Row {
    Contact(i64, Contact),
    /// With the newest message.
    Group(i64, i64),
    Left(i64),
}

pub(super) struct Answer {
    pub(super) rows: Vec<(Partition, Row)>,
    pub(super) next: SyncToken,
    pub(super) full: bool,
}

impl Stores {
    pub(super) fn new() -> Self {
        Self {
            contacts: PartitionMap::full(|_| NextOffset::START),
            groups: PartitionMap::full(|_| NextOffset::START),
        }
    }

    /// One of the sinks goes on in some partitions.
    pub(super) fn apply(&mut self, log: &Log, rng: &mut StdRng) {
        let sink = match rng.random() {
            true => &mut self.contacts,
            false => &mut self.groups,
        };
        for partition in log.used() {
            let (next, end) = (sink[partition].get(), log.end(partition).get());
            if rng.random() {
                sink.insert(partition, NextOffset::new(rng.random_range(next..=end)));
            }
        }
    }

    pub(super) fn apply_all(&mut self, log: &Log) {
        for partition in log.used() {
            self.contacts.insert(partition, log.end(partition));
            self.groups.insert(partition, log.end(partition));
        }
    }

    /// What the gateway reads of a user.
    pub(super) fn memberships(&self, log: &Log, user: i64) -> StoredMemberships {
        let mut spans = Vec::new();
        for partition in log.used() {
            let rows = log.rows(user, partition, self.contacts[partition]);
            for (gid, row) in &rows.memberships {
                let span = Span {
                    join_pos: row.join_pos,
                    left_pos: row.left_pos,
                };
                spans.push((GroupId::try_from(*gid).unwrap(), span));
            }
        }
        StoredMemberships {
            spans,
            applied: self.contacts.clone(),
        }
    }

    /// `None` where a store has not applied what the device knows (Y7): the answer is waited for.
    pub(super) fn sync(&self, log: &Log, user: i64, since: Option<&SyncToken>) -> Option<Answer> {
        let mut rows = Vec::new();
        let mut applied = self.contacts.clone();
        for partition in log.used() {
            let known = since.map_or(NextOffset::START, |since| since.get(partition));
            let least_pos = since.map_or(-1, |since| since.get(partition).get());
            let stored = log.rows(user, partition, self.contacts[partition]);
            let has_groups = !stored.memberships.is_empty();
            if has_groups {
                let both = self.groups[partition].min(applied[partition]);
                applied.insert(partition, both);
            }
            if applied[partition] < known {
                return None;
            }
            let contacts = stored
                .contacts
                .iter()
                .filter(|(_, row)| row.pos >= least_pos);
            rows.extend(contacts.map(|(peer, row)| (partition, Row::Contact(*peer, *row))));
            let in_groups = log.rows(user, partition, self.groups[partition]);
            for (gid, row) in &stored.memberships {
                let has_moved = row.pos >= least_pos;
                let is_member = row.left_pos.is_none();
                let head = log.head(*gid, self.groups[partition]);
                match head.filter(|_| is_member && in_groups.is_member(*gid)) {
                    Some(head) if has_moved || head.pos >= least_pos => {
                        rows.push((partition, Row::Group(*gid, head.mid)));
                    }
                    None if !is_member && has_moved => rows.push((partition, Row::Left(*gid))),
                    _ => {}
                }
            }
        }
        Some(Answer {
            rows,
            next: SyncToken::new(0, &applied),
            full: since.is_none(),
        })
    }
}

//! MySQL: two sinks that lag and coalesce, and the answer of a sync (Y1 to Y7) and of a read of memberships from them.

use client::SyncAnswer;
use rand::{Rng as _, rngs::StdRng};
use schemas::{GroupId, NextOffset, Partition, PartitionMap, SyncToken};
use serde_json::json;

use super::log::{Contact, GroupHead, Log, Membership};
use crate::hub::{Span, StoredMemberships};

/// How far the sinks are: contacts and memberships in the users' database, groups in theirs.
pub(super) struct Stores {
    pub(super) contacts: PartitionMap<NextOffset>,
    groups: PartitionMap<NextOffset>,
}

/// A row of a sync.
enum Row {
    Contact(i64, Contact),
    Group(i64, Membership, GroupHead),
    Left(i64),
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
    pub(super) fn sync(
        &self,
        log: &Log,
        user: i64,
        since: Option<&SyncToken>,
    ) -> Option<SyncAnswer> {
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
                        rows.push((partition, Row::Group(*gid, *row, head)));
                    }
                    None if !is_member && has_moved => rows.push((partition, Row::Left(*gid))),
                    _ => {}
                }
            }
        }
        Some(answer(rows, &applied, since.is_none()))
    }
}

/// As query-api returns it.
fn answer(
    rows: Vec<(Partition, Row)>,
    applied: &PartitionMap<NextOffset>,
    full: bool,
) -> SyncAnswer {
    let (mut conversations, mut groups, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let by_class = |count: i64| json!({"pc": count, "mobile": count});
    for (partition, row) in rows {
        match row {
            Row::Contact(peer, row) => conversations.push(json!({
                "peer": peer.to_string(), "last": null, "last_mid": row.mid, "favourite": false, "pinned": row.pinned, "muted": false,
                "blocked": false, "unread": by_class(0), "read_mid": by_class(0), "peer_n": 0, "at": format!("{partition}:{}", row.pos),
            })),
            Row::Group(gid, row, head) => groups.push(json!({
                "gid": gid.to_string(), "name": "Lunch", "role": "member", "muted": false, "dissolved": false, "member_count": 1,
                "whole_history": false, "join_mid": 0, "last": null, "last_mid": head.mid, "chg": 0,
                "unread": by_class((head.mid - row.read_mid).max(0)), "read_mid": by_class(row.read_mid),
                "at": format!("{partition}:{}", row.pos.max(head.pos)),
            })),
            Row::Left(gid) => left.push(gid.to_string()),
        }
    }
    let next = SyncToken::new(0, applied);
    let answer = json!({"conversations": conversations, "groups": groups, "left": left, "next": next, "more": false, "full": full});
    serde_json::from_value(answer).unwrap()
}

//! MySQL: two sinks that lag and coalesce, and what is read from them: a sync (Y1 to Y7), pages of a chat, a user's memberships.

use std::collections::BTreeMap;

use rand::{Rng as _, rngs::StdRng};
use schemas::{
    ConversationId, DirectConversation, NextOffset, Partition, PartitionMap, Recipient, SyncToken,
    UserId,
    sync::{Applied, RowKey, SyncCursor},
};
use serde_json::{Value, json};

use super::{
    conversation::{Conversation, Seen, View},
    log::Log,
};
use crate::hub::{Span, StoredMemberships};

/// Rows of a page of a sync.
const SYNC_LIMIT: usize = 1;

/// How far the sinks are: the one of contacts and memberships in the users' database, and the one of messages and groups in theirs.
pub(super) struct Stores {
    pub(super) contacts: PartitionMap<NextOffset>,
    groups: PartitionMap<NextOffset>,
}

/// A row of a sync: a conversation or group with its last event, or nothing if the user has left.
type Row<'a> = (RowKey, Option<(Seen<'a>, i64)>);

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

    /// What is read once all is stored.
    pub(super) fn at_end(log: &Log) -> Self {
        let end = || PartitionMap::full(|partition| log.end(partition));
        Self {
            contacts: end(),
            groups: end(),
        }
    }

    /// What the gateway reads of a user.
    pub(super) fn memberships(&self, log: &Log, user: UserId) -> StoredMemberships {
        let mut spans = BTreeMap::new();
        for partition in log.used() {
            for (id, conversation) in log.conversations(partition, self.contacts[partition]) {
                let view = conversation.views.get(&user);
                if let (ConversationId::Group(gid), Some(view)) = (id, view) {
                    let span = Span {
                        join_pos: view.join_pos,
                        left_pos: view.left_pos,
                    };
                    spans.insert(*gid, span);
                }
            }
        }
        StoredMemberships {
            spans,
            applied: self.contacts.clone(),
        }
    }

    /// A page of a sync. `None` if a store has not applied what the device knows (Y7): the answer waits for that.
    pub(super) fn sync(&self, log: &Log, user: UserId, since: Option<&SyncToken>) -> Option<Value> {
        let cursor = SyncCursor::new(since.cloned(), 0);
        let of_contacts: Applied = self.contacts.clone().into_iter().collect();
        let with_groups = |(partition, _): &(Partition, NextOffset)| {
            let known = log.conversations(*partition, self.contacts[*partition]);
            let mut groups = known.iter().filter(|(id, _)| is_group(**id));
            *partition >= cursor.begin().0 && groups.any(|(_, one)| one.views.contains_key(&user))
        };
        let of_groups: Applied = self
            .groups
            .clone()
            .into_iter()
            .filter(with_groups)
            .collect();
        let is_behind = |of_store| cursor.first_behind(of_store).is_some();
        if is_behind(&of_contacts) || is_behind(&of_groups) {
            return None;
        }
        let mut applied = of_contacts;
        applied.add(of_groups);
        let mut rows: Vec<Row<'_>> = log
            .used()
            .flat_map(|partition| self.rows(log, user, partition, &cursor))
            .filter(|(key, _)| *key > cursor.begin())
            .collect();
        rows.sort_by_key(|(key, _)| *key);
        let more = rows.len() > SYNC_LIMIT;
        rows.truncate(SYNC_LIMIT);
        let end = rows.last().filter(|_| more).map(|(key, _)| *key);
        let mut answer = json!({
            "conversations": [], "groups": [], "left": [], "next": cursor.next(end, &applied), "more": more, "full": cursor.full,
        });
        for ((_, in_groups, id), row) in rows {
            let (list, row) = match row {
                Some((seen, at)) if in_groups => ("groups", seen.row(at)),
                Some((seen, at)) => ("conversations", seen.row(at)),
                None => ("left", id.to_string().into()),
            };
            answer[list].as_array_mut().unwrap().push(row);
        }
        Some(answer)
    }

    /// What has changed of a partition.
    fn rows<'a>(
        &self,
        log: &'a Log,
        user: UserId,
        partition: Partition,
        cursor: &SyncCursor,
    ) -> Vec<Row<'a>> {
        let least_pos = cursor.least_pos(partition);
        let groups = log.conversations(partition, self.groups[partition]);
        let own = log.conversations(partition, self.contacts[partition]);
        let own = own.iter().filter_map(|(id, one)| {
            let view = one.views.get(&user)?;
            let has_moved = view.event_offset >= least_pos;
            match id {
                ConversationId::Direct(direct) => {
                    let key = (partition, false, direct.peer_of(user).get());
                    has_moved.then(|| {
                        (
                            key,
                            Some((seen(*id, user, one, view.clone()), view.event_offset)),
                        )
                    })
                }
                ConversationId::Group(gid) if view.left_pos.is_some() => {
                    let key = (partition, true, gid.get());
                    (has_moved && !cursor.full).then_some((key, None))
                }
                ConversationId::Group(gid) => {
                    let group = groups.get(id)?;
                    if !group.is_member(user) {
                        let key = (partition, true, gid.get());
                        let has_left = self.groups[partition].get() > view.join_pos;
                        let is_said = has_left && group.event_offset >= least_pos && !cursor.full;
                        return is_said.then_some((key, None));
                    }
                    let seen = seen(*id, user, group, view.clone());
                    let row = (seen, view.event_offset.max(group.event_offset));
                    (has_moved || group.event_offset >= least_pos)
                        .then_some(((partition, true, gid.get()), Some(row)))
                }
            }
        });
        own.collect()
    }

    /// All chats of a user in a partition, as a sync returns them.
    pub(super) fn chats(
        &self,
        log: &Log,
        user: UserId,
        partition: Partition,
    ) -> BTreeMap<Recipient, Value> {
        let rows = self.rows(log, user, partition, &SyncCursor::new(None, 0));
        let chats = rows.into_iter().filter_map(|((_, in_groups, id), row)| {
            let (seen, at) = row?;
            let key = match in_groups {
                true => Recipient::Group(id.try_into().unwrap()),
                false => Recipient::User(id.try_into().unwrap()),
            };
            Some((key, seen.row(at)))
        });
        chats.collect()
    }

    /// What a user sees of a conversation; `None` if a store has not applied what the device knows of it, or the user is not in the group.
    pub(super) fn seen<'a>(
        &self,
        log: &'a Log,
        user: UserId,
        key: Recipient,
        known: &SyncToken,
    ) -> Option<Seen<'a>> {
        let id: ConversationId = match key {
            Recipient::User(peer) => DirectConversation::new(user, peer).into(),
            Recipient::Group(gid) => gid.into(),
        };
        let partition = id.partition();
        let (contacts, groups) = (self.contacts[partition], self.groups[partition]);
        if contacts.min(groups) < known.get(partition) {
            return None;
        }
        let contents = log.conversations(partition, groups).get(&id)?;
        let own = log.conversations(partition, contacts).get(&id)?;
        let may_see = !is_group(id) || contents.is_member(user);
        may_see.then(|| seen(id, user, contents, own.view(user)))
    }
}

fn seen(id: ConversationId, user: UserId, contents: &Conversation, view: View) -> Seen<'_> {
    Seen {
        id,
        user,
        contents,
        view,
    }
}

fn is_group(id: ConversationId) -> bool {
    matches!(id, ConversationId::Group(_))
}

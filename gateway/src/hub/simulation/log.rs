//! What happens: the events of all partitions, and what the stores have of their conversations as of each offset.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rand::{Rng as _, rngs::StdRng};
use schemas::{
    Change, ChangeSeq, ContactChange, ConversationId, DeletedContact, DeviceClass, EventPosition,
    GroupChange, GroupChangeKind, GroupId, GroupMember, GroupRole, MessageChange, Mid, NextOffset,
    Ordinal, Partition, PartitionMap, Recipient, UserId,
    event::{Body, Message, ReadPosition},
};

use super::conversation::Conversation;
use crate::hub::test_events::uid;

pub(super) const USERS: i64 = 5;
/// Two share a partition, and two are in partitions with conversations of users.
const GROUPS: [i64; 4] = [69, 102, 134, 166];

/// Rule version 4 begins at this offset of each partition.
const VERSION_4: i64 = 6;

/// An event.
pub(super) struct Logged {
    pub(super) body: Body,
    pub(super) conversation: ConversationId,
    /// The users whom it concerns.
    pub(super) users: BTreeSet<UserId>,
}

impl Logged {
    /// Whether it is a change of a group that names a user.
    pub(super) fn names(&self, user: UserId) -> bool {
        let Body::GroupChange(change) = &self.body else {
            return false;
        };
        change.members.iter().any(|member| member.uid == user)
    }
}

/// Conversations of a partition.
pub(super) type Conversations = BTreeMap<ConversationId, Arc<Conversation>>;

struct PartitionLog {
    events: Vec<Logged>,
    /// By offset: what they were before the event there.
    conversations: Vec<Conversations>,
}

pub(super) struct Log(PartitionMap<PartitionLog>);

impl Log {
    pub(super) fn new() -> Self {
        Self(PartitionMap::full(|_| PartitionLog {
            events: Vec::new(),
            conversations: vec![BTreeMap::new()],
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

    pub(super) fn event(&self, at: EventPosition) -> &Logged {
        &self.0[at.partition].events[at.offset as usize]
    }

    /// The conversations of a partition as of an offset.
    pub(super) fn conversations(&self, partition: Partition, next: NextOffset) -> &Conversations {
        &self.0[partition].conversations[next.get() as usize]
    }

    /// Whether a group had been dissolved before this happened in it.
    pub(super) fn is_after_dissolution(&self, at: EventPosition) -> bool {
        let known = self.conversations(at.partition, NextOffset::new(at.offset));
        let conversation = known.get(&self.event(at).conversation);
        conversation.is_some_and(|known| known.group.settings.dissolved)
    }

    pub(super) fn step(&mut self, rng: &mut StdRng) {
        let one = uid(rng.random_range(1..=USERS));
        let to = match rng.random() {
            true => Recipient::User(uid(rng.random_range(1..=USERS))),
            false => Recipient::Group(GROUPS[rng.random_range(0..4)].try_into().unwrap()),
        };
        let id = to.conversation_with(one);
        let known = self.conversations(id.partition(), self.end(id.partition()));
        let known = known.get(&id).cloned().unwrap_or_default();
        let now = Now {
            by: one,
            to,
            known: &known,
            offset: self.end(id.partition()).get(),
        };
        if let Some((body, users)) = now.step(rng) {
            self.append(id, body, users);
        }
    }

    fn append(&mut self, conversation: ConversationId, body: Body, users: BTreeSet<UserId>) {
        let log = &mut self.0[conversation.partition()];
        let offset = log.events.len() as i64;
        let mut next = log.conversations[offset as usize].clone();
        let changed = next.entry(conversation).or_default();
        Arc::make_mut(changed).apply(offset, &body);
        log.conversations.push(next);
        log.events.push(Logged {
            body,
            conversation,
            users,
        });
    }
}

/// The user who may do something, and where.
struct Now<'a> {
    by: UserId,
    to: Recipient,
    known: &'a Conversation,
    offset: i64,
}

type Step = Option<(Body, BTreeSet<UserId>)>;

impl Now<'_> {
    fn step(&self, rng: &mut StdRng) -> Step {
        match self.to {
            Recipient::User(peer) => match rng.random_range(0..12) {
                0..=4 => self.send(rng),
                5..=6 => self.read(rng),
                7 => self.set_contact(peer, rng),
                _ => self.change(rng),
            },
            Recipient::Group(gid) if self.known.group.settings.dissolved => self.clear_up(gid, rng),
            Recipient::Group(gid) if !self.known.is_member(self.by) => {
                self.change_group(GroupChangeKind::Join, gid)
            }
            Recipient::Group(gid) => match rng.random_range(0..40) {
                0..=15 => self.send(rng),
                16..=21 => self.read(rng),
                22..=28 => self.change(rng),
                29..=34 => self.change_group(GroupChangeKind::Leave, gid),
                36 => self.change_group(GroupChangeKind::Rename, gid),
                37 => self.change_group(GroupChangeKind::Mute, gid),
                35 | 38 => self.change_group(GroupChangeKind::SetOptions, gid),
                _ if rng.random() => self.change_group(GroupChangeKind::Dissolve, gid),
                _ => None,
            },
        }
    }

    /// What still happens once a group is dissolved (PROTOCOL G7): members leave, hide and clear, and admins recall and delete, as does the owner who
    /// has left. The gateway does not check rights: each member is an admin.
    fn clear_up(&self, gid: GroupId, rng: &mut StdRng) -> Step {
        let is_member = self.known.is_member(self.by);
        let recalls = is_member || self.by == self.known.group.settings.owner;
        match rng.random_range(0..8) {
            0..=1 if is_member => self.change_group(GroupChangeKind::Leave, gid),
            2..=3 if is_member => self.change_own_view(self.any_mid(rng)?, rng),
            4..=7 if recalls => {
                let mid = self.any_mid(rng)?;
                let is_there = self.known.message(mid).is_there();
                let change = match rng.random() {
                    true => Change::Recall,
                    false => Change::Delete,
                };
                is_there.then(|| self.changed(mid, change))
            }
            _ => None,
        }
    }

    /// Everybody who sees the conversation.
    fn everybody(&self) -> BTreeSet<UserId> {
        match self.to {
            Recipient::User(peer) => [self.by, peer].into(),
            Recipient::Group(_) => self.known.group.members.keys().copied().collect(),
        }
    }

    fn send(&self, rng: &mut StdRng) -> Step {
        let sent = self.known.sent_by(self.by, self.known.last_mid());
        let message = Message {
            srcid: self.by,
            to: self.to,
            client_msg_id: format!("id-{}", self.offset).try_into().unwrap(),
            msg: text(self.offset, rng),
            mid: self.known.last_mid().next(),
            ordinal: match self.to {
                Recipient::User(_) => sent.next(),
                Recipient::Group(_) => Ordinal::ZERO,
            },
        };
        Some((Body::Message(message), self.everybody()))
    }

    /// How many messages the other user had sent up to one.
    fn ordinal(&self, mid: Mid) -> Option<Ordinal> {
        match self.to {
            Recipient::User(peer) => Some(self.known.sent_by(peer, mid)),
            Recipient::Group(_) => None,
        }
    }

    fn any_mid(&self, rng: &mut StdRng) -> Option<Mid> {
        let last_mid = self.known.last_mid().get();
        (last_mid > 0).then(|| rng.random_range(1..=last_mid).try_into().unwrap())
    }

    fn read(&self, rng: &mut StdRng) -> Step {
        let (mid, device) = (self.any_mid(rng)?, DeviceClass::ALL[rng.random_range(0..2)]);
        let is_new = mid > self.known.view(self.by).read_mids()[device];
        let position = ReadPosition {
            uid: self.by,
            to: self.to,
            device,
            mid,
            ordinal: self.ordinal(mid),
        };
        let is_note = self.to == Recipient::User(self.by);
        (is_new && !is_note).then(|| (Body::ReadPosition(position), [self.by].into()))
    }

    /// Changes a flag, or deletes the contact.
    fn set_contact(&self, peer: UserId, rng: &mut StdRng) -> Step {
        let known = self.known.view(self.by);
        let (mut flags, mut deleted) = (known.flags, None);
        match rng.random_range(0..6) {
            0 => flags.favourite = !flags.favourite,
            1 => flags.pinned = !flags.pinned,
            2 => flags.muted = !flags.muted,
            3 if peer != self.by => flags.blocked = !flags.blocked,
            _ if self.known.last_mid() > known.deleted_mid => {
                let mid = self.known.last_mid();
                let n = self.ordinal(mid)?;
                deleted = Some(DeletedContact { mid, ordinal: n });
            }
            _ => return None,
        }
        let change = ContactChange {
            uid: self.by,
            peer,
            flags,
            deleted,
        };
        Some((Body::ContactChange(change), [self.by].into()))
    }

    fn change(&self, rng: &mut StdRng) -> Step {
        let mid = self.any_mid(rng)?;
        let message = self.known.message(mid);
        let is_own = message.author == self.by && message.is_there();
        let change = match rng.random_range(0..6) {
            0 if is_own => Change::Recall,
            1 if is_own => Change::Delete,
            2 if is_own => Change::Edit(text(self.offset, rng)),
            4..=5 => return self.change_own_view(mid, rng),
            // A sequencer that has forgotten a recall takes one to a recalled message, too.
            _ => Change::React(["👍", "❤️", ""][rng.random_range(0..3)].to_owned()),
        };
        Some(self.changed(mid, change))
    }

    fn change_own_view(&self, mid: Mid, rng: &mut StdRng) -> Step {
        let is_new = mid > self.known.view(self.by).clear_mid;
        match rng.random_range(0..4) {
            0..=1 => Some(self.changed(mid, Change::Hide)),
            2 if is_new => Some(self.changed(mid, Change::Clear)),
            _ => None,
        }
    }

    fn changed(&self, mid: Mid, change: Change) -> (Body, BTreeSet<UserId>) {
        let (users, is_clear) = match change {
            Change::Hide | Change::Clear => ([self.by].into(), change == Change::Clear),
            _ => (self.everybody(), false),
        };
        let change = MessageChange {
            by: self.by,
            to: self.to,
            mid,
            change_seq: match change.is_for_one() && self.offset >= VERSION_4 {
                true => ChangeSeq::ZERO,
                false => self.known.change_seq().next(),
            },
            change,
            ordinal: self.ordinal(mid).filter(|_| is_clear),
        };
        (Body::MessageChange(change), users)
    }

    fn change_group(&self, kind: GroupChangeKind, gid: GroupId) -> Step {
        let mut users = self.everybody();
        let mut settings = self.known.group.settings.clone();
        let mut member = GroupMember {
            uid: self.by,
            role: Some(GroupRole::Member),
            muted: false,
            joined: false,
        };
        let mut count = users.len() as i64;
        match kind {
            GroupChangeKind::Join => {
                member.joined = users.insert(self.by);
                if self.known.views.is_empty() {
                    settings.whole_history = begins_whole(gid);
                }
                count += 1;
            }
            GroupChangeKind::Leave => {
                member.role = None;
                count = if settings.dissolved { 0 } else { count - 1 };
            }
            GroupChangeKind::Rename => settings.name = format!("group {}", self.offset),
            GroupChangeKind::Mute => member.muted = !self.known.group.members[&self.by].muted,
            GroupChangeKind::SetOptions => settings.whole_history = !settings.whole_history,
            _ => (settings.dissolved, count) = (true, 0),
        }
        let names_somebody = matches!(
            kind,
            GroupChangeKind::Join | GroupChangeKind::Leave | GroupChangeKind::Mute
        );
        let change = GroupChange {
            gid,
            by: self.by,
            kind,
            settings,
            member_count: count,
            last_mid: self.known.last_mid(),
            members: names_somebody.then_some(member).into_iter().collect(),
        };
        Some((Body::GroupChange(Box::new(change)), users))
    }
}

/// Whether members see what was before they joined, at first.
fn begins_whole(gid: GroupId) -> bool {
    gid.get() % 3 != 0
}

/// A text; some are longer than a list shows.
fn text(offset: i64, rng: &mut StdRng) -> String {
    match rng.random_ratio(1, 40) {
        true => "😀".repeat(201),
        false => format!("text {offset}"),
    }
}

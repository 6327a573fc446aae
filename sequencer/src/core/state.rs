//! The state of one partition.

use hashbrown::{HashMap, hash_map::Entry};
use schemas::{
    Change, ContactChange, ConversationId, DirectConversation, GroupChange, GroupChangeKind,
    GroupId, MessageChange, Mid, TimestampMs, UserId,
    event::{Body, Event, Message, ReadPosition, Rules},
};

use super::{
    conversation::Conversation,
    dedup::{CommandFields, Dedup, SendFields},
    group::Group,
    memberships::Memberships,
    recent_messages::RecentMessages,
};

/// The fold of one partition of `chat.events`.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Log time: the time of the last event, progress excepted (PROTOCOL S2).
    pub(super) clock: TimestampMs,
    pub(super) rules: Rules,
    pub(super) conversations: HashMap<DirectConversation, Conversation>,
    pub(super) dedup: Dedup,
    /// How many conversations each user has begun on the day of the clock, while that is limited.
    pub(super) begun: HashMap<UserId, u32>,
    /// The times of the messages in the recall window.
    pub(super) recent: RecentMessages,
    pub(super) groups: HashMap<GroupId, Box<Group>>,
    /// How many members all groups have.
    pub(super) group_members: usize,
    pub(super) memberships: Memberships,
}

impl Default for State {
    fn default() -> Self {
        Self {
            clock: TimestampMs(0),
            rules: Rules::VERSION_1,
            conversations: HashMap::new(),
            dedup: Dedup::default(),
            begun: HashMap::new(),
            recent: RecentMessages::default(),
            groups: HashMap::new(),
            group_members: 0,
            memberships: Memberships::default(),
        }
    }
}

impl State {
    /// Log time. No later event has an earlier time.
    #[must_use]
    pub fn clock(&self) -> TimestampMs {
        self.clock
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How many conversations it remembers.
    #[must_use]
    pub fn conversations(&self) -> usize {
        self.conversations.len()
    }

    /// How many sends and other commands it remembers for recognising repeats.
    #[must_use]
    pub fn dedup_entries(&self) -> usize {
        self.dedup.len()
    }

    /// The number of conversations, groups, members and remembered commands, which are nearly all of its snapshot.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.conversations() + self.groups.len() + self.group_members + self.dedup_entries()
    }

    /// How many conversations a user has begun on the day of `now`, while that is limited.
    pub(super) fn begun(&self, user: UserId, now: TimestampMs) -> u32 {
        let begun = self.begun.get(&user).filter(|_| self.is_today(now));
        begun.copied().unwrap_or_default()
    }

    /// How many users a user has made members of groups on the day of `now`, while that is limited.
    pub(super) fn new_memberships(&self, user: UserId, now: TimestampMs) -> u32 {
        let new = self.memberships.new.get(&user);
        let new = new.filter(|_| self.is_today(now));
        new.copied().unwrap_or_default()
    }

    /// Whether `now` is on the day of the clock.
    pub(super) fn is_today(&self, now: TimestampMs) -> bool {
        day(now) == day(self.clock)
    }

    /// Applies one event of the partition. Nothing else changes a state. The state stays valid whatever the event is.
    pub fn apply(&mut self, event: &Event) {
        if event.body == Body::Progress {
            return;
        }
        let before = self.clock;
        self.clock = before.max(event.ts);
        if let Body::Control(rules) = &event.body {
            self.rules = *rules;
        }
        if day(before) != day(self.clock) {
            self.begun = HashMap::new();
            self.memberships.begin_day();
        }
        // Expired entries are evicted before the insertion, so that a key that is sent again after its window is absent.
        self.dedup.evict(before, self.clock, &self.rules);
        self.recent.evict(before, self.clock, &self.rules);
        match &event.body {
            Body::Message(message) => self.apply_message(message),
            Body::ReadPosition(position) => self.apply_read_position(position),
            Body::MessageChange(change) => self.apply_message_change(change),
            Body::ContactChange(change) => self.apply_contact_change(change),
            Body::GroupChange(change) => self.apply_group_change(change),
            Body::Profile(_) | Body::Control(_) | Body::Progress => {}
        }
        self.apply_command(event);
    }

    /// Remembers the command that an event answers, so that a repeat of it emits nothing (PROTOCOL S15).
    fn apply_command(&mut self, event: &Event) {
        if self.rules.rule_version < 4 {
            return;
        }
        let given = || {
            let (command, scope) = (event.command.as_deref()?, event.body.scope()?);
            Some(CommandFields::new(scope, command))
        };
        let fields = match &event.body {
            Body::MessageChange(change) if change.change.is_for_one() => {
                CommandFields::of_view(change.by, change.to, change.mid, &change.change)
            }
            _ => given(),
        };
        if let Some(fields) = fields {
            self.dedup.insert_command(fields, self.clock, &self.rules);
            self.dedup.evict(self.clock, self.clock, &self.rules);
        }
    }

    fn apply_message(&mut self, message: &Message) {
        let id = match message.conversation() {
            ConversationId::Direct(id) => id,
            ConversationId::Group(gid) => return self.apply_group_message(gid, message),
        };
        let entry = self.conversations.entry(id);
        let known = match &entry {
            Entry::Occupied(known) => Some(known.get()),
            Entry::Vacant(_) => None,
        };
        if is_begun_by_message(known, &self.rules) && self.rules.new_conversations_per_day > 0 {
            *self.begun.entry(message.srcid).or_default() += 1;
        }
        let conversation = entry.or_default();
        conversation.push(id.side_of(message.srcid), self.rules.rule_version >= 3);
        conversation.last_place =
            self.recent
                .push(self.clock, conversation.last_place, &self.rules);
        self.remember(message.into(), message.mid);
    }

    fn remember(&mut self, send: SendFields<'_>, mid: Mid) {
        self.dedup.insert(send, mid, self.clock, &self.rules);
        self.dedup.evict(self.clock, self.clock, &self.rules);
    }

    fn apply_group_message(&mut self, gid: GroupId, message: &Message) {
        let Some(group) = self.groups.get_mut(&gid) else {
            return;
        };
        group.push(message.srcid);
        group.last_place = self.recent.push(self.clock, group.last_place, &self.rules);
        self.remember(message.into(), message.mid);
    }

    fn apply_group_change(&mut self, change: &GroupChange) {
        let creates = change.kind == GroupChangeKind::Create;
        if creates && !self.groups.contains_key(&change.gid) {
            if self.rules.new_conversations_per_day > 0 {
                *self.begun.entry(change.by).or_default() += 1;
            }
            let group = Box::new(Group::new(change.settings.clone()));
            self.groups.insert(change.gid, group);
        }
        let Some(group) = self.groups.get_mut(&change.gid) else {
            return;
        };
        self.group_members -= group.members.len();
        group.change(change, &self.rules, &mut self.memberships);
        self.group_members += group.members.len();
    }

    fn apply_read_position(&mut self, position: &ReadPosition) {
        let ReadPosition {
            uid, device, mid, ..
        } = *position;
        match position.conversation() {
            ConversationId::Direct(id) => {
                if let Some(conversation) = self.conversations.get_mut(&id) {
                    conversation.read(id.side_of(uid), device, mid);
                }
            }
            ConversationId::Group(gid) => {
                if let Some(group) = self.groups.get_mut(&gid) {
                    group.read(uid, device, mid);
                }
            }
        }
    }

    fn apply_message_change(&mut self, change: &MessageChange) {
        let id = match change.conversation() {
            ConversationId::Direct(id) => id,
            ConversationId::Group(gid) => {
                if let Some(group) = self.groups.get_mut(&gid) {
                    group.change_message(change);
                }
                return;
            }
        };
        let Some(conversation) = self.conversations.get_mut(&id) else {
            return;
        };
        let (side, last) = (id.side_of(change.by), conversation.last_mid);
        if !change.is_own() {
            let changes = conversation.changes_mut();
            changes.change_seq = changes.change_seq.next();
        }
        if change.change.is_final() {
            conversation.changes_mut().recall(change.mid, last);
        }
        if change.change == Change::Clear {
            let changes = conversation.changes_mut();
            let cleared = &mut changes.contact_mut(side).cleared;
            *cleared = (*cleared).max(change.mid.min(last));
            conversation.read_everywhere(side, change.mid);
        }
    }

    fn apply_contact_change(&mut self, change: &ContactChange) {
        let id = change.conversation();
        let is_new = !self.conversations.contains_key(&id);
        if is_new && self.rules.new_conversations_per_day > 0 {
            *self.begun.entry(change.uid).or_default() += 1;
        }
        let conversation = self.conversations.entry(id).or_default();
        let (side, last) = (id.side_of(change.uid), conversation.last_mid);
        let contact = conversation.changes_mut().contact_mut(side);
        contact.flags = change.flags;
        if let Some(deleted) = change.deleted {
            contact.deleted = contact.deleted.max(deleted.mid.min(last));
            conversation.read_everywhere(side, deleted.mid);
        }
    }
}

/// Whether a message begins the conversation (PROTOCOL S14). Below rule version 4 it does so even if contact flags have already begun it.
pub(super) fn is_begun_by_message(known: Option<&Conversation>, rules: &Rules) -> bool {
    known.is_none_or(|known| rules.rule_version < 4 && known.last_mid == Mid::ZERO)
}

fn day(time: TimestampMs) -> i64 {
    time.0.div_euclid(24 * 3600 * 1000)
}

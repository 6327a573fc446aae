//! Applies the events that readers accept, and checks whether they follow from the log before them.

use schemas::{
    CommandScope, ConversationId, DirectConversation, GroupChange, GroupChangeKind, GroupId,
    dead_letter::Reason,
    event::{Body, Event, Rules},
};

use super::{PartitionFold, ProfileVersion};
use crate::{
    Kind,
    fold::{
        answered,
        dedup::{Lookup, SendKey},
        digest::SentMessage,
        expected::Expected,
        inbound::{self, begins_with_message},
        repeat_key::RepeatKey,
    },
};

impl PartitionFold<'_> {
    pub(super) fn apply(&mut self, at: i64, event: Event) {
        if event.body == Body::Progress {
            return;
        }
        if event.ts.0 < self.clock {
            let what = format!("time falls from {} to {} ms", self.clock, event.ts.0);
            self.note_event(at, Kind::Different, what);
        }
        self.clock = self.clock.max(event.ts.0);
        self.judge_change(at, &event);
        self.judge_number(at, &event);
        self.note_begun(&event.body);
        self.note_members(&event.body);
        self.note_send(at, &event.body);
        self.judge_repeat(at, &event);
        if let Body::Control(rules) = &event.body {
            self.apply_rules(*rules);
        }
        self.note_command(&event);
        match (event.conversation(), &event.body) {
            (Some(ConversationId::Direct(id)), _) => self.apply_to_conversation(id, at, &event),
            (Some(ConversationId::Group(gid)), _) => self.apply_to_group(gid, at, &event),
            (_, Body::Profile(profile)) => {
                let version = ProfileVersion::new(profile, event.ts, at);
                self.folded.profiles.insert(profile.uid, version);
            }
            _ => {}
        }
        let conversation = event.conversation();
        if conversation.is_some_and(|id| self.input.scope.has(id)) {
            self.folded.messages.add(at, &event);
        }
        self.dedup.evict(self.clock, &self.rules);
        self.recent.evict(self.clock, &self.rules);
    }

    fn note_send(&mut self, at: i64, body: &Body) {
        let Some((sent, msg)) = SentMessage::of_event(body) else {
            return;
        };
        let key = SendKey {
            srcid: sent.srcid,
            to: sent.conversation,
            client_msg_id: sent.client_msg_id,
            msg,
        };
        if self.dedup.lookup(&key, self.clock, &self.rules) != Lookup::Absent {
            let what = "a client_msg_id is sequenced again within the window";
            self.note_event(at, Kind::Extra, what);
        }
        self.dedup.insert(&key, self.clock, &self.rules);
    }

    /// By the rules before the event, which may change the window.
    fn judge_repeat(&mut self, at: i64, event: &Event) {
        let is_known = self.remembered(event).is_some_and(|(scope, command)| {
            let found = self
                .dedup
                .lookup_command(scope, command, self.clock, &self.rules);
            found != Lookup::Absent
        });
        if is_known {
            let what = "a command is applied again within the window";
            self.note_event(at, Kind::Extra, what);
        }
    }

    fn note_command(&mut self, event: &Event) {
        if let Some((scope, command)) = self.remembered(event) {
            let (clock, rules) = (self.clock, self.rules);
            self.dedup.insert_command(scope, command, clock, &rules);
        }
    }

    /// The command that an event answers, if a repeat of it is recognised.
    fn remembered<'e>(&self, event: &'e Event) -> Option<(CommandScope, (RepeatKey<'e>, u32))> {
        let is_in_force = self.rules.rule_version >= 4;
        let command = RepeatKey::of_event(event).filter(|_| is_in_force)?;
        Some((event.body.scope()?, command))
    }

    /// A conversation begins with its first message or with contact flags, a group with its creation (PROTOCOL S14).
    fn note_begun(&mut self, body: &Body) {
        let known = &self.folded.conversations;
        let by = match body {
            Body::Message(message) => match message.conversation() {
                ConversationId::Direct(id) => {
                    begins_with_message(known.get(&id), &self.rules).then_some(message.srcid)
                }
                ConversationId::Group(_) => None,
            },
            Body::ContactChange(change) => {
                (!known.contains_key(&change.conversation())).then_some(change.uid)
            }
            Body::GroupChange(change) => self.creates(change).then_some(change.by),
            _ => None,
        };
        if let Some(by) = by {
            self.begun.add(by, self.clock, &self.rules);
        }
    }

    fn note_members(&mut self, body: &Body) {
        if let Body::GroupChange(change) = body {
            let group = self.folded.groups.get(&change.gid);
            let is_member = |uid| group.is_some_and(|group| group.member(uid).is_some());
            self.memberships
                .add(change, is_member, self.clock, &self.rules);
        }
    }

    fn creates(&self, change: &GroupChange) -> bool {
        change.kind == GroupChangeKind::Create && !self.folded.groups.contains_key(&change.gid)
    }

    /// Judges a change, or any event in a group, by the log before it, whether its cause is retained or not.
    fn judge_change(&mut self, at: i64, event: &Event) {
        let Some(command) = answered::command_of(&event.body).filter(|_| self.is_whole()) else {
            return;
        };
        let is_send = SentMessage::of_event(&event.body).is_some();
        let before = self.before_event(&command, event);
        match inbound::expected(&command, self.input.partition, &before) {
            Expected::Event => {
                if let Some(field) = self.mismatch_in_itself(event) {
                    let what = format!("{field} of an event in a group is not what is right");
                    self.note_event(at, Kind::Different, what);
                }
            }
            // A repeated send is reported separately.
            Expected::Repeat if is_send => {}
            Expected::Refused(Reason::Conflict) if is_send => {}
            Expected::Refused(reason) => {
                let what = match event.conversation() {
                    Some(ConversationId::Group(_)) => {
                        format!("an event in a group that is to be refused ({reason})")
                    }
                    _ => format!("a change that is to be refused ({reason})"),
                };
                self.note_event(at, Kind::Different, what);
            }
            Expected::Repeat | Expected::WithoutEffect => {
                self.note_event(at, Kind::Extra, "a change that changes nothing");
            }
        }
    }

    /// From rule version 4 on a change that concerns its author alone has no number (PROTOCOL C1).
    fn judge_number(&mut self, at: i64, event: &Event) {
        let Body::MessageChange(change) = &event.body else {
            return;
        };
        let is_own = change.change.is_for_one() && self.rules.rule_version >= 4;
        if self.knows_rules && change.is_own() != is_own {
            let what = format!("chg is {} in a {}", change.change_seq, change.change.kind());
            self.note_event(at, Kind::Different, what);
        }
    }

    fn apply_rules(&mut self, rules: Rules) {
        if rules.rule_version >= 3 && self.rules.rule_version < 3 {
            for conversation in self.folded.conversations.values_mut() {
                conversation.begin_version_3();
            }
        }
        self.rules = rules;
        self.knows_rules = true;
    }

    fn apply_to_conversation(&mut self, id: DirectConversation, at: i64, event: &Event) {
        let is_whole = self.is_whole();
        let conversation = self.folded.conversations.entry(id).or_default();
        let last = conversation.last_mid();
        let wrong = conversation.apply(id, &event.body, event.ts, at, is_whole);
        if conversation.last_mid() > last {
            let place = &mut conversation.last_place;
            self.recent.add(place, self.clock, &self.rules);
        }
        if let Some(what) = wrong {
            self.note_event(at, Kind::Different, what);
        }
    }

    fn apply_to_group(&mut self, gid: GroupId, at: i64, event: &Event) {
        let is_whole = self.is_whole();
        let group = self.folded.groups.entry(gid).or_default();
        let last = group.last.mid;
        let wrong = group.apply(gid, &event.body, event.ts, at, is_whole);
        if group.last.mid > last {
            let place = &mut group.last_place;
            self.recent.add(place, self.clock, &self.rules);
        }
        if let Some(what) = wrong {
            self.note_event(at, Kind::Different, what);
        }
    }
}

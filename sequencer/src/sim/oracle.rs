//! The expected results for an inbound log: a second implementation of the protocol, as naive as possible and without code of the core. It looks up
//! everything in the list of events so far.

mod groups;

use std::hash::Hasher as _;

use schemas::{
    AppliedCommand, Change, ChangeContact, ChangeMessage, Chg, ClientMsgId, CommandId,
    CommandScope, ContactChange, ContactFlags, ConversationId, DeletedContact, DirectConversation,
    GroupChangeKind, HashKey, MessageChange, Mid, Ordinal, Partition, Recipient, TimestampMs,
    UserId,
    command::{Command, Control, InboundValue, Malformed, ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Event, Message, ReadPosition, Rules, Source, SourceOffset},
};
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::shell::InboundRecord;

/// The expected result for one inbound record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Event(Event),
    NoOp,
    DeadLetter(Reason),
}

const DAY_MS: i64 = 86_400_000;

/// The expected result for each record of a log, by one owner that is never interrupted.
pub(crate) fn expected_results(partition: Partition, inbound: &[InboundRecord]) -> Vec<Expected> {
    let mut oracle = Oracle {
        partition,
        clock: 0,
        rules: Rules::VERSION_1,
        events: Vec::new(),
        remembered: Vec::new(),
        round: Vec::new(),
        own: Vec::new(),
        begun: Vec::new(),
        recent: Vec::new(),
        before_version_3: None,
        before_version_4: None,
        made_members: Vec::new(),
    };
    inbound.iter().map(|record| oracle.next(record)).collect()
}

struct Oracle {
    partition: Partition,
    clock: i64,
    rules: Rules,
    events: Vec<Event>,
    /// Messages and commands whose repeats are recognised, with their times, oldest first.
    remembered: Vec<(i64, Remembered)>,
    /// The authors of the messages and commands of this round.
    round: Vec<UserId>,
    /// Messages and commands of authors who had used up their share of the round.
    own: Vec<(UserId, Vec<(i64, Remembered)>)>,
    /// The days on which conversations were begun while that was limited, and by whom.
    begun: Vec<(i64, UserId)>,
    /// The messages of the recall window, with their times.
    recent: Vec<(i64, Sent)>,
    /// How many events there were before rule version 3.
    before_version_3: Option<usize>,
    before_version_4: Option<usize>,
    /// The days on which users were made members of groups while that was limited, and by whom.
    made_members: Vec<(i64, UserId)>,
}

/// A message or a command whose repeat is recognised.
#[derive(Clone, PartialEq, Eq)]
enum Remembered {
    Sent(Sent),
    Command(Once),
}

/// A command other than a send, with its id.
#[derive(Clone, PartialEq, Eq)]
struct Once {
    scope: CommandScope,
    /// `None` if the content is the id.
    id: Option<CommandId>,
    /// The command as if its author had not posted it.
    asked: Command,
}

impl Once {
    fn of(value: &InboundValue) -> Result<Option<Self>, Malformed> {
        let asked = Command::parse(&value.command.content()).unwrap();
        let id = value.command_id()?;
        let scope = asked.scope();
        let once = |id, asked| Self { scope, id, asked };
        Ok(match (&asked, scope.to) {
            (Command::ChangeMessage(change), to) if change.change.is_for_one() => {
                let is_found_otherwise =
                    change.change == Change::Clear && matches!(to, Some(Recipient::User(_)));
                (!is_found_otherwise).then(|| once(None, asked))
            }
            _ => id.map(|id| once(Some(id), asked)),
        })
    }

    /// Whether both are one command, if they ask for the same.
    fn has_id_of(&self, other: &Self) -> bool {
        let is_same = self.id.is_some() || self.asked == other.asked;
        (self.scope, &self.id) == (other.scope, &other.id) && is_same
    }

    /// The command as its event names it: SipHash-1-3 over author, addressee, id, NUL and content.
    fn applied(&self, key: HashKey) -> Option<AppliedCommand> {
        let id = self.id.clone()?;
        let mut hasher = SipHasher13::new_with_key(key.bytes());
        let author = self.scope.author.map_or(0, UserId::get);
        let (to, is_group) = match self.scope.to {
            None => (0, 0),
            Some(Recipient::User(uid)) => (uid.get(), 0),
            Some(Recipient::Group(gid)) => (gid.get(), 1),
        };
        for (number, bit) in [(author, 1), (to, is_group)] {
            hasher.write(&(number as u64 | bit << 63).to_le_bytes());
        }
        hasher.write(id.as_str().as_bytes());
        hasher.write(&[0]);
        hasher.write(&self.asked.content());
        Some(AppliedCommand {
            id,
            content: hasher.finish128().h1 as u32,
        })
    }
}

/// A message, direct or in a group.
#[derive(Clone, PartialEq, Eq)]
struct Sent {
    conversation: ConversationId,
    sender: UserId,
    client_msg_id: ClientMsgId,
    msg: String,
    mid: Mid,
}

impl Sent {
    fn of(body: &Body) -> Option<Self> {
        match body {
            Body::Message(message) => Some(Self {
                conversation: message.conversation(),
                sender: message.srcid,
                client_msg_id: message.client_msg_id.clone(),
                msg: message.msg.clone(),
                mid: message.mid,
            }),
            _ => None,
        }
    }
}

impl Oracle {
    fn next(&mut self, record: &InboundRecord) -> Expected {
        let parsed = InboundValue::parse(record.value.as_deref().unwrap_or_default());
        let Ok(value) = parsed else {
            return Expected::DeadLetter(Reason::Malformed);
        };
        let once = match Once::of(&value) {
            Err(_) if self.rules.rule_version >= 4 => {
                return Expected::DeadLetter(Reason::Malformed);
            }
            once => once.ok().flatten(),
        };
        let InboundValue { command, words, .. } = value;
        let is_change = matches!(
            command,
            Command::ChangeMessage(_) | Command::ChangeContact(_) | Command::SetProfile(_)
        );
        let of_group = matches!(command.conversation(), Some(ConversationId::Group(_)));
        let is_reaction =
            matches!(&command, Command::ChangeMessage(change) if change.change.emoji().is_some());
        let first_version = match is_reaction {
            true => 5,
            false if is_change || of_group => 3,
            false => 1,
        };
        if self.rules.rule_version < first_version {
            return Expected::DeadLetter(Reason::Malformed);
        }
        let ts = self.clock.max(record.ts.0);
        let belongs_here = command.partition().is_none_or(|p| p == self.partition);
        if belongs_here
            && self.rules.rule_version >= 4
            && let Some(known) = once.as_ref().and_then(|once| self.known(ts, once))
        {
            return known;
        }
        let decided = match command {
            Command::Send(send) => self.send(ts, send),
            Command::ReadAck(ack) => self.read_ack(&ack),
            Command::Control(control) => self.control(&control),
            Command::ChangeMessage(change) => self.change_message(ts, change),
            Command::ChangeContact(change) => self.change_contact(ts, &change),
            Command::ChangeGroup(change) => self.change_group(ts, change),
            Command::SetProfile(profile) => {
                let partition = profile.uid.get() % 64;
                self.belongs_here(Partition::try_from(partition).unwrap())
                    .map(|()| Some(Body::Profile(profile)))
            }
        };
        match decided {
            Err(reason) => Expected::DeadLetter(reason),
            Ok(None) => Expected::NoOp,
            Ok(Some(body)) => {
                let rules = match &body {
                    Body::Control(rules) => *rules,
                    _ => self.rules,
                };
                let once = once
                    .filter(|once| rules.rule_version >= 4 && !is_exact_ack(&once.asked, &body));
                let applied = once.as_ref().zip(rules.hash_key);
                let event = Event {
                    src: Source {
                        offset: SourceOffset {
                            epoch: 0,
                            offset: record.offset,
                        },
                        leader_epoch: record.leader_epoch,
                    },
                    ts: TimestampMs(ts),
                    body,
                    command: applied.and_then(|(once, key)| once.applied(key).map(Box::new)),
                    words,
                };
                self.record(event.clone(), once);
                Expected::Event(event)
            }
        }
    }

    /// The result for a command whose id was seen before.
    fn known(&self, ts: i64, once: &Once) -> Option<Expected> {
        let own = self.own.iter().flat_map(|(_, own)| own);
        let live = self.remembered.iter().chain(own);
        let mut commands = live.filter_map(|(then, one)| match one {
            Remembered::Command(command) => Some((then, command)),
            Remembered::Sent(_) => None,
        });
        let (_, before) = commands.find(|(then, before)| {
            ts - *then <= self.rules.dedup_window_ms && before.has_id_of(once)
        })?;
        Some(if before.asked == once.asked {
            Expected::NoOp
        } else {
            Expected::DeadLetter(Reason::Conflict)
        })
    }

    fn record(&mut self, event: Event, once: Option<Once>) {
        let second_before = self.clock / 1000;
        self.clock = event.ts.0;
        if let Body::Control(rules) = &event.body {
            self.rules = *rules;
            if rules.rule_version >= 3 {
                self.before_version_3.get_or_insert(self.events.len());
            }
            if rules.rule_version >= 4 {
                self.before_version_4.get_or_insert(self.events.len());
            }
        }
        let (clock, window) = (self.clock, self.rules.dedup_window_ms);
        let is_live = |(ts, _): &(i64, Remembered)| clock - ts <= window;
        self.remembered.retain(is_live);
        if clock / 1000 != second_before {
            self.own.iter_mut().for_each(|(_, own)| own.retain(is_live));
            self.own.retain(|(_, own)| !own.is_empty());
        }
        let recall_window = self.rules.recall_window_ms;
        self.recent
            .retain(|(ts, _)| recall_window > 0 && clock - ts <= recall_window);
        if let Body::ContactChange(change) = &event.body
            && self.rules.new_conversations_per_day > 0
            && !self.has_state(change.conversation())
        {
            self.begun.push((clock / DAY_MS, change.uid));
        }
        if let Some(sent) = Sent::of(&event.body) {
            if recall_window > 0 {
                self.recent.push((clock, sent.clone()));
            }
            self.remember(Some(sent.sender), Remembered::Sent(sent));
        }
        if let Some(once) = once {
            self.remember(once.scope.author, Remembered::Command(once));
        }
        let begins = begins(&event.body).filter(|_| !self.was_begun_before(&event.body));
        if let Some(user) = begins.filter(|_| self.rules.new_conversations_per_day > 0) {
            self.begun.push((clock / DAY_MS, user));
        }
        keep_newest(&mut self.remembered, self.rules.dedup_max_entries);
        if let Body::GroupChange(change) = &event.body
            && self.rules.new_memberships_per_day > 0
        {
            let new = change.members.iter().filter(|member| member.joined);
            let begins = change.kind == GroupChangeKind::Create;
            let new = new.filter(|member| !begins || member.uid != change.by);
            let made = new.map(|_| (clock / DAY_MS, change.by));
            self.made_members.extend(made);
        }
        self.events.push(event);
    }

    fn remember(&mut self, author: Option<UserId>, one: Remembered) {
        let (all, of_one) = (
            self.rules.dedup_max_entries,
            self.rules.dedup_max_per_sender,
        );
        let entry = (self.clock, one);
        let Some(sender) = author.filter(|_| self.rules.rule_version > 1 && of_one < all) else {
            self.remembered.push(entry);
            return;
        };
        if self.round.len() as i64 >= all / 64 {
            self.round.clear();
        }
        let in_round = self.round.iter().filter(|one| **one == sender).count();
        if in_round == 0 || (in_round as i64) < of_one / 64 {
            self.round.push(sender);
            self.remembered.push(entry);
            return;
        }
        if !self.own.iter().any(|(one, _)| *one == sender) {
            self.own.push((sender, Vec::new()));
        }
        let most = of_one.min((all / self.own.len() as i64).max(1));
        let of_sender = self.own.iter_mut().find(|(one, _)| *one == sender);
        let (_, own) = of_sender.unwrap();
        own.retain(|(ts, _)| self.clock - ts <= self.rules.dedup_window_ms);
        own.push(entry);
        keep_newest(own, most);
    }

    fn send(&self, ts: i64, send: SendMessage) -> Result<Option<Body>, Reason> {
        let conversation = send.conversation();
        self.belongs_here(conversation.partition())?;
        match self.repeats(
            ts,
            conversation,
            send.srcid,
            (&send.client_msg_id, &send.msg),
        ) {
            Some(true) => return Ok(None),
            Some(false) => return Err(Reason::Conflict),
            None => {}
        }
        if send.msg.len() as i64 > self.rules.max_msg_bytes {
            return Err(Reason::TooLarge);
        }
        let destid = match send.to {
            Recipient::User(destid) => destid,
            Recipient::Group(gid) => return self.send_to_group(gid, send),
        };
        if self.flags(destid, send.srcid).blocked {
            return Err(Reason::Blocked);
        }
        let messages = || self.messages().filter(|m| m.conversation() == conversation);
        let is_begun = messages().count() > 0 || self.was_begun_by_flags(conversation);
        if send.by_user && !is_begun && self.has_begun_enough(ts, send.srcid) {
            return Err(Reason::TooManyConversations);
        }
        let own = messages().filter(|m| m.srcid == send.srcid).count();
        Ok(Some(Body::Message(Message {
            mid: Mid::try_from(messages().count() as i64 + 1).unwrap(),
            n: Ordinal::try_from(own as i64 + 1).unwrap(),
            srcid: send.srcid,
            to: send.to,
            client_msg_id: send.client_msg_id,
            msg: send.msg,
        })))
    }

    /// Whether a send has the text of an earlier send with its id; `None` if there is no such send.
    fn repeats(
        &self,
        ts: i64,
        conversation: ConversationId,
        sender: UserId,
        (client_msg_id, msg): (&ClientMsgId, &str),
    ) -> Option<bool> {
        let own = self.own.iter().flat_map(|(_, own)| own);
        let live = self.remembered.iter().chain(own);
        let mut sends = live.filter_map(|(then, one)| match one {
            Remembered::Sent(sent) => Some((then, sent)),
            Remembered::Command(_) => None,
        });
        let before = sends.find(|(then, sent)| {
            ts - *then <= self.rules.dedup_window_ms
                && sent.conversation == conversation
                && sent.sender == sender
                && sent.client_msg_id == *client_msg_id
        });
        before.map(|(_, sent)| sent.msg == msg)
    }

    fn read_ack(&self, ack: &ReadAck) -> Result<Option<Body>, Reason> {
        let conversation = ack.conversation();
        self.belongs_here(conversation.partition())?;
        let peer = match ack.to {
            Recipient::User(peer) if peer == ack.uid => return Ok(None),
            Recipient::User(peer) => peer,
            Recipient::Group(gid) => return self.read_group(gid, ack),
        };
        let messages = || self.messages().filter(|m| m.conversation() == conversation);
        let last = Mid::try_from(messages().count() as i64).unwrap();
        let mid = ack.mid.map_or(last, |mid| mid.min(last));
        let positions = self
            .events
            .iter()
            .flat_map(|event| event.body.read_positions());
        let before = positions
            .filter(|p| p.uid == ack.uid && p.to == ack.to && p.device == ack.device)
            .map(|p| p.mid)
            .max();
        if mid <= before.unwrap_or(Mid::ZERO) {
            return Ok(None);
        }
        let from_peer = messages().filter(|m| m.srcid == peer && m.mid <= mid);
        let known = last.get() - mid.get() <= 128;
        Ok(Some(Body::ReadPosition(ReadPosition {
            uid: ack.uid,
            to: ack.to,
            device: ack.device,
            mid,
            n: known.then(|| Ordinal::try_from(from_peer.count() as i64).unwrap()),
        })))
    }

    fn has_begun_enough(&self, ts: i64, user: UserId) -> bool {
        let begun = self.begun.iter();
        let begun = begun.filter(|begun| **begun == (ts / DAY_MS, user));
        let limit = self.rules.new_conversations_per_day;
        limit > 0 && begun.count() as i64 >= limit
    }

    fn change_message(&self, ts: i64, asked: ChangeMessage) -> Result<Option<Body>, Reason> {
        let conversation = asked.conversation();
        self.belongs_here(conversation.partition())?;
        let peer = match asked.to {
            Recipient::User(peer) => peer,
            Recipient::Group(gid) => return self.change_group_message(ts, gid, asked),
        };
        let messages = || self.messages().filter(|m| m.conversation() == conversation);
        let message = messages().find(|message| message.mid == asked.mid);
        let message = message.ok_or(Reason::UnknownMessage)?;
        let last = messages().count() as i64;
        let changes = || {
            self.message_changes()
                .filter(|c| c.conversation() == conversation)
        };
        let mut n = None;
        match &asked.change {
            Change::Hide => {}
            Change::Clear => {
                let mut cleared =
                    changes().filter(|c| c.by == asked.by && c.change == Change::Clear);
                if cleared.any(|cleared| cleared.mid >= asked.mid) {
                    return Ok(None);
                }
                let from_peer = messages().filter(|m| m.srcid == peer && m.mid <= asked.mid);
                n = (last - asked.mid.get() <= 128)
                    .then(|| Ordinal::try_from(from_peer.count() as i64).unwrap());
            }
            Change::Delete if !self.rules.delete_for_all => return Err(Reason::NotAllowed),
            Change::Recall | Change::Delete | Change::Edit(_) | Change::React(_) => {
                let back = last - asked.mid.get();
                let before = &self.events[..self.before_version_3.unwrap()];
                let before = before.iter().filter(|event| match &event.body {
                    Body::Message(message) => message.conversation() == conversation,
                    _ => false,
                });
                let is_remembered = asked.mid.get() > before.count() as i64 - 128;
                let is_known = back < 4_096 && (back < 128 || is_remembered);
                let is_reaction = asked.change.emoji().is_some();
                if !is_known && !is_reaction {
                    return Err(Reason::TooOld);
                }
                if message.srcid != asked.by && !is_reaction {
                    return Err(Reason::NotTheAuthor);
                }
                let is_recalled = is_known
                    && changes().any(|change| {
                        change.mid == asked.mid
                            && matches!(change.change, Change::Recall | Change::Delete)
                    });
                match &asked.change {
                    Change::React(_) if is_recalled => return Err(Reason::Recalled),
                    Change::React(_) if self.flags(peer, asked.by).blocked => {
                        return Err(Reason::Blocked);
                    }
                    Change::React(_) => {}
                    Change::Edit(_) if is_recalled => return Err(Reason::Recalled),
                    Change::Edit(msg) if msg.len() as i64 > self.rules.max_msg_bytes => {
                        return Err(Reason::TooLarge);
                    }
                    Change::Edit(_) if self.flags(peer, asked.by).blocked => {
                        return Err(Reason::Blocked);
                    }
                    Change::Edit(_) => {}
                    _ if is_recalled => return Ok(None),
                    _ => self.is_recallable(ts, conversation, asked.mid)?,
                }
            }
        }
        Ok(Some(Body::MessageChange(MessageChange {
            by: asked.by,
            to: asked.to,
            mid: asked.mid,
            chg: self.next_chg(conversation, &asked.change),
            change: asked.change,
            n,
        })))
    }

    /// From version 4 on a change that concerns its author alone has no number.
    fn next_chg(&self, conversation: ConversationId, change: &Change) -> Chg {
        if change.is_for_one() && self.is_version_4() {
            return Chg::ZERO;
        }
        let changes = self.message_changes();
        let numbered = changes.filter(|c| c.conversation() == conversation && c.chg > Chg::ZERO);
        Chg::try_from(numbered.count() as i64 + 1).unwrap()
    }

    fn is_recallable(&self, ts: i64, conversation: ConversationId, mid: Mid) -> Result<(), Reason> {
        let window = self.rules.recall_window_ms;
        let is_recent = |(written, recent): &(i64, Sent)| {
            (recent.conversation, recent.mid) == (conversation, mid) && ts - written <= window
        };
        if window == 0 {
            return Err(Reason::NotAllowed);
        }
        if window < 0 || self.recent.iter().any(is_recent) {
            Ok(())
        } else {
            Err(Reason::TooLate)
        }
    }

    fn change_contact(&self, ts: i64, asked: &ChangeContact) -> Result<Option<Body>, Reason> {
        let conversation = asked.conversation();
        self.belongs_here(conversation.partition())?;
        let before = self.flags(asked.uid, asked.peer);
        let flags = ContactFlags {
            favourite: asked.favourite.unwrap_or(before.favourite),
            pinned: asked.pinned.unwrap_or(before.pinned),
            muted: asked.muted.unwrap_or(before.muted),
            blocked: asked.blocked.unwrap_or(before.blocked),
        };
        let messages = || {
            self.messages()
                .filter(|m| m.conversation() == conversation.into())
        };
        let mid = Mid::try_from(messages().count() as i64).unwrap();
        let is_deleted = mid == Mid::ZERO
            || self
                .contact_changes(asked.uid, asked.peer)
                .any(|change| change.deleted.is_some_and(|deleted| deleted.mid == mid));
        if flags == before && (!asked.deleted || is_deleted) {
            return Ok(None);
        }
        if asked.by_user && !self.has_state(conversation) && self.has_begun_enough(ts, asked.uid) {
            return Err(Reason::TooManyConversations);
        }
        let from_peer = messages().filter(|m| m.srcid == asked.peer).count() as i64;
        Ok(Some(Body::ContactChange(ContactChange {
            uid: asked.uid,
            peer: asked.peer,
            flags,
            deleted: asked.deleted.then(|| DeletedContact {
                mid,
                n: Ordinal::try_from(from_peer).unwrap(),
            }),
        })))
    }

    fn flags(&self, uid: UserId, peer: UserId) -> ContactFlags {
        let last = self.contact_changes(uid, peer).last();
        last.map(|change| change.flags).unwrap_or_default()
    }

    /// Whether there was a message or a contact change.
    fn has_state(&self, conversation: DirectConversation) -> bool {
        self.events.iter().any(|event| match &event.body {
            Body::Message(message) => message.conversation() == conversation.into(),
            Body::ContactChange(change) => change.conversation() == conversation,
            _ => false,
        })
    }

    /// Whether contact flags had begun the conversation before its first message.
    fn was_begun_before(&self, body: &Body) -> bool {
        match body {
            Body::Message(message) => self.was_begun_by_flags(message.conversation()),
            _ => false,
        }
    }

    fn was_begun_by_flags(&self, conversation: ConversationId) -> bool {
        let ConversationId::Direct(id) = conversation else {
            return false;
        };
        self.rules.rule_version >= 4 && self.has_state(id)
    }

    fn message_changes(&self) -> impl Iterator<Item = &MessageChange> {
        self.events.iter().filter_map(|event| match &event.body {
            Body::MessageChange(change) => Some(change),
            _ => None,
        })
    }

    fn contact_changes(&self, uid: UserId, peer: UserId) -> impl Iterator<Item = &ContactChange> {
        self.events
            .iter()
            .filter_map(move |event| match &event.body {
                Body::ContactChange(change) if (change.uid, change.peer) == (uid, peer) => {
                    Some(change)
                }
                _ => None,
            })
    }

    fn control(&self, control: &Control) -> Result<Option<Body>, Reason> {
        let version = control.rule_version.unwrap_or(self.rules.rule_version);
        let key = control.hash_key.as_deref().map(HashKey::try_from);
        let rules = Rules {
            rule_version: version,
            dedup_window_ms: control
                .dedup_window_ms
                .unwrap_or(self.rules.dedup_window_ms),
            dedup_max_entries: control
                .dedup_max_entries
                .unwrap_or(self.rules.dedup_max_entries),
            max_msg_bytes: control.max_msg_bytes.unwrap_or(self.rules.max_msg_bytes),
            hash_key: match (&key, self.rules.hash_key) {
                _ if version == 1 => None,
                (Some(Ok(key)), None) => Some(*key),
                (_, in_force) => in_force,
            },
            dedup_max_per_sender: match (control.dedup_max_per_sender, self.rules.rule_version) {
                _ if version == 1 => 0,
                (Some(most), _) => most,
                (None, 1) => 100_000,
                (None, _) => self.rules.dedup_max_per_sender,
            },
            new_conversations_per_day: match control.new_conversations_per_day {
                _ if version == 1 => 0,
                Some(most) => most,
                None if self.rules.rule_version == 1 => 20,
                None => self.rules.new_conversations_per_day,
            },
            recall_window_ms: match control.recall_window_ms {
                _ if version < 3 => 0,
                Some(window) => window,
                None if self.rules.rule_version < 3 => 120_000,
                None => self.rules.recall_window_ms,
            },
            delete_for_all: version >= 3
                && control.delete_for_all.unwrap_or(self.rules.delete_for_all),
            max_group_members: match control.max_group_members {
                _ if version < 3 => 0,
                Some(most) => most,
                None if self.rules.rule_version < 3 => 10_000,
                None => self.rules.max_group_members,
            },
            new_memberships_per_day: match control.new_memberships_per_day {
                _ if version < 4 => 0,
                Some(most) => most,
                None if self.rules.rule_version < 4 => 1_000,
                None => self.rules.new_memberships_per_day,
            },
            max_memberships_by_others: match control.max_memberships_by_others {
                _ if version < 4 => 0,
                Some(most) => most,
                None if self.rules.rule_version < 4 => 100,
                None => self.rules.max_memberships_by_others,
            },
        };
        let key_is_right = match key {
            _ if version == 1 => true,
            None => rules.hash_key.is_some(),
            Some(key) => key.is_ok_and(|key| Some(key) == rules.hash_key),
        };
        let longest_window = if version == 1 {
            36_500 * 86_400_000
        } else {
            49 * 86_400_000
        };
        let in_bounds = (self.rules.rule_version..=5).contains(&version)
            && key_is_right
            && (version == 1 || (1..=10_000_000).contains(&rules.dedup_max_per_sender))
            && rules.new_conversations_per_day <= 1_000_000
            && (-1..=86_400_000).contains(&rules.recall_window_ms)
            && (version < 3 || (1..=1_000_000).contains(&rules.max_group_members))
            && (0..=1_000_000).contains(&rules.new_memberships_per_day)
            && (0..=1_000_000).contains(&rules.max_memberships_by_others)
            && rules.dedup_window_ms <= longest_window
            && (1..=10_000_000).contains(&rules.dedup_max_entries)
            && (1..=65_535).contains(&rules.max_msg_bytes);
        if in_bounds {
            Ok(Some(Body::Control(rules)))
        } else {
            Err(Reason::InvalidControl)
        }
    }

    fn belongs_here(&self, partition: Partition) -> Result<(), Reason> {
        if partition == self.partition {
            Ok(())
        } else {
            Err(Reason::WrongPartition)
        }
    }

    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.events.iter().filter_map(|event| match &event.body {
            Body::Message(message) => Some(message),
            _ => None,
        })
    }
}

/// The user who begins a conversation with a message, or a group.
fn begins(body: &Body) -> Option<UserId> {
    match body {
        Body::Message(message) => {
            let is_first = message.mid == Mid::ZERO.next();
            (is_first && matches!(message.to, Recipient::User(_))).then_some(message.srcid)
        }
        Body::GroupChange(change) => (change.kind == GroupChangeKind::Create).then_some(change.by),
        _ => None,
    }
}

/// Whether it is a read-ack of an existing mid, whose repeat changes nothing.
fn is_exact_ack(asked: &Command, body: &Body) -> bool {
    match (asked, body) {
        (Command::ReadAck(ack), Body::ReadPosition(position)) => ack.mid == Some(position.mid),
        _ => false,
    }
}

fn keep_newest(remembered: &mut Vec<(i64, Remembered)>, most: i64) {
    let gone = (remembered.len() as i64 - most).max(0);
    remembered.drain(..gone as usize);
}

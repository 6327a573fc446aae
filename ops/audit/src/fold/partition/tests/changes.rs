//! Changes of messages and contacts, from rule version 3 on.

use schemas::{
    Change, ChangeContact, ChangeMessage, ChangeSeq, ContactChange, ContactFlags, DeletedContact,
    MessageChange, PerDevice, Recipient, UserId,
};

use super::*;
use crate::fold::{LastRead, applied::applied_in_event};

/// A log of the users 1 and 2, in which everything is right unless a test says otherwise.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) events: Vec<Record>,
    inbound: Vec<Record>,
    refused: Vec<(Record, Reason)>,
    pub(super) now: i64,
    pub(super) rules: Rules,
    /// Who sent each message.
    senders: Vec<i64>,
    change_seq: ChangeSeq,
}

const VERSION_3: Rules = Rules {
    rule_version: 3,
    dedup_max_per_sender: 100_000,
    new_conversations_per_day: 20,
    recall_window_ms: 120_000,
    max_group_members: 10_000,
    ..Rules::VERSION_1
};

impl Log {
    /// An empty log under rule version 1.
    pub(super) fn begin() -> Self {
        Self {
            events: Vec::new(),
            inbound: Vec::new(),
            refused: Vec::new(),
            now: 1_000,
            rules: Rules::VERSION_1,
            senders: Vec::new(),
            change_seq: ChangeSeq::ZERO,
        }
    }

    /// A log with three messages of 1 and one of 2 under rule version 3.
    pub(super) fn of_version_3() -> Self {
        let mut log = Self::begin();
        log.begin_version_3(|_| {});
        for srcid in [1, 1, 1, 2] {
            log.send(srcid);
        }
        log
    }

    pub(super) fn begin_version_3(&mut self, ask: impl FnOnce(&mut Control)) {
        self.rules = Rules {
            hash_key: Some([7; 16].into()),
            ..VERSION_3
        };
        self.set_rules(|control| {
            control.rule_version = Some(3);
            control.hash_key = Some(vec![7; 16]);
            ask(control);
        });
    }

    /// Call this after [`Self::begin_version_3`].
    pub(super) fn begin_version_4(&mut self) {
        self.rules = Rules {
            rule_version: 4,
            new_memberships_per_day: 1_000,
            max_memberships_by_others: 100,
            ..self.rules
        };
        self.set_rules(|control| control.rule_version = Some(4));
    }

    pub(super) fn set_rules(&mut self, ask: impl FnOnce(&mut Control)) {
        let mut control = Control::default();
        ask(&mut control);
        let rules = &mut self.rules;
        rules.recall_window_ms = control.recall_window_ms.unwrap_or(rules.recall_window_ms);
        rules.delete_for_all = control.delete_for_all.unwrap_or(rules.delete_for_all);
        rules.max_msg_bytes = control.max_msg_bytes.unwrap_or(rules.max_msg_bytes);
        rules.max_group_members = control.max_group_members.unwrap_or(rules.max_group_members);
        rules.new_conversations_per_day = control
            .new_conversations_per_day
            .unwrap_or(rules.new_conversations_per_day);
        rules.new_memberships_per_day = control
            .new_memberships_per_day
            .unwrap_or(rules.new_memberships_per_day);
        rules.max_memberships_by_others = control
            .max_memberships_by_others
            .unwrap_or(rules.max_memberships_by_others);
        let rules = *rules;
        self.sequence(Command::Control(control), Body::Control(rules));
    }

    pub(super) fn inbound(&self) -> &[Record] {
        &self.inbound
    }

    /// A command without an event.
    pub(super) fn post(&mut self, command: Command) {
        self.post_value(command.into());
    }

    pub(super) fn post_value(&mut self, value: InboundValue) {
        let mut posted = record(self.inbound.len() as i64, value.encode());
        posted.timestamp = TimestampMs(self.now);
        self.inbound.push(posted);
    }

    pub(super) fn refuse(&mut self, command: Command, reason: Reason) {
        self.refuse_value(command.into(), reason);
    }

    pub(super) fn refuse_value(&mut self, value: InboundValue, reason: Reason) {
        self.post_value(value);
        let posted = self.inbound.last().unwrap().clone();
        self.refused.push((posted, reason));
    }

    pub(super) fn sequence(&mut self, command: Command, body: Body) {
        self.post(command);
        let source = (0, self.inbound.len() as i64 - 1);
        let mut sequenced = event(self.events.len() as i64, source, body);
        sequenced.timestamp = TimestampMs(self.now);
        self.events.push(sequenced);
    }

    /// Appends a command with an id. Its event names the command if `names_it`.
    pub(super) fn sequence_once(&mut self, value: InboundValue, body: Body, names_it: bool) {
        let command = applied_in_event(&value, &body, &self.rules).filter(|_| names_it);
        self.post_value(value);
        let offset = SourceOffset {
            epoch: 0,
            offset: self.inbound.len() as i64 - 1,
        };
        let event = Event {
            src: Source {
                offset,
                leader_epoch: 0,
            },
            ts: TimestampMs(self.now),
            body,
            command: command.map(Box::new),
            words: None,
        };
        let mut sequenced = record(self.events.len() as i64, event.encode());
        sequenced.timestamp = TimestampMs(self.now);
        self.events.push(sequenced);
    }

    pub(super) fn send(&mut self, srcid: i64) {
        let send = self.next_send(srcid);
        self.senders.push(srcid);
        let message = Message {
            srcid: send.srcid,
            to: send.to,
            client_msg_id: send.client_msg_id.clone(),
            msg: send.msg.clone(),
            mid: mid(self.senders.len() as i64),
            ordinal: self.sent(srcid, self.senders.len()),
        };
        self.sequence(Command::Send(send), Body::Message(message));
    }

    fn next_send(&self, srcid: i64) -> SendMessage {
        SendMessage {
            srcid: user(srcid),
            to: Recipient::User(user(3 - srcid)),
            ..send(&self.inbound.len().to_string())
        }
    }

    fn sent(&self, srcid: i64, upto: usize) -> Ordinal {
        let sent = self.senders[..upto].iter().filter(|by| **by == srcid);
        Ordinal::try_from(sent.count() as i64).unwrap()
    }

    pub(super) fn change(&mut self, by: i64, mid: i64, change: Change) {
        let event = self.next_change(by, mid, change.clone());
        self.change_seq = self.change_seq.max(event.change_seq);
        self.sequence(asked(by, mid, change), Body::MessageChange(event));
    }

    fn next_change(&self, by: i64, of: i64, change: Change) -> MessageChange {
        let upto = usize::try_from(of).unwrap();
        MessageChange {
            by: user(by),
            to: Recipient::User(user(3 - by)),
            mid: mid(of),
            change_seq: self.next_chg(self.change_seq, &change),
            ordinal: (change == Change::Clear).then(|| self.sent(3 - by, upto)),
            change,
        }
    }

    pub(super) fn next_chg(&self, last: ChangeSeq, change: &Change) -> ChangeSeq {
        let is_own = change.is_for_one() && self.rules.rule_version >= 4;
        if is_own { ChangeSeq::ZERO } else { last.next() }
    }

    fn contact(&mut self, uid: i64, ask: fn(&mut ChangeContact), flags: ContactFlags) {
        let asked = asked_of(uid, ask);
        let event = self.next_contact(&asked, flags);
        self.sequence(Command::ChangeContact(asked), Body::ContactChange(event));
    }

    pub(super) fn next_contact(&self, asked: &ChangeContact, flags: ContactFlags) -> ContactChange {
        let deleted = DeletedContact {
            mid: (self.senders.len() as i64).try_into().unwrap(),
            ordinal: self.sent(asked.peer.get(), self.senders.len()),
        };
        ContactChange {
            uid: asked.uid,
            peer: asked.peer,
            flags,
            deleted: asked.deleted.then_some(deleted),
        }
    }

    pub(super) fn fold(&self) -> FoldedPartition {
        let mut events = self.events.clone();
        let last = self.inbound.len() as i64 - 1;
        let mut progress = event(events.len() as i64, (0, last), Body::Progress);
        progress.timestamp = TimestampMs(self.now);
        events.push(progress);
        let letters: Vec<_> = self.refused.iter().map(|(one, why)| (one, *why)).collect();
        fold_refusing(events, self.inbound.clone(), &letters)
    }

    pub(super) fn assert_sound(&self) -> FoldedPartition {
        let folded = self.fold();
        assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
        assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
        folded
    }

    /// Asserts that there is one difference, with this text.
    pub(super) fn assert_finds(&self, what: &str) {
        let FoldedPartition {
            events, inbound, ..
        } = self.fold();
        let differences = events.differences() + inbound.differences();
        assert_eq!(differences, 1, "{what}: {events:?} {inbound:?}");
        let found = [events.examples, inbound.examples].concat();
        assert!(found[0].what.contains(what), "{what} is not in {found:?}");
    }
}

pub(super) fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

pub(super) fn edit(msg: &str) -> Change {
    Change::Edit(msg.to_owned())
}

pub(super) fn asked(by: i64, of: i64, change: Change) -> Command {
    Command::ChangeMessage(ChangeMessage {
        by: user(by),
        to: Recipient::User(user(3 - by)),
        mid: mid(of),
        change,
    })
}

pub(super) fn asked_of(uid: i64, ask: fn(&mut ChangeContact)) -> ChangeContact {
    let mut asked = ChangeContact {
        uid: user(uid),
        peer: user(3 - uid),
        favourite: None,
        pinned: None,
        muted: None,
        blocked: None,
        deleted: false,
        by_user: false,
    };
    ask(&mut asked);
    asked
}

fn flags(set: fn(&mut ContactFlags)) -> ContactFlags {
    let mut flags = ContactFlags::default();
    set(&mut flags);
    flags
}

#[test]
fn changes_of_every_kind_are_right() {
    let mut log = Log::of_version_3();
    log.set_rules(|control| control.delete_for_all = Some(true));
    log.change(1, 1, edit("edited"));
    log.change(1, 1, Change::Recall);
    log.change(1, 2, Change::Delete);
    log.change(2, 2, Change::Hide);
    log.change(2, 2, Change::Hide);
    log.change(2, 3, Change::Clear);
    log.contact(1, |c| c.pinned = Some(true), flags(|f| f.pinned = true));
    let both = flags(|f| (f.pinned, f.muted) = (true, true));
    log.contact(1, |c| c.muted = Some(true), both);
    log.contact(1, |c| c.deleted = true, both);
    log.send(2);
    log.change(2, 5, edit("edited"));
    // None of these has an effect.
    for command in [
        asked(1, 1, Change::Recall),
        asked(1, 1, Change::Delete),
        asked(1, 2, Change::Recall),
        asked(2, 2, Change::Clear),
        Command::ChangeContact(asked_of(1, |c| c.pinned = Some(true))),
        Command::ChangeContact(asked_of(2, |c| c.blocked = Some(false))),
    ] {
        log.post(command);
    }
    let folded = log.assert_sound();
    assert_eq!(folded.account.without_effect, 6);
    assert_eq!(folded.messages.changes.len(), 7);

    let id = DirectConversation::new(user(1), user(2));
    let conversation = &folded.conversations[&id];
    let [one, two] = [1, 2].map(|uid| conversation.contact(id, user(uid)));
    assert_eq!((one.change_seq, two.change_seq), (7, 7));
    assert_eq!((one.last.mid, one.last.change_seq), (5, 7));
    assert_eq!((one.deleted_mid, two.deleted_mid), (4, 0));
    assert_eq!((one.clear_mid, two.clear_mid), (0, 3));
    assert_eq!(
        (one.flags.set, two.flags.set),
        (both, ContactFlags::default())
    );
    assert_eq!(two.hidden, [2]);
    assert_eq!(one.reads, PerDevice::from_fn(|_| read(4, 1)));
    assert_eq!(two.reads, PerDevice::from_fn(|_| read(3, 3)));
    assert!(one.event_offset > two.deleted_mid && one.event_offset == two.event_offset);
}

fn read(mid: i64, n: i64) -> LastRead {
    let n = Some(n);
    LastRead { mid, ordinal: n }
}

/// Commands that are refused in a log of version 3, and why.
fn refusals() -> Vec<(Log, Command, Reason)> {
    let log = Log::of_version_3();
    let with = |change: &dyn Fn(&mut Log)| {
        let mut log = log.clone();
        change(&mut log);
        log
    };
    let recalled = with(&|log| log.change(1, 1, Change::Recall));
    let late = with(&|log| log.now += 120_001);
    let never = with(&|log| log.set_rules(|control| control.recall_window_ms = Some(0)));
    let five_bytes = with(&|log| log.set_rules(|control| control.max_msg_bytes = Some(5)));
    let blocked = with(&|log| {
        log.contact(2, |c| c.blocked = Some(true), flags(|f| f.blocked = true));
    });
    let many = with(&|log| (0..4_093).for_each(|_| log.send(2)));
    let send = Command::Send(blocked.next_send(1));
    let recall = || asked(1, 1, Change::Recall);
    let edit_1 = || asked(1, 1, edit("edited"));
    vec![
        (
            log.clone(),
            asked(1, 5, Change::Hide),
            Reason::UnknownMessage,
        ),
        (
            log.clone(),
            asked(1, 5, Change::Recall),
            Reason::UnknownMessage,
        ),
        (
            log.clone(),
            asked(1, 4, Change::Recall),
            Reason::NotTheAuthor,
        ),
        (
            log.clone(),
            asked(2, 1, edit("edited")),
            Reason::NotTheAuthor,
        ),
        (log.clone(), asked(1, 4, Change::Delete), Reason::NotAllowed),
        (recalled, edit_1(), Reason::Recalled),
        (late, recall(), Reason::TooLate),
        (never, recall(), Reason::NotAllowed),
        (five_bytes, edit_1(), Reason::TooLarge),
        (blocked.clone(), edit_1(), Reason::Blocked),
        (blocked, send, Reason::Blocked),
        (many, recall(), Reason::TooOld),
    ]
}

#[test]
fn a_refused_change_has_a_dead_letter_with_the_right_reason() {
    for (log, command, reason) in refusals() {
        let mut right = log.clone();
        right.refuse(command.clone(), reason);
        right.assert_sound();
        let mut wrong = log.clone();
        wrong.refuse(command.clone(), Reason::Conflict);
        wrong.assert_finds(&format!("refused (conflict), {reason} is right"));
        let mut unanswered = log;
        unanswered.post(command);
        unanswered.assert_finds(&format!("it is to be refused ({reason})"));
    }
}

#[test]
fn a_change_that_is_to_be_refused_is_not_sequenced() {
    for (mut log, command, reason) in refusals() {
        let Command::ChangeMessage(asked) = command else {
            log.send(1);
            log.assert_finds("sequenced although it is to be refused (blocked)");
            continue;
        };
        log.change(asked.by.get(), asked.mid.get().min(4), asked.change);
        if reason == Reason::UnknownMessage {
            // `min` made its mid valid.
            continue;
        }
        log.assert_finds(&format!("a change that is to be refused ({reason})"));
    }
}

#[test]
fn a_change_of_a_message_that_is_not_there_is_found() {
    let mut log = Log::of_version_3();
    let event = log.next_change(1, 4, Change::Hide);
    let event = MessageChange {
        mid: mid(5),
        ..event
    };
    log.sequence(asked(1, 5, Change::Hide), Body::MessageChange(event));
    log.assert_finds("a change that is to be refused (unknown-message)");
}

#[test]
fn what_is_allowed_is_not_refused() {
    let late = |log: &mut Log| log.now += 120_001;
    let mut log = Log::of_version_3();
    // At the end of the window.
    log.now += 120_000;
    log.change(1, 1, Change::Recall);
    log.now += 1;
    log.refuse(asked(1, 2, Change::Recall), Reason::TooLate);
    // An edit has no window, and a blocked user may recall.
    log.change(1, 2, edit("edited"));
    log.send(1);
    log.contact(2, |c| c.blocked = Some(true), flags(|f| f.blocked = true));
    log.change(1, 5, Change::Recall);
    log.assert_sound();
    log.refuse(asked(1, 3, Change::Hide), Reason::TooOld);
    log.assert_finds("refused (too-old) without a reason in the log");

    let mut log = Log::of_version_3();
    log.set_rules(|control| control.recall_window_ms = Some(-1));
    late(&mut log);
    log.change(1, 1, Change::Recall);
    log.assert_sound();
}

#[test]
fn what_was_once_out_of_the_window_stays_out() {
    let mut log = Log::of_version_3();
    log.now += 1_000;
    log.send(1);
    log.set_rules(|control| control.recall_window_ms = Some(500));
    log.set_rules(|control| control.recall_window_ms = Some(86_400_000));
    log.refuse(asked(1, 1, Change::Recall), Reason::TooLate);
    log.change(1, 5, Change::Recall);
    log.assert_sound();
    // Without a window no message is remembered.
    log.set_rules(|control| control.recall_window_ms = Some(-1));
    log.send(1);
    log.set_rules(|control| control.recall_window_ms = Some(86_400_000));
    log.refuse(asked(1, 6, Change::Recall), Reason::TooLate);
    log.send(1);
    log.change(1, 7, Change::Recall);
    log.assert_sound();
}

#[test]
fn of_messages_from_before_version_3_the_newest_128_have_a_known_author() {
    let mut log = Log::begin();
    (0..200).for_each(|_| log.send(1));
    log.begin_version_3(|control| control.recall_window_ms = Some(-1));
    log.refuse(asked(1, 72, Change::Recall), Reason::TooOld);
    log.change(1, 73, Change::Recall);
    (0..200).for_each(|_| log.send(2));
    log.change(1, 74, Change::Recall);
    log.refuse(asked(1, 72, edit("edited")), Reason::TooOld);
    // A user who clears or hides need not be the author.
    log.change(1, 72, Change::Hide);
    log.assert_sound();

    // With a window, none of these is recalled.
    let mut log = Log::begin();
    log.send(1);
    log.begin_version_3(|_| {});
    log.refuse(asked(1, 1, Change::Recall), Reason::TooLate);
    log.change(1, 1, edit("edited"));
    log.assert_sound();
}

#[test]
fn a_change_reaches_4096_messages_back() {
    let mut log = Log::of_version_3();
    (0..4_093).for_each(|_| log.send(2));
    log.change(1, 2, edit("edited"));
    log.change(1, 2, Change::Recall);
    log.refuse(asked(1, 2, edit("again")), Reason::Recalled);
    log.send(2);
    log.refuse(asked(1, 2, edit("again")), Reason::TooOld);
    log.assert_sound();
}

#[test]
fn below_version_3_a_change_is_malformed() {
    let mut log = Log::begin();
    log.send(1);
    let elsewhere = ChangeMessage {
        by: user(1),
        to: Recipient::User(user(3)),
        mid: mid(1),
        change: Change::Hide,
    };
    let pin = Command::ChangeContact(asked_of(1, |c| c.pinned = Some(true)));
    log.refuse(asked(1, 1, Change::Recall), Reason::Malformed);
    log.refuse(pin, Reason::Malformed);
    log.refuse(Command::ChangeMessage(elsewhere.clone()), Reason::Malformed);
    let mut sequenced = log.clone();
    sequenced.change(1, 1, Change::Hide);
    sequenced.assert_finds("a change that is to be refused (malformed)");
    log.begin_version_3(|_| {});
    log.refuse(Command::ChangeMessage(elsewhere), Reason::WrongPartition);
    log.assert_sound();
}

#[test]
fn changes_are_counted_without_gaps() {
    let mut log = Log::of_version_3();
    log.change(1, 1, Change::Hide);
    log.change_seq = log.change_seq.next();
    log.change(1, 2, Change::Hide);
    log.assert_finds("chg 3 of 1,2 follows 1");
    let mut log = Log::of_version_3();
    log.change(1, 1, Change::Hide);
    log.change_seq = ChangeSeq::ZERO;
    log.change(1, 2, Change::Hide);
    log.assert_finds("chg 1 of 1,2 follows 1");
}

#[test]
fn what_one_user_hides_or_clears_has_a_number_below_rule_version_4_only() {
    let mut log = Log::of_version_3();
    log.change(2, 1, Change::Hide);
    let mut early = log.clone();
    let own = MessageChange {
        change_seq: ChangeSeq::ZERO,
        ..early.next_change(2, 2, Change::Hide)
    };
    early.sequence(asked(2, 2, Change::Hide), Body::MessageChange(own));
    early.assert_finds("chg is 0 in a hide");

    log.begin_version_4();
    log.change(2, 2, Change::Hide);
    log.change(2, 3, Change::Clear);
    log.change(1, 1, Change::Recall);
    let numbered = MessageChange {
        change_seq: log.change_seq.next(),
        ..log.next_change(1, 3, Change::Hide)
    };
    let folded = log.assert_sound();
    let id = DirectConversation::new(user(1), user(2));
    let conversation = &folded.conversations[&id];
    let [one, two] = [1, 2].map(|uid| conversation.contact(id, user(uid)));
    assert_eq!((one.change_seq, two.change_seq), (2, 2));
    assert_eq!((one.own_pos, two.hidden), (0, vec![1, 2]));
    assert!(two.own_pos > 0 && two.own_pos < two.event_offset);
    log.sequence(asked(1, 3, Change::Hide), Body::MessageChange(numbered));
    log.assert_finds("chg is 3 in a hide");
}

#[test]
fn a_change_that_changes_nothing_has_no_event() {
    for change in [Change::Recall, Change::Clear] {
        let mut log = Log::of_version_3();
        log.change(1, 1, change.clone());
        log.change(1, 1, change);
        log.assert_finds("a change that changes nothing");
    }
    let mut log = Log::of_version_3();
    let pinned = flags(|f| f.pinned = true);
    log.contact(1, |c| c.pinned = Some(true), pinned);
    log.contact(1, |c| c.pinned = Some(true), pinned);
    log.assert_finds("a change that changes nothing");
    let mut log = Log::of_version_3();
    log.contact(1, |c| c.deleted = true, ContactFlags::default());
    log.contact(1, |c| c.deleted = true, ContactFlags::default());
    log.assert_finds("a change that changes nothing");
}

#[test]
fn an_event_that_is_missing_is_found() {
    let pin = Command::ChangeContact(asked_of(1, |c| c.pinned = Some(true)));
    for command in [
        asked(1, 1, Change::Recall),
        asked(1, 1, edit("edited")),
        asked(1, 1, Change::Hide),
        asked(1, 1, Change::Clear),
        Command::ChangeContact(asked_of(1, |c| c.deleted = true)),
        pin,
    ] {
        let mut log = Log::of_version_3();
        log.post(command);
        log.assert_finds("unanswered: no event");
    }
}

#[test]
fn an_event_says_what_was_asked_for() {
    let mut log = Log::of_version_3();
    let event = log.next_change(1, 1, edit("another"));
    log.sequence(asked(1, 1, edit("edited")), Body::MessageChange(event));
    log.assert_finds("msg is not that of its event");
    let mut log = Log::of_version_3();
    let more = flags(|f| (f.pinned, f.muted) = (true, true));
    log.contact(1, |c| c.pinned = Some(true), more);
    log.assert_finds("a flag is not that of its event");
}

#[test]
fn a_cleared_history_and_a_deleted_contact_have_the_right_numbers() {
    let mut log = Log::of_version_3();
    let mut event = log.next_change(2, 2, Change::Clear);
    event.ordinal = Some(Ordinal::ZERO.next());
    log.sequence(
        asked(2, 2, Change::Clear),
        Body::MessageChange(event.clone()),
    );
    log.assert_finds("the clear up to 2 in 1,2 has n Some");
    // The event has no n only if the sequencer no longer knew it: beyond the newest 128 messages.
    event.ordinal = None;
    for (more, is_sound) in [(126, false), (127, true)] {
        let mut log = Log::of_version_3();
        (0..more).for_each(|_| log.send(1));
        let event = Body::MessageChange(event.clone());
        log.sequence(asked(2, 2, Change::Clear), event);
        if is_sound {
            log.assert_sound();
        } else {
            log.assert_finds("the clear up to 2 in 1,2 has n None");
        }
    }

    let deleted = |mid: i64, n: i64| DeletedContact {
        mid: mid.try_into().unwrap(),
        ordinal: n.try_into().unwrap(),
    };
    for (deleted, what) in [
        (deleted(3, 3), "is deleted at 3, 4 is right"),
        (deleted(4, 2), "is deleted with n 2, 3 is right"),
    ] {
        let mut log = Log::of_version_3();
        let asked = asked_of(2, |c| c.deleted = true);
        let event = ContactChange {
            deleted: Some(deleted),
            ..log.next_contact(&asked, ContactFlags::default())
        };
        log.sequence(Command::ChangeContact(asked), Body::ContactChange(event));
        log.assert_finds(what);
    }
}

#[test]
fn a_contact_without_messages_counts_as_begun() {
    let begin = || {
        let mut log = Log::begin();
        log.begin_version_3(|control| control.new_conversations_per_day = Some(1));
        log
    };
    let pinned = flags(|f| f.pinned = true);
    let mut log = begin();
    log.contact(1, |c| c.pinned = Some(true), pinned);
    let first_send = |log: &Log, srcid| {
        Command::Send(SendMessage {
            by_user: true,
            ..log.next_send(srcid)
        })
    };
    // The first message begins the conversation, whoever sends it.
    log.refuse(first_send(&log.clone(), 1), Reason::TooManyConversations);
    // What 2 sets belongs to a conversation that exists.
    log.contact(2, |c| c.pinned = Some(true), pinned);
    log.send(2);
    log.assert_sound();

    let stranger = |by_user| ChangeContact {
        peer: user(2 + 64),
        by_user,
        ..asked_of(1, |c| c.muted = Some(true))
    };
    let refused = Command::ChangeContact(stranger(true));
    log.refuse(refused.clone(), Reason::TooManyConversations);
    // A command that changes nothing is not refused.
    log.post(Command::ChangeContact(ChangeContact {
        muted: Some(false),
        ..stranger(true)
    }));
    log.assert_sound();
    let event = Body::ContactChange(ContactChange {
        uid: user(1),
        peer: user(2 + 64),
        flags: flags(|f| f.muted = true),
        deleted: None,
    });
    let mut by_a_service = log.clone();
    by_a_service.sequence(Command::ChangeContact(stranger(false)), event.clone());
    by_a_service.assert_sound();
    log.sequence(refused, event);
    log.assert_finds("sequenced although it is to be refused (too-many-conversations)");
}

#[test]
fn rule_version_3_begins_with_its_own_rules() {
    let mut log = Log::begin();
    log.begin_version_3(|_| {});
    for window in [-2, 86_400_001] {
        let control = Control {
            recall_window_ms: Some(window),
            ..Control::default()
        };
        log.refuse(Command::Control(control), Reason::InvalidControl);
    }
    let back = Control {
        rule_version: Some(2),
        ..Control::default()
    };
    log.refuse(Command::Control(back), Reason::InvalidControl);
    log.set_rules(|control| control.recall_window_ms = Some(-1));
    log.set_rules(|control| control.delete_for_all = Some(true));
    log.assert_sound();
    log.rules.recall_window_ms = 0;
    log.set_rules(|control| control.delete_for_all = Some(false));
    log.assert_finds("recall_window_ms is not that of its event");

    // Below version 3 these settings are ignored.
    let mut log = Log::begin();
    let control = Control {
        recall_window_ms: Some(-7),
        delete_for_all: Some(true),
        ..Control::default()
    };
    log.sequence(Command::Control(control), Body::Control(Rules::VERSION_1));
    log.assert_sound();
}

/// What depends on events that are gone is not judged.
#[test]
fn a_log_without_its_start_is_judged_by_what_it_has() {
    let log = Log::of_version_3();
    let fold = |log: &Log, from: usize| {
        let input = PartitionInput {
            events_start: from as i64,
            ..input(log.inbound.len())
        };
        let events = log.events[from..].to_vec();
        in_memory::fold(&input, &log.inbound, &events).unwrap()
    };
    let mut whole = log.clone();
    whole.change(1, 1, Change::Recall);
    whole.change(1, 1, edit("edited"));
    whole.change(1, 3, Change::Hide);
    // Without the first change the chg of the second is taken as it is.
    let found = fold(&whole, 6);
    assert_eq!(found.events.differences(), 0, "{:?}", found.events);
    assert_eq!(found.inbound.differences(), 0, "{:?}", found.inbound);
    whole.change_seq = whole.change_seq.next();
    whole.change(1, 3, Change::Hide);
    let found = fold(&whole, 6);
    assert_eq!(found.events.differences(), 1, "{:?}", found.events);
}

//! What follows from the log for an inbound record, and whether that is what became of it.

use schemas::{
    DirectConversation, Partition,
    command::{Command, Control, ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Message, Rules},
};

use super::{
    begun::BegunConversations,
    conversation::Conversation,
    dedup::{DedupWindow, Lookup, SendKey},
    outcomes::Outcome,
};
use crate::{Kind, read};

/// The state of a partition before a record.
pub(crate) struct StateBefore<'a> {
    pub(crate) conversation: Option<&'a Conversation>,
    pub(crate) dedup: &'a DedupWindow,
    pub(crate) begun: &'a BegunConversations,
    pub(crate) rules: &'a Rules,
    /// Log time at the record.
    pub(crate) now: i64,
}

/// What follows for an inbound record from the log before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Event,
    Repeat,
    WithoutEffect,
    Refused(Reason),
}

impl Expected {
    /// Whether it is a refusal for this reason.
    pub(super) fn is_refused_for(self, reason: &str) -> bool {
        matches!(self, Self::Refused(right) if right.as_str() == reason)
    }

    /// Whether it follows from the record alone, whatever the log has before it.
    pub(super) fn needs_no_log(self) -> bool {
        match self {
            Self::Event | Self::Repeat | Self::WithoutEffect => false,
            Self::Refused(reason) => !matches!(
                reason,
                Reason::TooLarge | Reason::Conflict | Reason::TooManyConversations
            ),
        }
    }
}

pub(crate) fn send_key(send: &SendMessage) -> SendKey<'_> {
    SendKey {
        srcid: send.srcid,
        destid: send.destid,
        client_msg_id: &send.client_msg_id,
        msg: &send.msg,
    }
}

pub(crate) fn message_key(message: &Message) -> SendKey<'_> {
    SendKey {
        srcid: message.srcid,
        destid: message.destid,
        client_msg_id: &message.client_msg_id,
        msg: &message.msg,
    }
}

pub(crate) fn conversation_of(command: &Command) -> Option<DirectConversation> {
    match command {
        Command::Send(send) => Some(send.conversation()),
        Command::ReadAck(ack) => Some(ack.conversation()),
        Command::Control(_) => None,
    }
}

/// What follows for a command in this partition.
pub(super) fn expected(
    command: &Command,
    partition: Partition,
    before: &StateBefore<'_>,
) -> Expected {
    let (one, other) = match command {
        Command::Send(send) => (send.srcid, send.destid),
        Command::ReadAck(ack) => (ack.uid, ack.peer),
        Command::Control(control) => return expected_of_control(control, before.rules),
    };
    if !read::belongs_to(partition, one, other) {
        return Expected::Refused(Reason::WrongPartition);
    }
    match command {
        Command::Send(send) => expected_of_send(send, before),
        Command::ReadAck(ack) if moves_nothing(ack, before.conversation) => Expected::WithoutEffect,
        Command::ReadAck(_) | Command::Control(_) => Expected::Event,
    }
}

fn expected_of_send(send: &SendMessage, before: &StateBefore<'_>) -> Expected {
    let key = send_key(send);
    match before.dedup.lookup(&key, before.now, before.rules) {
        Lookup::SamePayload => Expected::Repeat,
        Lookup::OtherPayload => Expected::Refused(Reason::Conflict),
        Lookup::Absent if send.msg.len() as i128 > i128::from(before.rules.max_msg_bytes) => {
            Expected::Refused(Reason::TooLarge)
        }
        Lookup::Absent if begins_too_many(send, before) => {
            Expected::Refused(Reason::TooManyConversations)
        }
        Lookup::Absent => Expected::Event,
    }
}

fn begins_too_many(send: &SendMessage, before: &StateBefore<'_>) -> bool {
    let limit = before.rules.new_conversations_per_day;
    let is_limited = send.by_user && limit > 0 && before.conversation.is_none();
    is_limited && before.begun.of(send.srcid, before.now) >= limit
}

fn expected_of_control(control: &Control, rules: &Rules) -> Expected {
    let version = control.rule_version.unwrap_or(rules.rule_version);
    let window = control.dedup_window_ms.unwrap_or(rules.dedup_window_ms);
    let entries = control.dedup_max_entries.unwrap_or(rules.dedup_max_entries);
    let bytes = control.max_msg_bytes.unwrap_or(rules.max_msg_bytes);
    let longest_window = if version == 2 {
        49 * 86_400_000
    } else {
        36_500 * 86_400_000
    };
    let is_valid = version >= rules.rule_version.max(1)
        && (version != 2 || is_valid_version_2(control, rules))
        && (0..=longest_window).contains(&window)
        && (1..=10_000_000).contains(&entries)
        && (1..=65_535).contains(&bytes);
    if is_valid {
        Expected::Event
    } else {
        Expected::Refused(Reason::InvalidControl)
    }
}

fn is_valid_version_2(control: &Control, rules: &Rules) -> bool {
    let of_sender = control.dedup_max_per_sender.unwrap_or(1);
    let per_day = control.new_conversations_per_day.unwrap_or(0);
    has_the_key(control, rules)
        && (1..=10_000_000).contains(&of_sender)
        && (0..=1_000_000).contains(&per_day)
}

/// From version 2 on there is a key, and it stays.
fn has_the_key(control: &Control, rules: &Rules) -> bool {
    match (&control.hash_key, &rules.hash_key) {
        (None, in_force) => in_force.is_some(),
        (Some(given), None) => given.len() == 16,
        (Some(given), Some(key)) => given == key.bytes(),
    }
}

/// The outcome of a record without an event, and what is wrong with it. `refused` is the reason in its dead letter, where it has one.
pub(super) fn judge(
    expected: Expected,
    refused: Option<&str>,
) -> (Outcome, Option<(Kind, String)>) {
    match (expected, refused) {
        (Expected::Repeat, None) => (Outcome::Repeat, None),
        (Expected::WithoutEffect, None) => (Outcome::WithoutEffect, None),
        (Expected::Event, None) => {
            let what = "unanswered: no event, no dead letter, no repeat, no ack without effect";
            (Outcome::Unaccounted, Some((Kind::Missing, what.to_owned())))
        }
        (Expected::Refused(right), None) => {
            let what = format!("unanswered: it is to be refused ({right}), without a dead letter");
            (Outcome::Unaccounted, Some((Kind::Missing, what)))
        }
        (Expected::Refused(right), Some(found)) => {
            let what = format!("refused ({found}), {right} is right");
            let wrong = (right.as_str() != found).then_some((Kind::Different, what));
            (Outcome::DeadLetter, wrong)
        }
        (Expected::Event | Expected::Repeat | Expected::WithoutEffect, Some(found)) => {
            let what = format!("refused ({found}) without a reason in the log");
            (Outcome::DeadLetter, Some((Kind::Extra, what)))
        }
    }
}

/// A note to oneself is never unread, an empty conversation has nothing to read, and no position falls.
fn moves_nothing(ack: &ReadAck, conversation: Option<&Conversation>) -> bool {
    let id = ack.conversation();
    id.is_to_self()
        || conversation.is_none_or(|conversation| {
            clamped(ack, conversation) <= conversation.read_mid(id, ack.uid, ack.device)
        })
}

fn clamped(ack: &ReadAck, conversation: &Conversation) -> i64 {
    let last = conversation.last_mid();
    ack.mid.map_or(last, |mid| mid.get().min(last))
}

/// Whether the read position of an event is its ack's, clamped to the newest message.
pub(crate) fn is_clamped(
    command: &Command,
    body: &Body,
    conversation: Option<&Conversation>,
) -> bool {
    let (Command::ReadAck(ack), Body::ReadPosition(position)) = (command, body) else {
        return true;
    };
    let expected = conversation.map_or(0, |conversation| clamped(ack, conversation));
    expected == position.mid.get()
}

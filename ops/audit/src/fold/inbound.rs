//! The expected outcome of an inbound record, and whether the record had that outcome.

use schemas::{
    ConversationId, DirectConversation, Partition,
    command::{Command, InboundValue, ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Rules},
};

use super::{
    changes::{
        self, expected_of_contact_change, expected_of_message_change, first_version_of_change,
    },
    control::expected_of_control,
    conversation::Conversation,
    dedup::{Lookup, SendKey},
    expected::Expected,
    group_outcome::{expected_in_group, mismatch_in_group},
    outcomes::Outcome,
    routing::belongs_to,
    state_before::StateBefore,
};
use crate::Kind;

/// What must be known of the log before a command to judge the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// The rules in force.
    Rules,
    Everything,
}

impl Needs {
    pub(super) fn of(asked: &InboundValue, expected: Expected, rules: &Rules) -> Self {
        let command = &asked.command;
        let has_id = rules.rule_version >= 4 && asked.command_id() != Ok(None);
        match (command, expected) {
            // The command may repeat an earlier one, or have another command's id.
            (Command::Control(_) | Command::SetProfile(_), Expected::Event | Expected::Repeat)
                if has_id =>
            {
                Self::Everything
            }
            (_, Expected::Refused(Reason::Conflict)) => Self::Everything,
            (Command::Control(_), _) => Self::Rules,
            // Under earlier rules the command is malformed in any partition.
            (_, expected)
                if first_version(command) > 1
                    && (rules.rule_version < first_version(command)
                        || expected == Expected::Refused(Reason::WrongPartition)) =>
            {
                Self::Rules
            }
            (_, Expected::Refused(Reason::WrongPartition)) => Self::Nothing,
            // Only the rules decide about a profile (PROTOCOL K5).
            (Command::SetProfile(_), _) => Self::Rules,
            _ => Self::Everything,
        }
    }
}

pub(super) fn is_in_group(command: &Command) -> bool {
    matches!(command.conversation(), Some(ConversationId::Group(_)))
}

/// The rule version with which a command begins.
pub(super) fn first_version(command: &Command) -> u32 {
    match command {
        Command::ChangeMessage(change) => first_version_of_change(&change.change),
        Command::ChangeContact(_) | Command::SetProfile(_) => 3,
        _ if is_in_group(command) => 3,
        _ => 1,
    }
}

/// The expected outcome of a command in this partition.
pub(super) fn expected(
    command: &Command,
    partition: Partition,
    before: &StateBefore<'_>,
) -> Expected {
    if before.rules.rule_version < first_version(command) {
        return Expected::Refused(Reason::Malformed);
    }
    if !belongs_to(partition, command) {
        return Expected::Refused(Reason::WrongPartition);
    }
    let id = match command.conversation() {
        Some(ConversationId::Group(_)) => return expected_in_group(command, before),
        Some(ConversationId::Direct(id)) => Some(id),
        None => None,
    };
    match (command, id) {
        (Command::Control(control), _) => expected_of_control(control, before.rules),
        (Command::Send(send), Some(id)) => expected_of_send(send, id, before),
        (Command::ReadAck(ack), Some(id)) if moves_nothing(ack, id, before.conversation) => {
            Expected::WithoutEffect
        }
        (Command::ChangeMessage(asked), Some(id)) => expected_of_message_change(asked, id, before),
        (Command::ChangeContact(asked), _) => expected_of_contact_change(asked, before),
        _ => Expected::Event,
    }
}

fn expected_of_send(
    send: &SendMessage,
    id: DirectConversation,
    before: &StateBefore<'_>,
) -> Expected {
    let key = SendKey::new(send);
    match before.dedup.lookup(&key, before.now, before.rules) {
        Lookup::SamePayload => Expected::Repeat,
        Lookup::OtherPayload => Expected::Refused(Reason::Conflict),
        Lookup::Absent if send.msg.len() as i128 > i128::from(before.rules.max_msg_bytes) => {
            Expected::Refused(Reason::TooLarge)
        }
        Lookup::Absent if is_blocked(send, id, before.conversation) => {
            Expected::Refused(Reason::Blocked)
        }
        Lookup::Absent if begins_too_many(send, before) => {
            Expected::Refused(Reason::TooManyConversations)
        }
        Lookup::Absent => Expected::Event,
    }
}

fn is_blocked(
    send: &SendMessage,
    id: DirectConversation,
    conversation: Option<&Conversation>,
) -> bool {
    let receiver = id.side_of(id.peer_of(send.srcid));
    conversation.is_some_and(|known| known.flags(receiver).blocked)
}

fn begins_too_many(send: &SendMessage, before: &StateBefore<'_>) -> bool {
    begins_with_message(before.conversation, before.rules)
        && before.has_begun_enough(send.srcid, send.by_user)
}

/// Whether a message begins a conversation. From rule version 4 on it does not if contact flags have begun it.
pub(super) fn begins_with_message(conversation: Option<&Conversation>, rules: &Rules) -> bool {
    match conversation {
        None => true,
        Some(_) if rules.rule_version >= 4 => false,
        Some(known) => known.last_mid() == 0,
    }
}

/// The outcome of a record without an event, and what is wrong with it. `refused` is the reason in its dead letter, if it has one.
pub(super) fn judge(
    expected: Expected,
    refused: Option<&str>,
) -> (Outcome, Option<(Kind, String)>) {
    match (expected, refused) {
        (Expected::Repeat, None) => (Outcome::Repeat, None),
        (Expected::WithoutEffect, None) => (Outcome::WithoutEffect, None),
        (Expected::Event, None) => {
            let what = "unanswered: no event, no dead letter, no repeat, not without effect";
            (Outcome::Unaccounted, Some((Kind::Missing, what.to_owned())))
        }
        (Expected::Refused(expected), None) => {
            let what =
                format!("unanswered: it is to be refused ({expected}), without a dead letter");
            (Outcome::Unaccounted, Some((Kind::Missing, what)))
        }
        (Expected::Refused(expected), Some(found)) => {
            let what = format!("refused ({found}), {expected} is right");
            let wrong = (expected.as_str() != found).then_some((Kind::Different, what));
            (Outcome::DeadLetter, wrong)
        }
        (Expected::Event | Expected::Repeat | Expected::WithoutEffect, Some(found)) => {
            let what = format!("refused ({found}) without a reason in the log");
            (Outcome::DeadLetter, Some((Kind::Extra, what)))
        }
    }
}

/// A note to oneself is never unread, an empty conversation has nothing to read, and no position falls.
fn moves_nothing(
    ack: &ReadAck,
    id: DirectConversation,
    conversation: Option<&Conversation>,
) -> bool {
    id.is_to_self()
        || conversation.is_none_or(|conversation| {
            clamped(ack, conversation) <= conversation.read_mid(id, ack.uid, ack.device)
        })
}

fn clamped(ack: &ReadAck, conversation: &Conversation) -> i64 {
    let last = conversation.last_mid();
    ack.mid.map_or(last, |mid| mid.get().min(last))
}

/// The field in which an event differs from what follows from its command and the log before it: a read position that is not clamped to the newest
/// message, or a flag that was not asked for.
pub(super) fn mismatch_by_state(
    command: &Command,
    body: &Body,
    before: &StateBefore<'_>,
) -> Option<&'static str> {
    if is_in_group(command) {
        return mismatch_in_group(command, body, before);
    }
    match (command, body) {
        (Command::ReadAck(ack), Body::ReadPosition(position)) => {
            let expected = before.conversation;
            let expected = expected.map_or(0, |conversation| clamped(ack, conversation));
            (expected != position.mid.get()).then_some("mid")
        }
        (Command::ChangeContact(asked), Body::ContactChange(change)) => {
            let has_the_flags = changes::has_the_flags(asked, change, before.conversation);
            (!has_the_flags).then_some("a flag")
        }
        _ => None,
    }
}

//! What follows from the log for an inbound record, and whether that is what became of it.

use schemas::{
    ConversationId, DirectConversation, GroupRole, Partition, UserId,
    command::{Command, Control, InboundValue, ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Rules},
};

use super::{
    begun::BegunConversations,
    changes::{self, expected_of_contact_change, expected_of_message_change},
    conversation::Conversation,
    dedup::{DedupWindow, Lookup, SendKey},
    group::Group,
    group_outcome::{expected_in_group, wrong_in_group},
    memberships::Memberships,
    outcomes::Outcome,
    recall_window::RecallWindow,
    routing::belongs_to,
};
use crate::Kind;

/// The state of a partition before a record.
pub(crate) struct StateBefore<'a> {
    /// The one of the command; so is the group.
    pub(crate) conversation: Option<&'a Conversation>,
    pub(crate) group: Option<&'a Group>,
    /// The group was dissolved under rule version 3: who was in it, and who wrote what, is not remembered.
    pub(crate) is_forgotten: bool,
    pub(crate) dedup: &'a DedupWindow,
    pub(crate) begun: &'a BegunConversations,
    pub(crate) memberships: &'a Memberships,
    pub(crate) recent: &'a RecallWindow,
    pub(crate) rules: &'a Rules,
    /// Log time at the record.
    pub(crate) now: i64,
    /// The command is not that of a record, but one that asks for what an event says: nobody knows what client_id it had.
    pub(crate) is_of_event: bool,
}

impl StateBefore<'_> {
    /// A member of the group, dissolved or not, as far as the sequencer remembers.
    pub(super) fn member(&self, uid: UserId) -> Option<(GroupRole, bool)> {
        self.group.filter(|_| !self.is_forgotten)?.member(uid)
    }

    /// Whether a user who posts himself cannot begin a conversation any more (PROTOCOL S14).
    pub(super) fn has_begun_enough(&self, user: UserId, by_user: bool) -> bool {
        let limit = self.rules.new_conversations_per_day;
        by_user && limit > 0 && self.begun.of(user, self.now) >= limit
    }
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
}

/// What has to be known of the log before a command in order to judge it.
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
            // It may repeat an earlier one, or have its id.
            (Command::Control(_) | Command::SetProfile(_), Expected::Event | Expected::Repeat)
                if has_id =>
            {
                Self::Everything
            }
            (_, Expected::Refused(Reason::Conflict)) => Self::Everything,
            (Command::Control(_), _) => Self::Rules,
            // Under earlier rules it is malformed, wherever it is.
            (_, expected)
                if begins_with_version_3(command)
                    && (rules.rule_version < 3
                        || expected == Expected::Refused(Reason::WrongPartition)) =>
            {
                Self::Rules
            }
            (_, Expected::Refused(Reason::WrongPartition)) => Self::Nothing,
            // Nothing else decides about a profile (PROTOCOL K5).
            (Command::SetProfile(_), _) => Self::Rules,
            _ => Self::Everything,
        }
    }
}

pub(super) fn send_key(send: &SendMessage) -> SendKey<'_> {
    SendKey {
        srcid: send.srcid,
        to: send.conversation(),
        client_msg_id: &send.client_msg_id,
        msg: &send.msg,
    }
}

pub(crate) fn conversation_of(command: &Command) -> Option<ConversationId> {
    match command {
        Command::Send(send) => Some(send.conversation()),
        Command::ReadAck(ack) => Some(ack.conversation()),
        Command::ChangeMessage(change) => Some(change.conversation()),
        Command::ChangeContact(change) => Some(change.conversation().into()),
        Command::ChangeGroup(asked) => Some(ConversationId::Group(asked.gid)),
        Command::SetProfile(_) | Command::Control(_) => None,
    }
}

pub(super) fn is_in_group(command: &Command) -> bool {
    matches!(conversation_of(command), Some(ConversationId::Group(_)))
}

fn begins_with_version_3(command: &Command) -> bool {
    let is_of_its_kinds = matches!(
        command,
        Command::ChangeMessage(_) | Command::ChangeContact(_) | Command::SetProfile(_)
    );
    is_of_its_kinds || is_in_group(command)
}

/// What follows for a command in this partition.
pub(super) fn expected(
    command: &Command,
    partition: Partition,
    before: &StateBefore<'_>,
) -> Expected {
    if begins_with_version_3(command) && before.rules.rule_version < 3 {
        return Expected::Refused(Reason::Malformed);
    }
    if !belongs_to(partition, command) {
        return Expected::Refused(Reason::WrongPartition);
    }
    let id = match conversation_of(command) {
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
    let key = send_key(send);
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

/// Whether a message begins a conversation. From rule version 4 on not where flags of a contact did.
pub(super) fn begins_with_message(conversation: Option<&Conversation>, rules: &Rules) -> bool {
    match conversation {
        None => true,
        Some(_) if rules.rule_version >= 4 => false,
        Some(known) => known.last_mid() == 0,
    }
}

fn expected_of_control(control: &Control, rules: &Rules) -> Expected {
    let after = rules_after(control, rules);
    let longest_window = match after.rule_version {
        1 => 36_500 * 86_400_000,
        _ => 49 * 86_400_000,
    };
    let is_valid = after.rule_version >= rules.rule_version.max(1)
        && (0..=longest_window).contains(&after.dedup_window_ms)
        && (1..=10_000_000).contains(&after.dedup_max_entries)
        && (1..=65_535).contains(&after.max_msg_bytes)
        && (after.rule_version < 2 || is_valid_version_2(control, rules, &after))
        && (after.rule_version < 3 || is_valid_version_3(&after))
        && (0..=1_000_000).contains(&after.new_memberships_per_day)
        && (0..=1_000_000).contains(&after.max_memberships_by_others);
    if is_valid {
        Expected::Event
    } else {
        Expected::Refused(Reason::InvalidControl)
    }
}

fn is_valid_version_2(control: &Control, before: &Rules, after: &Rules) -> bool {
    has_the_key(control, before)
        && (1..=10_000_000).contains(&after.dedup_max_per_sender)
        && (0..=1_000_000).contains(&after.new_conversations_per_day)
}

fn is_valid_version_3(after: &Rules) -> bool {
    (-1..=86_400_000).contains(&after.recall_window_ms)
        && (1..=1_000_000).contains(&after.max_group_members)
}

/// The rules that a control record leads to, if it is valid: what it asks for, and the rest as it was, or as its version begins.
fn rules_after(control: &Control, before: &Rules) -> Rules {
    let version = control.rule_version.unwrap_or(before.rule_version);
    let mut after = Rules {
        rule_version: version,
        dedup_window_ms: control.dedup_window_ms.unwrap_or(before.dedup_window_ms),
        dedup_max_entries: control
            .dedup_max_entries
            .unwrap_or(before.dedup_max_entries),
        max_msg_bytes: control.max_msg_bytes.unwrap_or(before.max_msg_bytes),
        ..*before
    };
    let or = |since, begin, goes_on| {
        if before.rule_version < since {
            begin
        } else {
            goes_on
        }
    };
    if version >= 2 {
        let given = control.hash_key.as_deref();
        after.hash_key = before
            .hash_key
            .or_else(|| given.and_then(|key| key.try_into().ok()));
        after.dedup_max_per_sender =
            control
                .dedup_max_per_sender
                .unwrap_or(or(2, 100_000, before.dedup_max_per_sender));
        after.new_conversations_per_day = control.new_conversations_per_day.unwrap_or(or(
            2,
            20,
            before.new_conversations_per_day,
        ));
    }
    if version >= 3 {
        after.recall_window_ms =
            control
                .recall_window_ms
                .unwrap_or(or(3, 120_000, before.recall_window_ms));
        after.delete_for_all = control.delete_for_all.unwrap_or(before.delete_for_all);
        after.max_group_members =
            control
                .max_group_members
                .unwrap_or(or(3, 10_000, before.max_group_members));
    }
    if version >= 4 {
        after.new_memberships_per_day =
            control
                .new_memberships_per_day
                .unwrap_or(or(4, 1_000, before.new_memberships_per_day));
        after.max_memberships_by_others = control.max_memberships_by_others.unwrap_or(or(
            4,
            100,
            before.max_memberships_by_others,
        ));
    }
    after
}

/// The first rule of an event that its control record does not lead to.
pub(super) fn wrong_rule(control: &Control, before: &Rules, found: &Rules) -> Option<&'static str> {
    let right = rules_after(control, before);
    let rules = [
        ("rule_version", right.rule_version == found.rule_version),
        (
            "dedup_window_ms",
            right.dedup_window_ms == found.dedup_window_ms,
        ),
        (
            "dedup_max_entries",
            right.dedup_max_entries == found.dedup_max_entries,
        ),
        ("max_msg_bytes", right.max_msg_bytes == found.max_msg_bytes),
        ("hash_key", right.hash_key == found.hash_key),
        (
            "dedup_max_per_sender",
            right.dedup_max_per_sender == found.dedup_max_per_sender,
        ),
        (
            "new_conversations_per_day",
            right.new_conversations_per_day == found.new_conversations_per_day,
        ),
        (
            "recall_window_ms",
            right.recall_window_ms == found.recall_window_ms,
        ),
        (
            "delete_for_all",
            right.delete_for_all == found.delete_for_all,
        ),
        (
            "max_group_members",
            right.max_group_members == found.max_group_members,
        ),
        (
            "new_memberships_per_day",
            right.new_memberships_per_day == found.new_memberships_per_day,
        ),
        (
            "max_memberships_by_others",
            right.max_memberships_by_others == found.max_memberships_by_others,
        ),
    ];
    let (name, _) = rules.into_iter().find(|(_, equal)| !equal)?;
    Some(name)
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
            let what = "unanswered: no event, no dead letter, no repeat, not without effect";
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

/// The field of an event that is not what the log before it makes of its command: a read position that is not clamped to the newest message,
/// or a flag that was not asked for.
pub(super) fn wrong_by_state(
    command: &Command,
    body: &Body,
    before: &StateBefore<'_>,
) -> Option<&'static str> {
    if is_in_group(command) {
        return wrong_in_group(command, body, before);
    }
    match (command, body) {
        (Command::ReadAck(ack), Body::ReadPosition(position)) => {
            let right = before.conversation;
            let right = right.map_or(0, |conversation| clamped(ack, conversation));
            (right != position.mid.get()).then_some("mid")
        }
        (Command::ChangeContact(asked), Body::ContactChange(change)) => {
            let is_right = changes::has_the_flags(asked, change, before.conversation);
            (!is_right).then_some("a flag")
        }
        _ => None,
    }
}

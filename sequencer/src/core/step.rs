//! The decision about one inbound record.

use schemas::{
    AppliedCommand, ChangeMessage, CommandId, ConversationId, DirectConversation, Partition,
    TimestampMs,
    command::{Command, Control, InboundValue, ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Message, ReadPosition, Rules, Source},
};

use super::{
    State,
    checks::{begins_too_many, check_command_id, check_msg_bytes, check_send_id},
    control::{self, InvalidRules},
    conversation::Conversation,
    decision::{Decision, EventStamp, NoEvent, NoOp, refuse},
    dedup::{CommandFields, content_hash},
    state::is_begun_by_message,
    step_changes::{step_contact_change, step_message_change},
    step_group,
};

/// One record of `chat.inbound`.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    /// Its offset and leader epoch.
    pub src: Source,
    /// Its log-append time, which may be earlier than that of the record before.
    pub ts: TimestampMs,
    /// Its value; empty if it has none.
    pub value: &'a [u8],
}

/// Decides about an inbound record of `partition`. The same state and record always give the same decision.
#[must_use]
pub fn step(state: &State, partition: Partition, inbound: &Inbound<'_>) -> Decision {
    let value = match InboundValue::parse(inbound.value) {
        Ok(parsed) => parsed,
        Err(malformed) => return refuse(Reason::Malformed, malformed.to_string()).into(),
    };
    let id = match value.command_id() {
        Ok(id) => id,
        Err(malformed) if state.rules.rule_version >= 4 => {
            return refuse(Reason::Malformed, malformed.to_string()).into();
        }
        Err(_) => None,
    };
    let InboundValue { command, words, .. } = value;
    if command.rule_version() > state.rules.rule_version {
        // The same refusal as by a program that does not know the kind.
        let detail = format!("it begins with rule version {}", command.rule_version());
        return refuse(Reason::Malformed, detail).into();
    }
    if let Some(right) = command.partition().filter(|p| *p != partition) {
        let detail = format!("it belongs to partition {right}, and it is in {partition}");
        return refuse(Reason::WrongPartition, detail).into();
    }
    let stamp = EventStamp {
        src: inbound.src,
        ts: effective_ts(state, inbound),
        words,
    };
    match (&command, id) {
        (Command::ChangeMessage(change), _) if change.change.is_for_one() => {
            match check_view(state, stamp, change) {
                Ok(()) => step_command(state, stamp, command),
                Err(no_event) => no_event.into(),
            }
        }
        (_, Some(id)) => step_once(state, stamp, command, &id),
        (_, None) => step_command(state, stamp, command),
    }
}

/// A repeat of a hide or clear is recognised whatever its id (PROTOCOL C5, G7).
fn check_view(state: &State, stamp: EventStamp, asked: &ChangeMessage) -> Result<(), NoEvent> {
    match CommandFields::of_view(asked.by, asked.to, asked.mid, &asked.change) {
        Some(fields) if state.rules.rule_version >= 4 => check_command_id(state, stamp, fields),
        _ => Ok(()),
    }
}

/// The decision about a command with an id, by which a repeat is recognised (PROTOCOL S15).
fn step_once(state: &State, stamp: EventStamp, command: Command, id: &CommandId) -> Decision {
    let applied = as_applied(&state.rules, &command, id);
    let fields = applied
        .as_ref()
        .map(|applied| CommandFields::new(command.scope(), applied));
    if let Err(no_event) = fields.map_or(Ok(()), |fields| check_command_id(state, stamp, fields)) {
        return no_event.into();
    }
    let asked = command.clone();
    let mut decision = step_command(state, stamp, command);
    if let Decision::Emit(event) = &mut decision
        && !is_repeatable(&asked, &event.body)
    {
        let applied = match &event.body {
            // The command that raises the version is remembered, too.
            Body::Control(rules) => as_applied(rules, &asked, id),
            _ => applied,
        };
        event.command = applied.map(Box::new);
    }
    decision
}

/// The command as its event names it; `None` if the rules have no ids.
fn as_applied(rules: &Rules, command: &Command, id: &CommandId) -> Option<AppliedCommand> {
    let key = rules
        .hash_key
        .as_ref()
        .filter(|_| rules.rule_version >= 4)?;
    Some(AppliedCommand {
        id: id.clone(),
        content: content_hash(key, command, id),
    })
}

/// Whether a repeat changes nothing by itself, as for a read-ack that was not clamped (PROTOCOL S4). Most read-acks are such, and need no entry.
fn is_repeatable(command: &Command, body: &Body) -> bool {
    match (command, body) {
        (Command::ReadAck(ack), Body::ReadPosition(position)) => ack.mid == Some(position.mid),
        _ => false,
    }
}

fn step_command(state: &State, stamp: EventStamp, command: Command) -> Decision {
    let in_group = |gid, by, decided: Result<Body, NoEvent>| {
        let for_strangers = |no_event| step_group::for_strangers(state, (gid, by), no_event);
        stamp.decide(decided.map_err(for_strangers))
    };
    match command {
        Command::Send(send) => match send.conversation() {
            ConversationId::Direct(id) => step_send(state, stamp, id, send),
            ConversationId::Group(gid) => {
                in_group(gid, send.srcid, step_group::send(state, stamp, gid, send))
            }
        },
        Command::ReadAck(ack) => match ack.conversation() {
            ConversationId::Direct(id) => step_read_ack(state, stamp, id, &ack),
            ConversationId::Group(gid) => {
                in_group(gid, ack.uid, step_group::read(state, gid, &ack))
            }
        },
        Command::Control(control) => step_control(state, stamp, &control),
        Command::ChangeMessage(change) => match change.conversation() {
            ConversationId::Direct(id) => step_message_change(state, stamp, id, change),
            ConversationId::Group(gid) => in_group(
                gid,
                change.by,
                step_group::change_message(state, stamp, gid, change),
            ),
        },
        Command::ChangeContact(change) => step_contact_change(state, stamp, &change),
        Command::ChangeGroup(change) => in_group(
            change.gid,
            change.by,
            step_group::change(state, stamp, change),
        ),
        // The decision about a profile does not depend on the state, and the state does not keep it (PROTOCOL K5).
        Command::SetProfile(profile) => stamp.emit(Body::Profile(profile)),
    }
}

/// Log time: independent of wall clocks, and never going back (PROTOCOL S2).
fn effective_ts(state: &State, inbound: &Inbound<'_>) -> TimestampMs {
    inbound.ts.max(state.clock)
}

fn step_send(
    state: &State,
    stamp: EventStamp,
    id: DirectConversation,
    send: SendMessage,
) -> Decision {
    let checked = check_send_id(state, stamp, (&send).into());
    if let Err(no_event) = checked.and_then(|()| check_msg_bytes(state, &send.msg)) {
        return no_event.into();
    }
    let known = state.conversations.get(&id);
    let unknown = Conversation::default();
    let conversation = known.unwrap_or(&unknown);
    let side = id.side_of(send.srcid);
    if conversation.is_blocked(side) {
        return refuse(Reason::Blocked, "the receiver blocks the sender".to_owned()).into();
    }
    let begins = send.by_user && is_begun_by_message(known, &state.rules);
    if begins && begins_too_many(state, stamp.ts, send.srcid) {
        let most = state.rules.new_conversations_per_day;
        let detail = format!(
            "the sender has begun {most} conversations in this partition today, as many as a user may"
        );
        return refuse(Reason::TooManyConversations, detail).into();
    }
    stamp.emit(Body::Message(Message {
        mid: conversation.last_mid.next(),
        ordinal: conversation.count(side).next(),
        srcid: send.srcid,
        to: send.to,
        client_msg_id: send.client_msg_id,
        msg: send.msg,
    }))
}

/// A read position is clamped to the last message and never goes back (PROTOCOL S4).
fn step_read_ack(
    state: &State,
    stamp: EventStamp,
    id: DirectConversation,
    ack: &ReadAck,
) -> Decision {
    if id.is_to_self() {
        return Decision::NoOp(NoOp::NoteToSelf);
    }
    let Some(conversation) = state.conversations.get(&id) else {
        return Decision::NoOp(NoOp::UnknownConversation);
    };
    let last = conversation.last_mid;
    let mid = ack.mid.unwrap_or(last).min(last);
    let position = conversation.read_mid(id.side_of(ack.uid), ack.device);
    if mid <= position {
        return Decision::NoOp(NoOp::PositionNotAdvanced { position });
    }
    stamp.emit(Body::ReadPosition(ReadPosition {
        uid: ack.uid,
        to: ack.to,
        device: ack.device,
        mid,
        ordinal: conversation.count_at(id.side_of(id.peer_of(ack.uid)), mid),
    }))
}

fn step_control(state: &State, stamp: EventStamp, control: &Control) -> Decision {
    match control::change(state.rules, control) {
        // Even if no setting changes, there is an event, so that the sender sees that the record was applied.
        Ok(rules) => stamp.emit(Body::Control(rules)),
        Err(InvalidRules::Setting(wrong)) => refuse(Reason::InvalidControl, wrong).into(),
        Err(InvalidRules::Unknown(unknown)) => Decision::Halt(unknown),
    }
}

//! Whether an inbound record has the outcome that follows from the log before it.

use schemas::{
    DirectConversation,
    command::{Command, ReadAck, SendMessage},
    event::{Body, Message, Rules},
};

use super::{
    conversation::Conversation,
    dedup::{DedupWindow, Lookup, SendKey},
    outcomes::Outcome,
};

/// The state of a partition before a record.
pub(crate) struct StateBefore<'a> {
    pub(crate) conversation: Option<&'a Conversation>,
    pub(crate) dedup: &'a DedupWindow,
    pub(crate) rules: &'a Rules,
    /// Log time at the record.
    pub(crate) now: i64,
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

/// The outcome of a record that has neither an event nor a dead letter.
pub(super) fn outcome_without_event(command: &Command, before: &StateBefore<'_>) -> Outcome {
    match command {
        Command::Send(send) => {
            match before
                .dedup
                .lookup(&send_key(send), before.now, before.rules)
            {
                Lookup::SamePayload => Outcome::Repeat,
                Lookup::Absent | Lookup::OtherPayload => Outcome::Unaccounted,
            }
        }
        Command::ReadAck(ack) if moves_nothing(ack, before.conversation) => Outcome::WithoutEffect,
        Command::ReadAck(_) | Command::Control(_) => Outcome::Unaccounted,
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

//! Whether an inbound record got the answer that the log before it asks for.

use schemas::{
    DirectConversation,
    command::{Command, ReadAck, SendMessage},
    event::{Body, Message, Rules},
};

use super::{
    conversation::Conversation,
    memory::{Memory, Remembered, SendKey},
};

/// Why a record may have no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// A repeat of a sequenced send.
    Repeat,
    /// A read-ack that moves nothing.
    WithoutEffect,
    /// Nothing accounts for it.
    Unanswered,
}

/// A partition as it was before the record.
pub(crate) struct Before<'a> {
    pub(crate) conversation: Option<&'a Conversation>,
    pub(crate) memory: &'a Memory,
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

/// Why a record without event and without dead letter has none.
pub(crate) fn silence(command: &Command, before: &Before<'_>) -> Silence {
    match command {
        Command::Send(send) => {
            match before
                .memory
                .recall(&send_key(send), before.now, before.rules)
            {
                Remembered::Same => Silence::Repeat,
                Remembered::Nothing | Remembered::Other => Silence::Unanswered,
            }
        }
        Command::ReadAck(ack) if moves_nothing(ack, before.conversation) => Silence::WithoutEffect,
        Command::ReadAck(_) | Command::Control(_) => Silence::Unanswered,
    }
}

/// Nothing is unread in a note to oneself, nothing is read where there is no message, and no position goes back.
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

/// Whether a position is where its ack puts it: at or below the newest message.
pub(crate) fn is_clamped(
    command: &Command,
    body: &Body,
    conversation: Option<&Conversation>,
) -> bool {
    let (Command::ReadAck(ack), Body::ReadPosition(position)) = (command, body) else {
        return true;
    };
    let wanted = conversation.map_or(0, |conversation| clamped(ack, conversation));
    wanted == position.mid.get()
}

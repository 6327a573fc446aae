//! What one inbound record comes to.

use schemas::{
    ConversationId, Mid, Partition, TimestampMs,
    command::{Command, Control, ReadAck, SendMessage},
    dead_letter::Reason,
    event::{Body, Event, Message, ReadPosition, Source},
};

use super::{
    State,
    control::{self, UnknownRules},
    conversation::Conversation,
    dedup::{DedupKey, payload_hash},
};
use crate::sabotage::{self, Rule, dropped};

/// One record of `chat.inbound`.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    /// Where it stands.
    pub src: Source,
    /// Its log-append time, which may go back from one record to the next.
    pub ts: TimestampMs,
    /// Its value; empty where it had none.
    pub value: &'a [u8],
}

/// What an inbound record comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This event; the state is to be folded over it.
    Emit(Event),
    /// A dead letter; the state stays as it is.
    DeadLetter(Refusal),
    /// Nothing.
    Silent(Silent),
    /// The binary must stop before this record (PROTOCOL S5).
    Stop(UnknownRules),
}

/// Why a record cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub reason: Reason,
    /// For people; holds no text of a message.
    pub detail: String,
}

/// Why a record emits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {
    /// The same send was sequenced before.
    Repeat {
        /// As this message.
        mid: Mid,
    },
    /// A read-ack that does not move the position.
    ReadNotAbove {
        /// Where it stands.
        position: Mid,
    },
    /// A read-ack to a conversation without a message.
    ReadNothing,
    /// A read-ack to a note to oneself: those are never unread, so they have no read position.
    ReadOwnNotes,
}

/// Decides what an inbound record of `partition` comes to. The same state and record give the same decision, always.
#[must_use]
pub fn step(state: &State, partition: Partition, inbound: &Inbound<'_>) -> Decision {
    let command = match Command::parse(inbound.value) {
        Ok(command) => command,
        Err(malformed) => return refuse(Reason::Malformed, malformed.to_string()),
    };
    let conversation = command.conversation();
    if let Some(right) = conversation
        .map(ConversationId::partition)
        .filter(|p| *p != partition)
    {
        let detail =
            format!("its conversation belongs to partition {right}, it lies in {partition}");
        return refuse(Reason::WrongPartition, detail);
    }
    let at = Moment {
        src: inbound.src,
        ts: effective_ts(state, inbound),
    };
    match command {
        Command::Send(send) => step_send(state, at, send),
        Command::ReadAck(ack) => step_read_ack(state, at, &ack),
        Command::Control(control) => step_control(state, at, &control),
    }
}

/// What an event takes from its inbound record.
#[derive(Clone, Copy)]
struct Moment {
    src: Source,
    ts: TimestampMs,
}

impl Moment {
    fn emit(self, body: Body) -> Decision {
        Decision::Emit(Event {
            src: self.src,
            ts: self.ts,
            body,
        })
    }
}

/// Log time: never the wall's, never back (PROTOCOL S2).
fn effective_ts(state: &State, inbound: &Inbound<'_>) -> TimestampMs {
    if dropped(Rule::S2Wall) {
        return sabotage::wall();
    }
    inbound.ts.max(state.clock)
}

fn step_send(state: &State, at: Moment, send: SendMessage) -> Decision {
    let id = send.conversation();
    let key = DedupKey::new(id, send.srcid, &send.client_msg_id);
    let window_ms = state.rules.dedup_window_ms;
    // An entry past its window stays until the next event evicts it, so that silence changes nothing.
    let known = state
        .dedup
        .get(&key)
        .filter(|entry| dropped(Rule::S3Window) || entry.is_live(at.ts, window_ms));
    if let Some(entry) = known {
        let same = entry.payload_hash == payload_hash(send.srcid, send.destid, &send.msg);
        return if same || dropped(Rule::S3Payload) {
            Decision::Silent(Silent::Repeat { mid: entry.mid })
        } else {
            let detail = format!(
                "client_msg_id is that of message {} with other contents",
                entry.mid
            );
            refuse(Reason::Conflict, detail)
        };
    }
    let (bytes, most) = (send.msg.len(), state.rules.max_msg_bytes);
    if i64::try_from(bytes).is_ok_and(|bytes| bytes > most) {
        let detail = format!("msg has {bytes} bytes: at most {most} are right");
        return refuse(Reason::TooLarge, detail);
    }
    let unknown = Conversation::default();
    let conversation = state.conversations.get(&id).unwrap_or(&unknown);
    at.emit(Body::Message(Message {
        mid: conversation.last_mid.next(),
        n: conversation.count(id.side_of(send.srcid)).next(),
        srcid: send.srcid,
        destid: send.destid,
        client_msg_id: send.client_msg_id,
        msg: send.msg,
    }))
}

/// Clamped to the last message, never back (PROTOCOL S4).
fn step_read_ack(state: &State, at: Moment, ack: &ReadAck) -> Decision {
    let id = ack.conversation();
    if id.is_to_self() {
        return Decision::Silent(Silent::ReadOwnNotes);
    }
    let Some(conversation) = state.conversations.get(&id) else {
        return Decision::Silent(Silent::ReadNothing);
    };
    let last = conversation.last_mid;
    let asked = ack.mid.unwrap_or(last);
    let mid = if dropped(Rule::S4Clamp) {
        asked
    } else {
        asked.min(last)
    };
    let position = conversation.read_mid(id.side_of(ack.uid), ack.device);
    if mid <= position && !dropped(Rule::S4Back) {
        return Decision::Silent(Silent::ReadNotAbove { position });
    }
    at.emit(Body::ReadPosition(ReadPosition {
        uid: ack.uid,
        peer: ack.peer,
        device: ack.device,
        mid,
        n: conversation.count_at(id.side_of(ack.peer), mid),
    }))
}

fn step_control(state: &State, at: Moment, control: &Control) -> Decision {
    match control::change(state.rules, control) {
        // Also where nothing changes: whoever sent it sees that it was applied, and where.
        control::Change::To(rules) => at.emit(Body::Control(rules)),
        control::Change::OutOfBounds(wrong) => refuse(Reason::InvalidControl, wrong),
        control::Change::Unknown(unknown) => Decision::Stop(unknown),
    }
}

fn refuse(reason: Reason, detail: String) -> Decision {
    Decision::DeadLetter(Refusal { reason, detail })
}

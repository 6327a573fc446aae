//! The decision about an inbound record.

use schemas::{
    Mid, TimestampMs, WordVerdict,
    dead_letter::Reason,
    event::{Body, Event, Source, UnknownRules},
};

/// The decision about an inbound record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Append this event and apply it to the state.
    Emit(Event),
    /// Write a dead-letter record; the state does not change.
    DeadLetter(Refusal),
    /// Write nothing; the state does not change.
    NoOp(NoOp),
    /// Stop before this record (PROTOCOL S5).
    Halt(UnknownRules),
}

/// Why a record cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, for programs.
    pub reason: Reason,
    /// The reason, for people, without the text of a message.
    pub detail: String,
}

/// Why a record emits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOp {
    /// The same send or command was sequenced before.
    Repeat,
    /// A read-ack at or below the read position.
    PositionNotAdvanced {
        /// The read position.
        position: Mid,
    },
    /// A read-ack in a conversation without messages.
    UnknownConversation,
    /// A read-ack in a note to oneself, which is never unread and has no read position.
    NoteToSelf,
    /// A recall of a message that was recalled before.
    AlreadyRecalled,
    /// A clear at or below the message up to which the history was cleared before.
    AlreadyCleared,
    /// A change that leaves the contact as it is.
    ContactUnchanged,
    /// A change that leaves the group as it is.
    GroupUnchanged,
}

/// A decision other than an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoEvent {
    DeadLetter(Refusal),
    NoOp(NoOp),
}

impl From<NoOp> for NoEvent {
    fn from(no_op: NoOp) -> Self {
        Self::NoOp(no_op)
    }
}

impl From<NoEvent> for Decision {
    fn from(no_event: NoEvent) -> Self {
        match no_event {
            NoEvent::DeadLetter(refusal) => Self::DeadLetter(refusal),
            NoEvent::NoOp(no_op) => Self::NoOp(no_op),
        }
    }
}

pub(super) fn refuse(reason: Reason, detail: String) -> NoEvent {
    NoEvent::DeadLetter(Refusal { reason, detail })
}

/// The parts of an event that come from its record: source, time, and the verdict of the word filter.
#[derive(Clone, Copy)]
pub(super) struct EventStamp {
    pub(super) src: Source,
    pub(super) ts: TimestampMs,
    pub(super) words: Option<WordVerdict>,
}

impl EventStamp {
    pub(super) fn emit(self, body: Body) -> Decision {
        Decision::Emit(Event {
            src: self.src,
            ts: self.ts,
            body,
            command: None,
            words: self.words,
        })
    }

    pub(super) fn decide(self, body: Result<Body, NoEvent>) -> Decision {
        match body {
            Ok(body) => self.emit(body),
            Err(no_event) => no_event.into(),
        }
    }
}

//! The plain data behind [`super::results::Results`]: what waits, what is ready, and what room it takes.

use std::{collections::VecDeque, sync::Arc};

use event_log::DeliveryFailure;
use schemas::{InboundPosition, Partition};
use tokio::time::Instant;
use uuid::Uuid;

use super::slots::{Failure, Slot, SlotQueue};
use crate::{
    posted::EventKind,
    room::{Room, Taken},
};

/// How many results are taken at a time.
const TAKE: usize = 512;

/// The lines of a batch whose results were not taken yet.
pub(super) struct State {
    slots: SlotQueue,
    /// What does not fit into a slot, with its slot's index, in their order.
    notes: VecDeque<(u32, Note)>,
    /// Room for what is in here.
    held: Taken,
    /// Lines without a delivery report, those dropped from `slots` too.
    pending: u32,
    tally: Tally,
    end: Option<End>,
    /// Whether the summary was taken, behind which nothing comes.
    is_summed_up: bool,
    /// When the client last took something.
    last_taken: Instant,
}

/// More about a line than its slot has space for.
pub(crate) enum Note {
    /// The client_msg_id that its message was given.
    MadeUp(Uuid),
    /// The result of a line that was refused, as it will be sent.
    Refusal(Box<[u8]>),
}

/// How many lines were answered, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
}

/// No more lines will come.
struct End {
    /// What is said before the summary, as it will be sent.
    last_words: Option<Box<[u8]>>,
}

/// How far the client is with the results of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is nothing to take until more delivery reports come.
    AwaitsReports,
    /// There is something to take.
    Ready {
        /// When the client last took something.
        last_taken: Instant,
    },
    /// Everything was taken.
    Taken,
}

/// One thing to send.
pub(crate) enum LineResult {
    Accepted {
        line: u32,
        at: InboundPosition,
        made_up: Option<Uuid>,
    },
    Failed {
        line: u32,
        kind: EventKind,
        failure: Failure,
        made_up: Option<Uuid>,
    },
    Written(Box<[u8]>),
    Summary(Tally),
}

/// What a result takes here, bytes, until the client has taken it.
pub(crate) fn held_bytes(note: Option<&Note>) -> u32 {
    const NOTE_BYTES: usize = 2 * size_of::<(u32, Note)>();
    let bytes = match note {
        None => 0,
        Some(Note::MadeUp(_)) => NOTE_BYTES,
        Some(Note::Refusal(written)) => NOTE_BYTES + written.len(),
    };
    (size_of::<Slot>() + bytes) as u32
}

impl State {
    pub(super) fn new(room: &Arc<Room>) -> Self {
        Self {
            slots: SlotQueue::default(),
            notes: VecDeque::new(),
            held: Taken::nothing(room),
            pending: 0,
            tally: Tally::default(),
            end: None,
            is_summed_up: false,
            last_taken: Instant::now(),
        }
    }

    /// Adds a line that is about to be appended; answers its index.
    pub(super) fn expect(
        &mut self,
        line: u32,
        partition: Partition,
        made_up: Option<Uuid>,
        room: Taken,
    ) -> u32 {
        self.pending += 1;
        let slot = Slot::Pending { line, partition };
        self.push(slot, made_up.map(Note::MadeUp), room)
    }

    /// Adds a line that was refused; answers its index.
    pub(super) fn refuse(&mut self, line: u32, refusal: Note, room: Taken) -> u32 {
        self.tally.rejected += 1;
        self.push(Slot::Refused { line }, Some(refusal), room)
    }

    /// The index of the oldest line whose result was not taken.
    pub(super) fn first_index(&self) -> u32 {
        self.slots.first_index()
    }

    /// Whether no more lines will come.
    pub(super) fn is_finished(&self) -> bool {
        self.end.is_some()
    }

    /// Whether no more results will come.
    pub(super) fn is_answered(&self) -> bool {
        self.is_finished() && self.pending == 0
    }

    /// No more lines will come. Only the first call counts.
    pub(super) fn finish(&mut self, last_words: Option<Box<[u8]>>) {
        if self.end.is_none() {
            self.tally.rejected += u64::from(last_words.is_some());
            self.end = Some(End { last_words });
        }
    }

    /// Drops what was not taken; `last_words`, given the line of the first of it, are said instead.
    pub(super) fn give_up(&mut self, last_words: impl FnOnce(u32) -> Box<[u8]>) {
        let Some(first) = self.slots.first() else {
            return;
        };
        self.drop_all();
        self.end = Some(End {
            last_words: Some(last_words(first.line())),
        });
    }

    /// Whether the client can take something, and since when it could have.
    pub(super) fn progress(&self) -> Progress {
        match self.slots.first() {
            Some(slot) if slot.is_pending() => Progress::AwaitsReports,
            None if !self.is_answered() => Progress::AwaitsReports,
            None if self.is_summed_up => Progress::Taken,
            _ => Progress::Ready {
                last_taken: self.last_taken,
            },
        }
    }

    fn push(&mut self, slot: Slot, note: Option<Note>, room: Taken) -> u32 {
        self.held.absorb(room);
        let index = self.slots.push(slot);
        self.notes.extend(note.map(|note| (index, note)));
        index
    }

    /// Takes the outcome of an append.
    pub(super) fn complete(
        &mut self,
        index: u32,
        kind: EventKind,
        outcome: Result<i64, DeliveryFailure>,
    ) {
        self.pending -= 1;
        match outcome {
            Ok(_) => self.tally.accepted += 1,
            Err(_) => self.tally.rejected += 1,
        }
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if let Slot::Pending { line, partition } = *slot {
            *slot = match outcome {
                Ok(offset) => Slot::Accepted {
                    line,
                    partition,
                    offset,
                },
                Err(failure) => Slot::Failed {
                    line,
                    kind,
                    failure: failure.into(),
                },
            };
        }
    }

    /// Takes what is ready, from the front up to the first line without a result.
    pub(super) fn take(&mut self) -> Vec<LineResult> {
        let mut taken = Vec::new();
        let mut freed_bytes = 0;
        while taken.len() < TAKE
            && let Some(slot) = self.slots.first()
            && !slot.is_pending()
        {
            let note = self.note_of_first();
            freed_bytes += held_bytes(note.as_ref());
            taken.push(result_of(slot, note));
            self.slots.pop();
        }
        self.held.give_back(freed_bytes);
        if self.slots.first().is_none()
            && self.is_answered()
            && let Some(end) = self.end.as_mut()
        {
            taken.extend(end.last_words.take().map(LineResult::Written));
            taken.push(LineResult::Summary(self.tally));
            self.is_summed_up = true;
        }
        if !taken.is_empty() {
            self.last_taken = Instant::now();
        }
        taken
    }

    fn note_of_first(&mut self) -> Option<Note> {
        let first = self.slots.first_index();
        match self.notes.front() {
            Some((index, _)) if *index == first => self.notes.pop_front().map(|(_, note)| note),
            _ => None,
        }
    }

    /// Lets go of everything that was not taken, and of its room.
    pub(super) fn drop_all(&mut self) {
        self.slots.clear();
        self.notes = VecDeque::new();
        let everything = self.held.bytes();
        self.held.give_back(everything);
    }
}

fn result_of(slot: Slot, note: Option<Note>) -> LineResult {
    let made_up = match note {
        Some(Note::Refusal(written)) => return LineResult::Written(written),
        Some(Note::MadeUp(id)) => Some(id),
        None => None,
    };
    match slot {
        Slot::Accepted {
            line,
            partition,
            offset,
        } => LineResult::Accepted {
            line,
            at: InboundPosition { partition, offset },
            made_up,
        },
        Slot::Failed {
            line,
            kind,
            failure,
        } => LineResult::Failed {
            line,
            kind,
            failure,
            made_up,
        },
        Slot::Pending { .. } | Slot::Refused { .. } => {
            unreachable!("only results are taken, and every refusal has its note")
        }
    }
}

impl From<DeliveryFailure> for Failure {
    fn from(failure: DeliveryFailure) -> Self {
        match failure {
            DeliveryFailure::Refused(_) => Self::NotAppended,
            DeliveryFailure::Unknown(_) => Self::Unknown,
        }
    }
}

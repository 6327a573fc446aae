//! What became of the lines of one batch: filled by its reader and by delivery reports, emptied by the answer.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use event_log::DeliveryFailure;
use problem::ProblemKind;
use schemas::{InboundPosition, Partition};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::slots::{Failure, Slot, SlotQueue};
use crate::{
    metrics::IngestMetrics,
    posted::EventKind,
    room::{Room, Taken},
};

/// How many results are taken at a time.
const TAKE: usize = 512;

/// The results of one batch. One structure for all its lines: a line costs 16 bytes here and no channel of its own.
pub(crate) struct Results {
    state: Mutex<State>,
    /// There is something to take that was not there before.
    ready: Notify,
    /// The answer has come to its end, or the client has gone.
    gone: CancellationToken,
    pub(super) metrics: Arc<IngestMetrics>,
}

struct State {
    slots: SlotQueue,
    /// What does not fit into a slot, with its slot's index, in their order.
    notes: VecDeque<(u32, Note)>,
    /// Room for what is in here.
    held: Taken,
    /// Lines without a delivery report, those dropped from `slots` too.
    pending: u32,
    tally: Tally,
    end: Option<End>,
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

impl Results {
    /// Results that take their room from `room`.
    pub(crate) fn new(room: &Arc<Room>, metrics: Arc<IngestMetrics>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                slots: SlotQueue::default(),
                notes: VecDeque::new(),
                held: Taken::nothing(room),
                pending: 0,
                tally: Tally::default(),
                end: None,
                last_taken: Instant::now(),
            }),
            ready: Notify::new(),
            gone: CancellationToken::new(),
            metrics,
        })
    }

    /// Adds a line that is about to be appended; `room` is what [`held_bytes`] says.
    pub(crate) fn expect(
        self: &Arc<Self>,
        line: u32,
        partition: Partition,
        made_up: Option<Uuid>,
        room: Taken,
    ) -> u32 {
        let mut state = self.lock();
        state.pending += 1;
        state.push(
            Slot::Pending { line, partition },
            made_up.map(Note::MadeUp),
            room,
        )
    }

    /// Adds a line that was refused; `room` is what [`held_bytes`] says.
    pub(crate) fn refuse(&self, line: u32, refusal: Note, room: Taken) {
        let mut state = self.lock();
        state.tally.rejected += 1;
        let index = state.push(Slot::Refused { line }, Some(refusal), room);
        let is_first = state.slots.first_index() == index;
        drop(state);
        if is_first {
            self.ready.notify_one();
        }
    }

    /// Says that no more lines will come. `last_words` is the result of the line at which the reading stopped, if it did. Only the first
    /// call counts.
    pub(crate) fn finish(&self, last_words: Option<Box<[u8]>>) {
        let mut state = self.lock();
        if state.end.is_some() {
            return;
        }
        state.tally.rejected += u64::from(last_words.is_some());
        state.end = Some(End { last_words });
        drop(state);
        self.ready.notify_one();
    }

    /// Whether no more lines will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Drops all results that the client did not take; `last_words`, given the line of the first of them, are said instead.
    pub(crate) fn give_up(&self, last_words: impl FnOnce(u32) -> Box<[u8]>) {
        let mut state = self.lock();
        let Some(first) = state.slots.first() else {
            return;
        };
        state.drop_all();
        state.end = Some(End {
            last_words: Some(last_words(first.line())),
        });
        drop(state);
        self.ready.notify_one();
    }

    /// Waits for results, in the order of their lines; the last is the summary.
    pub(crate) async fn take(&self) -> Vec<LineResult> {
        loop {
            let ready = self.ready.notified();
            let taken = self.lock().take();
            if !taken.is_empty() {
                return taken;
            }
            ready.await;
        }
    }

    /// When the client last took something, and whether there is something that it could take.
    pub(crate) fn progress(&self) -> (Instant, bool) {
        let state = self.lock();
        let is_ready = state.slots.first().is_some_and(|slot| !slot.is_pending());
        (state.last_taken, is_ready)
    }

    /// Cancelled when nobody will take results any more.
    pub(crate) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Says that nobody will take results any more.
    pub(crate) fn abandon(&self) {
        self.gone.cancel();
        self.lock().drop_all();
    }

    /// Takes the outcome of an append that [`Self::expect`] announced.
    pub(super) fn complete(
        &self,
        index: u32,
        kind: EventKind,
        outcome: Result<i64, DeliveryFailure>,
    ) {
        match &outcome {
            Ok(_) => self.metrics.accepted(kind),
            Err(failure) => self.count_failure(failure),
        }
        let mut state = self.lock();
        let is_first = state.slots.first_index() == index;
        state.complete(index, kind, outcome);
        let is_last = state.pending == 0 && state.end.is_some();
        drop(state);
        if is_first || is_last {
            self.ready.notify_one();
        }
    }

    fn count_failure(&self, failure: &DeliveryFailure) {
        match failure {
            DeliveryFailure::Refused(reason) => {
                tracing::warn!(%reason, "Kafka refused a record");
                self.metrics.rejected(ProblemKind::Unavailable);
            }
            DeliveryFailure::Unknown(reason) => {
                tracing::debug!(%reason, "an append has an unknown outcome");
                self.metrics.rejected(ProblemKind::UnknownOutcome);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, slot: Slot, note: Option<Note>, room: Taken) -> u32 {
        self.held.absorb(room);
        let index = self.slots.push(slot);
        self.notes.extend(note.map(|note| (index, note)));
        index
    }

    fn complete(&mut self, index: u32, kind: EventKind, outcome: Result<i64, DeliveryFailure>) {
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
    fn take(&mut self) -> Vec<LineResult> {
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
        if self.slots.first().is_none() && self.pending == 0 {
            if let Some(end) = self.end.as_mut() {
                taken.extend(end.last_words.take().map(LineResult::Written));
                taken.push(LineResult::Summary(self.tally));
            }
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

    fn drop_all(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u32 = 10_000;

    struct Batch {
        room: Arc<Room>,
        results: Arc<Results>,
    }

    impl Batch {
        fn new() -> Self {
            let room = Room::new(CAPACITY);
            let results = Results::new(&room, Arc::new(IngestMetrics::new()));
            Self { room, results }
        }

        fn expect(&self, line: u32, made_up: Option<Uuid>) -> u32 {
            let held = held_bytes(made_up.map(Note::MadeUp).as_ref());
            let room = self.room.try_take(held).unwrap();
            let partition = 17.try_into().unwrap();
            self.results.expect(line, partition, made_up, room)
        }

        fn refuse(&self, line: u32) {
            let refusal = Note::Refusal(b"no".as_slice().into());
            let room = self.room.try_take(held_bytes(Some(&refusal))).unwrap();
            self.results.refuse(line, refusal, room);
        }

        fn complete(&self, index: u32, outcome: Result<i64, DeliveryFailure>) {
            self.results.complete(index, EventKind::Message, outcome);
        }

        fn take(&self) -> Vec<String> {
            self.results.lock().take().iter().map(shown).collect()
        }
    }

    fn shown(result: &LineResult) -> String {
        match result {
            LineResult::Accepted { line, at, made_up } => {
                format!("{line} at {at}{}", made_up.map_or("", |_| " made up"))
            }
            LineResult::Failed { line, failure, .. } => format!("{line} {failure:?}"),
            LineResult::Written(words) => String::from_utf8(words.to_vec()).unwrap(),
            LineResult::Summary(tally) => format!("{}+{}", tally.accepted, tally.rejected),
        }
    }

    #[test]
    fn results_come_in_the_order_of_lines_whatever_the_order_of_reports() {
        let batch = Batch::new();
        let first = batch.expect(1, None);
        batch.refuse(2);
        let third = batch.expect(4, Some(Uuid::now_v7()));
        batch.complete(third, Ok(9));
        assert!(batch.take().is_empty());
        batch.complete(first, Err(DeliveryFailure::Unknown(String::new())));
        assert_eq!(batch.take(), ["1 Unknown", "no", "4 at 17:9 made up"]);
        batch.results.finish(None);
        assert_eq!(batch.take(), ["1+2"]);
        assert_eq!(batch.room.taken_bytes(), 0);
    }

    #[test]
    fn the_summary_waits_for_the_last_report() {
        let batch = Batch::new();
        let index = batch.expect(1, None);
        batch.results.finish(Some(b"stopped".as_slice().into()));
        batch.results.finish(Some(b"again".as_slice().into()));
        assert!(batch.take().is_empty());
        batch.complete(index, Ok(0));
        assert_eq!(batch.take(), ["1 at 17:0", "stopped", "1+1"]);
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_still_counted() {
        let batch = Batch::new();
        let read = batch.expect(1, None);
        let pending = batch.expect(2, None);
        batch.complete(read, Ok(0));
        batch.results.finish(None);
        let dropped_from = |line: u32| Box::from(format!("dropped from {line}").as_bytes());
        batch.results.give_up(dropped_from);
        assert_eq!(batch.room.taken_bytes(), 0);
        assert!(batch.take().is_empty(), "a report is outstanding");
        batch.complete(pending, Ok(1));
        assert_eq!(batch.take(), ["dropped from 1", "2+0"]);
    }

    #[tokio::test]
    async fn a_report_wakes_the_answer() {
        let batch = Batch::new();
        let index = batch.expect(1, None);
        let taking = tokio::spawn({
            let results = Arc::clone(&batch.results);
            async move { results.take().await.len() }
        });
        tokio::task::yield_now().await;
        batch.complete(index, Ok(0));
        assert_eq!(taking.await.unwrap(), 1);
    }
}

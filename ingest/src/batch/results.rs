//! What became of the lines of one batch: filled by its reader and by delivery reports, emptied by the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event_log::DeliveryFailure;
use problem::ProblemKind;
use schemas::Partition;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::state::{LineResult, Note, Progress, State};
use crate::{
    metrics::IngestMetrics,
    posted::EventKind,
    room::{Room, Taken},
};

/// The results of one batch. One structure for all its lines: a line costs 16 bytes here and no channel of its own.
pub(crate) struct Results {
    state: Mutex<State>,
    /// There is something to take that was not there before.
    ready: Notify,
    /// The answer has come to its end, or the client has gone.
    gone: CancellationToken,
    pub(super) metrics: Arc<IngestMetrics>,
}

impl Results {
    /// Results that take their room from `room`.
    pub(crate) fn new(room: &Arc<Room>, metrics: Arc<IngestMetrics>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(room)),
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
        self.lock().expect(line, partition, made_up, room)
    }

    /// Adds a line that was refused; `room` is what [`held_bytes`] says.
    pub(crate) fn refuse(&self, line: u32, refusal: Note, room: Taken) {
        let mut state = self.lock();
        let index = state.refuse(line, refusal, room);
        let is_first = state.first_index() == index;
        drop(state);
        if is_first {
            self.ready.notify_one();
        }
    }

    /// Says that no more lines will come. `last_words` is the result of the line at which the reading stopped, if it did. Only the first
    /// call counts.
    pub(crate) fn finish(&self, last_words: Option<Box<[u8]>>) {
        self.lock().finish(last_words);
        self.ready.notify_one();
    }

    /// Whether no more lines will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.lock().is_finished()
    }

    /// Drops all results that the client did not take; `last_words`, given the line of the first of them, are said instead.
    pub(crate) fn give_up(&self, last_words: impl FnOnce(u32) -> Box<[u8]>) {
        self.lock().give_up(last_words);
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

    /// How far the client is.
    pub(crate) fn progress(&self) -> Progress {
        self.lock().progress()
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
        let is_first = state.first_index() == index;
        state.complete(index, kind, outcome);
        let is_last = state.is_answered();
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

#[cfg(test)]
mod tests {
    use super::{super::state::held_bytes, *};

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
        assert_eq!(batch.results.progress(), Progress::AwaitsReports);
        batch.complete(index, Ok(0));
        assert!(matches!(batch.results.progress(), Progress::Ready { .. }));
        assert_eq!(batch.take(), ["1 at 17:0", "stopped", "1+1"]);
        assert_eq!(batch.results.progress(), Progress::Taken);
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
        assert!(matches!(batch.results.progress(), Progress::Ready { .. }));
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

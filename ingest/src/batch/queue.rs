//! The results of one batch, as an ordered queue: the reader of the body adds an entry for every line, delivery reports complete them in
//! any order, and the response takes completed ones from the front.

use std::{collections::VecDeque, sync::Arc};

use event_log::DeliveryFailure;
use parking_lot::Mutex;
use posting::{AccountBudget, BytePermit, MadeId, PostMetrics};
use problem::ProblemKind;
use schemas::{Partition, kind::Retry};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::entries::{Entries, Entry};

/// How many results are taken at a time.
const TAKE: usize = 512;

/// One structure for all lines of a batch: a line takes 16 bytes here, and no channel of its own.
pub(crate) struct ResultQueue {
    state: Mutex<State>,
    /// There is something new to take.
    ready: Notify,
    client_gone: CancellationToken,
    pub(super) metrics: Arc<PostMetrics>,
}

struct State {
    entries: Entries,
    /// What does not fit into 16 bytes, with the index of its entry, in order.
    details: VecDeque<(u32, Detail)>,
    /// The bytes of all entries and details.
    held: BytePermit,
    /// Lines without a delivery report, including those whose entries were dropped.
    pending: u32,
    summary: Summary,
    /// Whether the reader is done.
    is_finished: bool,
    /// A result before the summary that belongs to no entry: why the batch ended early.
    final_result: Option<Box<[u8]>>,
    /// Nothing follows the summary.
    is_summary_taken: bool,
    last_taken: Instant,
    /// When the first result became ready, unless it was ready before it became the first.
    first_ready: Instant,
}

/// What a result needs besides its entry.
pub(crate) enum Detail {
    /// The id that the sender did not give.
    Made(MadeId),
    /// The encoded result of a line that was refused.
    Refusal(Box<[u8]>),
}

/// How many lines were answered with 202, and how many otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
}

/// One result to send.
pub(crate) enum LineResult {
    Appended(Entry, Option<MadeId>),
    Encoded(Box<[u8]>),
    Summary(Summary),
}

/// What the client can take at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing until more delivery reports come.
    AwaitsReports,
    /// The oldest result. The client last took something at `last_taken`.
    Ready { last_taken: Instant },
    /// Everything was taken.
    Done,
}

/// The bytes that a result takes here until the client has taken it.
pub(crate) fn held_bytes(detail: Option<&Detail>) -> u32 {
    const DETAIL_BYTES: usize = 2 * size_of::<(u32, Detail)>();
    let bytes = match detail {
        None => 0,
        Some(Detail::Made(_)) => DETAIL_BYTES,
        Some(Detail::Refusal(encoded)) => DETAIL_BYTES + encoded.len(),
    };
    (size_of::<Entry>() + bytes) as u32
}

impl ResultQueue {
    /// The entries take their permits from `budget`.
    pub(crate) fn new(budget: &AccountBudget, metrics: Arc<PostMetrics>) -> Arc<Self> {
        let state = State {
            entries: Entries::default(),
            details: VecDeque::new(),
            held: budget.try_acquire(0).expect("zero bytes are always free"),
            pending: 0,
            summary: Summary::default(),
            is_finished: false,
            final_result: None,
            is_summary_taken: false,
            last_taken: Instant::now(),
            first_ready: Instant::now(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            ready: Notify::new(),
            client_gone: CancellationToken::new(),
            metrics,
        })
    }

    /// Adds a line that is about to be appended; `permit` is for [`held_bytes`]. Returns its index.
    pub(crate) fn add_pending(
        &self,
        line: u32,
        partition: Partition,
        made: Option<MadeId>,
        permit: BytePermit,
    ) -> u32 {
        let mut state = self.state.lock();
        state.pending += 1;
        let detail = made.map(Detail::Made);
        state.push(Entry::Pending { line, partition }, detail, permit)
    }

    /// Adds a line that was refused; `permit` is for [`held_bytes`].
    pub(crate) fn add_refused(&self, line: u32, refusal: Detail, permit: BytePermit) {
        let mut state = self.state.lock();
        state.summary.rejected += 1;
        let index = state.push(Entry::Refused { line }, Some(refusal), permit);
        let is_first = state.entries.first_index() == index;
        drop(state);
        if is_first {
            self.ready.notify_one();
        }
    }

    /// Says that no more lines will come; `final_result` is the result of the line at which the reader stopped, if it stopped early. Only
    /// the first call counts.
    pub(crate) fn finish(&self, final_result: Option<Box<[u8]>>) {
        let mut state = self.state.lock();
        if !state.is_finished {
            state.is_finished = true;
            state.summary.rejected += u64::from(final_result.is_some());
            state.final_result = final_result;
        }
        drop(state);
        self.ready.notify_one();
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state.lock().is_finished
    }

    /// Drops all results that the client did not take. `final_result`, given the first line of them, is sent instead.
    pub(crate) fn replace_untaken(&self, final_result: impl FnOnce(u32) -> Box<[u8]>) {
        let mut state = self.state.lock();
        if let Some(first) = state.entries.first() {
            state.drop_entries();
            state.is_finished = true;
            state.final_result = Some(final_result(first.line()));
        }
        drop(state);
        self.ready.notify_one();
    }

    /// Waits for results, in the order of their lines; the last is the summary.
    pub(crate) async fn take(&self) -> Vec<LineResult> {
        loop {
            let ready = self.ready.notified();
            let taken = self.state.lock().take();
            if !taken.is_empty() {
                return taken;
            }
            ready.await;
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.state.lock().progress()
    }

    /// Since when the client could have taken a result and did not, if there is one.
    pub(crate) fn untaken_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        match state.progress() {
            Progress::Ready { last_taken } => Some(last_taken.max(state.first_ready)),
            Progress::AwaitsReports | Progress::Done => None,
        }
    }

    /// Cancelled when nobody will take results any more.
    pub(crate) fn client_gone(&self) -> &CancellationToken {
        &self.client_gone
    }

    /// The client has gone, or has everything.
    pub(crate) fn close(&self) {
        self.client_gone.cancel();
        self.state.lock().drop_entries();
    }

    /// Completes an entry of [`Self::add_pending`] with the outcome of its append.
    pub(super) fn complete(&self, index: u32, retry: Retry, outcome: Result<i64, DeliveryFailure>) {
        if let Err(failure) = &outcome {
            self.count_failure(failure);
        }
        let mut state = self.state.lock();
        let is_first = state.entries.first_index() == index;
        state.complete(index, retry, &outcome);
        if is_first {
            state.first_ready = Instant::now();
        }
        let is_last = state.is_complete();
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
}

impl State {
    /// Whether every line has its result.
    fn is_complete(&self) -> bool {
        self.is_finished && self.pending == 0
    }

    fn progress(&self) -> Progress {
        match self.entries.first() {
            Some(Entry::Pending { .. }) => Progress::AwaitsReports,
            None if !self.is_complete() => Progress::AwaitsReports,
            None if self.is_summary_taken => Progress::Done,
            _ => Progress::Ready {
                last_taken: self.last_taken,
            },
        }
    }

    fn push(&mut self, entry: Entry, detail: Option<Detail>, permit: BytePermit) -> u32 {
        self.held.merge(permit);
        let is_first = self.entries.first().is_none();
        let index = self.entries.push(entry);
        if is_first {
            self.first_ready = Instant::now();
        }
        self.details.extend(detail.map(|detail| (index, detail)));
        index
    }

    fn complete(&mut self, index: u32, retry: Retry, outcome: &Result<i64, DeliveryFailure>) {
        self.pending -= 1;
        match outcome {
            Ok(_) => self.summary.accepted += 1,
            Err(_) => self.summary.rejected += 1,
        }
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        if let Entry::Pending { line, partition } = *entry {
            *entry = match outcome {
                Ok(offset) => Entry::Accepted {
                    line,
                    partition,
                    offset: *offset,
                },
                Err(DeliveryFailure::Refused(_)) => Entry::NotAppended { line },
                Err(DeliveryFailure::Unknown(_)) => Entry::Unknown { line, retry },
            };
        }
    }

    /// Takes results from the front, up to the first line that is pending.
    fn take(&mut self) -> Vec<LineResult> {
        let mut taken = Vec::new();
        let mut freed_bytes = 0;
        while taken.len() < TAKE
            && let Some(entry) = self.entries.first()
            && !matches!(entry, Entry::Pending { .. })
        {
            let detail = self.take_detail_of_first();
            freed_bytes += held_bytes(detail.as_ref()) as usize;
            taken.push(match detail {
                Some(Detail::Refusal(encoded)) => LineResult::Encoded(encoded),
                Some(Detail::Made(made)) => LineResult::Appended(entry, Some(made)),
                None => LineResult::Appended(entry, None),
            });
            self.entries.pop();
        }
        self.held.release(freed_bytes);
        if self.entries.first().is_none() && self.is_complete() && !self.is_summary_taken {
            taken.extend(self.final_result.take().map(LineResult::Encoded));
            taken.push(LineResult::Summary(self.summary));
            self.is_summary_taken = true;
        }
        if !taken.is_empty() {
            self.last_taken = Instant::now();
        }
        taken
    }

    fn take_detail_of_first(&mut self) -> Option<Detail> {
        let first = self.entries.first_index();
        let detail = self.details.pop_front_if(|(index, _)| *index == first)?;
        Some(detail.1)
    }

    fn drop_entries(&mut self) {
        self.entries.clear();
        self.details = VecDeque::new();
        self.held.release(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use access::Caller;
    use posting::ByteBudget;
    use uuid::Uuid;

    use super::*;

    const CAPACITY: u32 = 10_000;

    struct Batch {
        all: ByteBudget,
        budget: AccountBudget,
        queue: Arc<ResultQueue>,
    }

    impl Batch {
        fn new() -> Self {
            let all = ByteBudget::new(CAPACITY, CAPACITY);
            let budget = all.of(&Caller::Anyone);
            let queue = ResultQueue::new(&budget, Arc::new(PostMetrics::register("ingest")));
            Self { all, budget, queue }
        }

        fn add_pending(&self, line: u32, made: Option<MadeId>) -> u32 {
            let held = held_bytes(made.map(Detail::Made).as_ref());
            let permit = self.budget.try_acquire(held).unwrap();
            let partition = 17.try_into().unwrap();
            self.queue.add_pending(line, partition, made, permit)
        }

        fn add_refused(&self, line: u32) {
            let refusal = Detail::Refusal(b"no".as_slice().into());
            let permit = self.budget.try_acquire(held_bytes(Some(&refusal))).unwrap();
            self.queue.add_refused(line, refusal, permit);
        }

        fn complete(&self, index: u32, outcome: Result<i64, DeliveryFailure>) {
            self.queue.complete(index, Retry::ClientMsgId, outcome);
        }

        fn take(&self) -> Vec<String> {
            self.queue.state.lock().take().iter().map(shown).collect()
        }
    }

    fn shown(result: &LineResult) -> String {
        match result {
            LineResult::Appended(
                Entry::Accepted {
                    line,
                    partition,
                    offset,
                },
                id,
            ) => {
                format!(
                    "{line} at {partition}:{offset}{}",
                    id.map_or("", |_| " with id")
                )
            }
            LineResult::Appended(Entry::Unknown { line, .. }, _) => format!("{line} unknown"),
            LineResult::Appended(other, _) => format!("{other:?}"),
            LineResult::Encoded(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            LineResult::Summary(summary) => format!("{}+{}", summary.accepted, summary.rejected),
        }
    }

    #[test]
    fn results_come_in_the_order_of_lines_whatever_the_order_of_reports() {
        let batch = Batch::new();
        let first = batch.add_pending(1, None);
        batch.add_refused(2);
        let third = batch.add_pending(4, Some(MadeId::ClientMsgId(Uuid::now_v7())));
        batch.complete(third, Ok(9));
        assert!(batch.take().is_empty());
        batch.complete(first, Err(DeliveryFailure::Unknown(String::new())));
        assert_eq!(batch.take(), ["1 unknown", "no", "4 at 17:9 with id"]);
        batch.queue.finish(None);
        assert_eq!(batch.take(), ["1+2"]);
        assert_eq!(batch.all.used_bytes(), 0);
    }

    #[test]
    fn the_summary_waits_for_the_last_report() {
        let batch = Batch::new();
        let index = batch.add_pending(1, None);
        batch.queue.finish(Some(b"stopped".as_slice().into()));
        batch.queue.finish(Some(b"again".as_slice().into()));
        assert!(batch.take().is_empty());
        assert_eq!(batch.queue.progress(), Progress::AwaitsReports);
        batch.complete(index, Ok(0));
        assert!(matches!(batch.queue.progress(), Progress::Ready { .. }));
        assert_eq!(batch.take(), ["1 at 17:0", "stopped", "1+1"]);
        assert_eq!(batch.queue.progress(), Progress::Done);
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_still_counted() {
        let batch = Batch::new();
        let read = batch.add_pending(1, None);
        let pending = batch.add_pending(2, None);
        batch.complete(read, Ok(0));
        batch.queue.finish(None);
        let dropped_from = |line: u32| Box::from(format!("dropped from {line}").as_bytes());
        batch.queue.replace_untaken(dropped_from);
        assert_eq!(batch.all.used_bytes(), 0);
        assert!(batch.take().is_empty(), "a report is outstanding");
        batch.complete(pending, Ok(1));
        assert!(matches!(batch.queue.progress(), Progress::Ready { .. }));
        assert_eq!(batch.take(), ["dropped from 1", "2+0"]);
    }

    #[tokio::test]
    async fn a_report_wakes_the_response() {
        let batch = Batch::new();
        let index = batch.add_pending(1, None);
        let taking = tokio::spawn({
            let queue = Arc::clone(&batch.queue);
            async move { queue.take().await.len() }
        });
        tokio::task::yield_now().await;
        batch.complete(index, Ok(0));
        assert_eq!(taking.await.unwrap(), 1);
    }
}

//! Reads the body of a batch: parses its lines, appends them, and bounds how long anything may take.

use std::{sync::Arc, time::Duration};

use access::Caller;
use axum::body::Bytes;
use event_log::{DeliveryFailure, OnDelivery as _, QueueFull};
use posting::{
    AccountBudget, BytePermit, Full, InboundRecord, NotAdmitted, PoolPermit, Post, over_capacity,
    stopping,
};
use problem::{Problem, ProblemKind};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    delivery::LineDelivery,
    frame::Frame,
    framer::Framer,
    queue::{Detail, Progress, ResultQueue, held_bytes},
};
use crate::{body::RequestBody, media::BatchEncoding, state::Ingest};

pub(super) struct BatchReader {
    pub(super) ingest: Arc<Ingest>,
    pub(super) caller: Caller,
    pub(super) encoding: BatchEncoding,
    pub(super) queue: Arc<ResultQueue>,
    /// The bytes of the lines and results.
    pub(super) budget: AccountBudget,
    /// The batch's place among those that are read at a time.
    pub(super) place: PoolPermit,
}

/// For how long a client may leave results if another batch waits for the bytes that they hold.
const UNREAD: Duration = Duration::from_secs(1);

/// Why the reader stopped before the end of the body.
enum Stop {
    ClientGone,
    /// The batch's results hold bytes for which another batch waits, and the client does not take them.
    Unread {
        line: Option<u32>,
    },
    /// The line is answered with the problem, and no line after it is read. `None` stands for the line that was not complete yet.
    Problem {
        line: Option<u32>,
        problem: Problem,
        /// Whether nothing was taken for the time of a stall.
        is_stall: bool,
    },
}

impl Stop {
    fn at(line: Option<u32>, problem: Problem) -> Self {
        Self::Problem {
            line,
            problem,
            is_stall: false,
        }
    }
}

impl BatchReader {
    /// Reads the whole body, then waits until the client has taken the results.
    pub(super) async fn run(self, mut body: RequestBody) {
        let mut framer = self
            .encoding
            .framer(self.ingest.poster.config().max_line_bytes);
        let started = Instant::now();
        let read = self.read(&mut framer, &mut body).await;
        let unfinished = framer.unfinished();
        // A batch that only waits, and may have lost its place, keeps nothing of a line that did not end.
        drop(framer);
        match read {
            Ok(()) => {
                self.queue.finish(None);
                self.await_client(Instant::now()).await;
            }
            Err(Stop::ClientGone) => {}
            Err(Stop::Unread { line }) => {
                self.drop_results(UNREAD);
                // This result is sent only if the client took all other results in that moment.
                let problem = over_capacity(Full::TakenAway);
                let refusal = self.encoding.refusal(line.unwrap_or(unfinished), &problem);
                self.queue.finish(Some(refusal));
                body.drain().await;
            }
            Err(Stop::Problem {
                line,
                problem,
                is_stall,
            }) => {
                self.ingest.poster.metrics().rejected(problem.kind);
                let line = line.unwrap_or(unfinished);
                self.queue
                    .finish(Some(self.encoding.refusal(line, &problem)));
                // A client that took nothing during a stall does not get the time of another stall.
                let since = if is_stall { started } else { Instant::now() };
                // A client that writes everything before it reads must get that far.
                tokio::join!(body.drain(), self.await_client(since));
            }
        }
    }

    async fn read(&self, framer: &mut Framer, body: &mut RequestBody) -> Result<(), Stop> {
        let limit = self.ingest.poster.config().max_batch_bytes;
        let mut left = limit as usize;
        let mut last_line = Instant::now();
        while let Some(chunk) = self.next_chunk(body, last_line).await? {
            let within = &chunk[..left.min(chunk.len())];
            if self.post_chunk(framer, within).await? {
                last_line = Instant::now();
                self.place.progressed();
            }
            left -= within.len();
            if within.len() < chunk.len() {
                return Err(Stop::at(None, Problem::payload_too_large(limit.into())));
            }
        }
        match framer.finish() {
            Some(frame) => self.post(frame).await,
            None => Ok(()),
        }
    }

    /// Waits for at most a stall after the last complete line: bytes that trickle in do not extend the time, nor do blank lines.
    async fn next_chunk(
        &self,
        body: &mut RequestBody,
        last_line: Instant,
    ) -> Result<Option<Bytes>, Stop> {
        let stall = self.ingest.poster.config().stall();
        let chunk = tokio::select! {
            biased;
            stop = self.stopped(None) => return Err(stop),
            chunk = timeout_at(last_line + stall, body.next()) => chunk,
        };
        match chunk {
            Ok(None) => Ok(None),
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
            Ok(Some(Err(incomplete))) => Err(Stop::at(None, incomplete)),
            Err(_elapsed) => {
                let stall_s = stall.as_secs_f64();
                let detail = format!("no complete line arrived for {stall_s} s");
                Err(Stop::at(None, Problem::request_timeout(detail)))
            }
        }
    }

    /// Completes when something other than the body ends the batch.
    async fn stopped(&self, line: Option<u32>) -> Stop {
        tokio::select! {
            biased;
            () = self.queue.client_gone().cancelled() => Stop::ClientGone,
            () = self.ingest.shutdown.soft().cancelled() => Stop::at(line, stopping()),
            () = self.place.taken_away() => Stop::at(line, over_capacity(Full::TakenAway)),
            () = self.unread() => Stop::Unread { line },
        }
    }

    /// Completes when another batch waits for bytes, and this batch has results that its client did not take for a while.
    async fn unread(&self) {
        loop {
            self.budget.contended().await;
            let untaken_since = self.queue.untaken_since();
            let due = untaken_since.unwrap_or_else(Instant::now) + UNREAD;
            if Instant::now() >= due {
                return;
            }
            sleep_until(due).await;
        }
    }

    /// Returns whether a line ended in the chunk; blank ones do not count.
    async fn post_chunk(&self, framer: &mut Framer, mut chunk: &[u8]) -> Result<bool, Stop> {
        let mut any = false;
        while let Some(frame) = framer.next(&mut chunk) {
            self.post(frame).await?;
            any = true;
        }
        Ok(any)
    }

    /// Appends one line or refuses it. A line above its caller's rate ends the batch: the client posts the rest later, in the same order.
    async fn post(&self, frame: Frame<'_>) -> Result<(), Stop> {
        let bytes = frame.content.map_or(0, <[u8]>::len);
        let charged = self.ingest.poster.charge_event(&self.caller);
        let charged = charged.and_then(|()| self.ingest.poster.charge_size(&self.caller, bytes));
        charged.map_err(|problem| Stop::at(Some(frame.number), problem))?;
        let config = self.ingest.poster.config();
        let (max_line_bytes, max_msg_bytes) = (config.max_line_bytes, config.max_msg_bytes);
        let parsed = self
            .encoding
            .parse(frame.content, max_line_bytes, max_msg_bytes);
        let mut post = match parsed {
            Ok(post) => post,
            Err(problem) => return self.refuse(frame.number, &problem).await,
        };
        let admitted = tokio::select! {
            biased;
            admitted = self.ingest.poster.admit(&self.caller, &mut post) => admitted,
            stop = self.stopped(Some(frame.number)) => return Err(stop),
        };
        match admitted {
            Ok(()) => self.append(frame.number, post).await,
            Err(NotAdmitted::AboveRate(problem)) => Err(Stop::at(Some(frame.number), problem)),
            Err(NotAdmitted::Refused(problem)) => {
                let problem = problem.within(post.line_field());
                self.refuse(frame.number, &problem).await
            }
        }
    }

    async fn append(&self, line: u32, post: Post) -> Result<(), Stop> {
        let made = post.made();
        let record = InboundRecord::from(post);
        let held = held_bytes(made.map(Detail::Made).as_ref());
        let mut permit = self.acquire(line, record.cost_bytes() + held).await?;
        let held = permit.split(held as usize);
        let held = held.expect("the permit is for both");
        let index = self.queue.add_pending(line, record.partition, made, held);
        let delivery = LineDelivery::new(&self.queue, index, &record, permit);
        let record = record.append(&self.ingest.topic);
        if let Err(QueueFull(delivery)) = self.ingest.lines.append(record, delivery) {
            let full = "the producer's queue is full".to_owned();
            delivery.delivered(Err(DeliveryFailure::Refused(full)));
        }
        Ok(())
    }

    async fn refuse(&self, line: u32, problem: &Problem) -> Result<(), Stop> {
        self.ingest.poster.metrics().rejected(problem.kind);
        let refusal = Detail::Refusal(self.encoding.refusal(line, problem));
        let permit = self.acquire(line, held_bytes(Some(&refusal))).await?;
        self.queue.add_refused(line, refusal, permit);
        Ok(())
    }

    /// Acquires bytes for a line; waits for them no longer than a stall.
    async fn acquire(&self, line: u32, bytes: u32) -> Result<BytePermit, Stop> {
        if let Some(permit) = self.budget.try_acquire(bytes) {
            return Ok(permit);
        }
        tokio::select! {
            permit = self.budget.acquire(bytes, Instant::now() + self.ingest.poster.config().stall()) => {
                permit.map_err(|full| Stop::Problem {
                    line: Some(line),
                    problem: over_capacity(full),
                    is_stall: true,
                })
            }
            stop = self.stopped(Some(line)) => Err(stop),
        }
    }

    /// Waits until the client has taken everything. Results that it does not take for a stall, counted from `since` at the earliest, are
    /// dropped. Bytes in the buffers of a closed connection count as taken.
    async fn await_client(&self, since: Instant) {
        let stall = self.ingest.poster.config().stall();
        let mut since = since;
        loop {
            tokio::select! {
                () = self.queue.client_gone().cancelled() => return,
                () = self.unread() => return self.drop_results(UNREAD),
                () = sleep_until(since + stall) => {}
            }
            match self.queue.progress() {
                Progress::Done => return,
                Progress::Ready { last_taken } if last_taken <= since => {
                    return self.drop_results(stall);
                }
                Progress::Ready { last_taken } => since = last_taken,
                // Every report comes within the producer's timeout.
                Progress::AwaitsReports => since = Instant::now(),
            }
        }
    }

    fn drop_results(&self, unread: Duration) {
        let unread_s = unread.as_secs_f64();
        tracing::info!("a client does not read its results: they were dropped");
        self.queue.replace_untaken(|line| {
            let words = format!(
                "this result and those after it were dropped: they were not read for {unread_s} s"
            );
            let problem = Problem::new(ProblemKind::RequestTimeout, words);
            self.encoding.refusal(line, &problem)
        });
    }
}

impl Drop for BatchReader {
    /// After a panic the client must not wait for ever.
    fn drop(&mut self) {
        if !self.queue.is_finished() {
            let final_result = self.encoding.refusal(0, &Problem::internal());
            self.queue.finish(Some(final_result));
        }
    }
}

//! Reads the body of a batch: cuts, checks, appends, and sees to it that nothing hangs.

use std::sync::Arc;

use access::{Caller, Share};
use axum::body::{BodyDataStream, Bytes};
use event_log::{DeliveryFailure, OnDelivery as _, QueueFull};
use futures::StreamExt as _;
use problem::{Problem, ProblemKind};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{
    delivery::LineDelivery,
    framer::{Frame, Framer, Unframed},
    results::Results,
    state::{Note, Progress, held_bytes},
};
use crate::{
    accepted::{no_room, stopping},
    body,
    inbound::InboundRecord,
    media::BatchEncoding,
    posted::{Place, Posted},
    room::Taken,
    service::Ingest,
};

/// The reader of one batch.
pub(super) struct Intake {
    ingest: Arc<Ingest>,
    caller: Caller,
    encoding: BatchEncoding,
    results: Arc<Results>,
    /// Of the places for batches.
    _place: Share,
}

/// Why the reading ended before the body did.
enum Stop {
    /// Nobody is there for the results.
    ClientGone,
    /// A line is answered with this, and none behind it.
    Refused(Problem, Line),
    /// The same, after a time in which nothing moved.
    Stalled(Problem, Line),
}

/// Which line the reading ended at.
enum Line {
    /// The one that was not whole yet.
    Unfinished,
    /// One that was.
    Whole(u32),
}

impl Intake {
    pub(super) fn new(
        ingest: Arc<Ingest>,
        caller: Caller,
        encoding: BatchEncoding,
        results: Arc<Results>,
        place: Share,
    ) -> Self {
        Self {
            ingest,
            caller,
            encoding,
            results,
            _place: place,
        }
    }

    pub(super) fn encoding(&self) -> BatchEncoding {
        self.encoding
    }

    pub(super) fn results(&self) -> Arc<Results> {
        Arc::clone(&self.results)
    }

    /// Reads the whole body, then stays until the client has taken the results.
    pub(super) async fn run(self, mut body: BodyDataStream) {
        let mut framer = self.encoding.framer(self.ingest.config.max_line_bytes);
        let started = Instant::now();
        let (problem, line, since) = match self.read(&mut framer, &mut body).await {
            Ok(()) => {
                self.results.finish(None);
                return self.stay(Instant::now()).await;
            }
            Err(Stop::ClientGone) => return,
            Err(Stop::Refused(problem, line)) => (problem, line, Instant::now()),
            // Whoever took nothing during the stall does not get another.
            Err(Stop::Stalled(problem, line)) => (problem, line, started),
        };
        let line = match line {
            Line::Unfinished => framer.unfinished(),
            Line::Whole(number) => number,
        };
        self.ingest.metrics.rejected(problem.kind);
        let last_words = self.encoding.refusal(line, &problem);
        self.results.finish(Some(last_words));
        // A client that writes everything before it reads must get that far.
        tokio::join!(body::drain(body), self.stay(since));
    }

    async fn read(&self, framer: &mut Framer, body: &mut BodyDataStream) -> Result<(), Stop> {
        let limit = self.ingest.config.max_batch_bytes;
        let mut left = limit as usize;
        let mut moved = Instant::now();
        while let Some(chunk) = self.next_chunk(body, moved).await? {
            let within = &chunk[..left.min(chunk.len())];
            if self.take_chunk(framer, within).await? {
                moved = Instant::now();
            }
            left -= within.len();
            if within.len() < chunk.len() {
                let problem = Problem::payload_too_large(limit.into());
                return Err(Stop::Refused(problem, Line::Unfinished));
            }
        }
        match framer.finish() {
            Some(frame) => self.take(frame).await,
            None => Ok(()),
        }
    }

    /// Waits for a stall behind the last whole line: bytes that trickle in do not gain time, and blank lines none.
    async fn next_chunk(
        &self,
        body: &mut BodyDataStream,
        moved: Instant,
    ) -> Result<Option<Bytes>, Stop> {
        let stall = self.ingest.config.stall();
        let refused = |problem| Stop::Refused(problem, Line::Unfinished);
        let chunk = tokio::select! {
            biased;
            () = self.results.gone().cancelled() => return Err(Stop::ClientGone),
            () = self.ingest.shutdown.soft().cancelled() => return Err(refused(stopping())),
            chunk = timeout_at(moved + stall, body.next()) => chunk,
        };
        match chunk {
            Ok(None) => Ok(None),
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
            Ok(Some(Err(_error))) => Err(refused(body::broken_off())),
            Err(_elapsed) => Err(refused(Problem::request_timeout(stall.as_secs()))),
        }
    }

    /// Whether a line ended in it that says something: blank ones cost their sender nothing.
    async fn take_chunk(&self, framer: &mut Framer, mut chunk: &[u8]) -> Result<bool, Stop> {
        let mut any = false;
        while let Some(frame) = framer.next(&mut chunk) {
            self.take(frame).await?;
            any = true;
        }
        Ok(any)
    }

    /// Appends one line, or notes why not. A line above its author's rate ends the batch: whoever posts the rest later keeps its order.
    async fn take(&self, frame: Frame<'_>) -> Result<(), Stop> {
        let charged = self.ingest.access.charge_event(&self.caller);
        charged.map_err(|problem| Stop::Refused(problem, Line::Whole(frame.number)))?;
        match self.checked(frame.content) {
            Ok(posted) => self.append(frame.number, posted).await,
            Err(problem) => self.refuse(frame.number, &problem).await,
        }
    }

    fn checked(&self, content: Result<&[u8], Unframed>) -> Result<Posted, Problem> {
        let config = &self.ingest.config;
        let (encoding, max_bytes) = (self.encoding, config.max_line_bytes);
        let posted = encoding.read(content, max_bytes, config.max_msg_bytes)?;
        posted.check_author(&self.caller, Place::Item)?;
        Ok(posted)
    }

    async fn append(&self, line: u32, posted: Posted) -> Result<(), Stop> {
        let made_up = posted.made_up();
        let record = InboundRecord::from(posted);
        let held = held_bytes(made_up.map(Note::MadeUp).as_ref());
        let mut room = self.room(line, record.cost_bytes() + held).await?;
        let held = room.split_off(held);
        let index = self.results.expect(line, record.partition, made_up, held);
        let handle = LineDelivery::new(&self.results, index, record.kind, room);
        if let Err(QueueFull(handle)) = self.ingest.inbound.append_line(&record, handle) {
            let full = "the producer's queue is full".to_owned();
            handle.delivered(Err(DeliveryFailure::Refused(full)));
        }
        Ok(())
    }

    async fn refuse(&self, line: u32, problem: &Problem) -> Result<(), Stop> {
        self.ingest.metrics.rejected(problem.kind);
        let refusal = Note::Refusal(self.encoding.refusal(line, problem));
        let room = self.room(line, held_bytes(Some(&refusal))).await?;
        self.results.refuse(line, refusal, room);
        Ok(())
    }

    /// Room for a line; waits for it no longer than a stall.
    async fn room(&self, line: u32, bytes: u32) -> Result<Taken, Stop> {
        let batches = &self.ingest.batches;
        if let Some(room) = batches.try_take(bytes) {
            return Ok(room);
        }
        tokio::select! {
            room = timeout(self.ingest.config.stall(), batches.take(bytes)) => {
                room.map_err(|_elapsed| Stop::Stalled(no_room(), Line::Whole(line)))
            }
            () = self.results.gone().cancelled() => Err(Stop::ClientGone),
            () = self.ingest.shutdown.soft().cancelled() => {
                Err(Stop::Refused(stopping(), Line::Whole(line)))
            }
        }
    }

    /// Waits until the client has taken everything. What it does not take for a stall, counted from `since` at the earliest, is dropped.
    /// Bytes that were taken and lie in a closed connection's buffers are not ours to wait for.
    async fn stay(&self, since: Instant) {
        let stall = self.ingest.config.stall();
        let mut since = since;
        loop {
            tokio::select! {
                () = self.results.gone().cancelled() => return,
                () = sleep_until(since + stall) => {}
            }
            match self.results.progress() {
                Progress::Taken => return,
                Progress::Ready { last_taken } if last_taken <= since => return self.give_up(),
                Progress::Ready { last_taken } => since = last_taken,
                // They come or are given up.
                Progress::AwaitsReports => since = Instant::now(),
            }
        }
    }

    fn give_up(&self) {
        let stall = self.ingest.config.stall().as_secs();
        tracing::info!("a client does not read its results: they were dropped");
        self.results.give_up(|line| {
            let words = format!(
                "this result and those behind it were dropped: they were not read for {stall} s"
            );
            let problem = Problem::new(ProblemKind::RequestTimeout, words);
            self.encoding.refusal(line, &problem)
        });
    }
}

impl Drop for Intake {
    /// Only a defect comes here without an end: its client must not wait for ever.
    fn drop(&mut self) {
        if !self.results.is_finished() {
            let last_words = self.encoding.refusal(0, &Problem::internal());
            self.results.finish(Some(last_words));
        }
    }
}

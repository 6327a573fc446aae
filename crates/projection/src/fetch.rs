//! The fetch thread: polls, applies the readers' rule, and feeds each lane with slices.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc as sync_mpsc,
    },
    time::Duration,
};

use event_log::{FetchError, Fetched, Fetcher, KafkaFault, NextOffset, Record, RisingMarks};
use schemas::{
    Partition,
    event::{Body, Event},
};
use tokio::sync::mpsc;

use crate::{LogEvent, Position, Slice, dead_letters::Poison};

/// A slice is handed over at this many events, or when nothing more is at hand.
const SLICE_EVENTS: usize = 512;
/// How long a poll waits when nothing is half done; commands wait no longer than this.
const IDLE_POLL: Duration = Duration::from_millis(10);

/// Tells one start of a partition from the next: what was read before a rewind must not be absorbed after it.
pub(crate) type Run = u64;

pub(crate) enum Command {
    Start {
        partition: Partition,
        at: Position,
        run: Run,
    },
    Stop {
        partition: Partition,
    },
}

/// What a lane is fed with.
pub(crate) struct Feed {
    pub(crate) run: Run,
    pub(crate) slice: Slice,
    /// To be on the dead letters before the slice is absorbed.
    pub(crate) poison: Vec<Poison>,
    pub(crate) bytes: usize,
}

/// The fetch thread's end of a lane.
pub(crate) struct LaneFeed {
    pub(crate) sender: mpsc::UnboundedSender<Feed>,
    /// Bytes that were handed over and not yet taken; the pauses bound it.
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) paused: bool,
}

struct Reading {
    lane: usize,
    run: Run,
    marks: RisingMarks,
    next: NextOffset,
    events: Vec<LogEvent>,
    poison: Vec<Poison>,
    bytes: usize,
    moved: bool,
}

pub(crate) struct FetchLoop<F> {
    pub(crate) fetcher: Fetcher,
    pub(crate) commands: sync_mpsc::Receiver<Command>,
    pub(crate) lanes: Vec<LaneFeed>,
    pub(crate) lane_of: F,
    pub(crate) max_queued_bytes: usize,
    reading: BTreeMap<Partition, Reading>,
}

/// Why the fetch thread ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchLoopError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Kafka(#[from] KafkaFault),
}

impl<F: Fn(Partition) -> usize> FetchLoop<F> {
    pub(crate) fn new(
        fetcher: Fetcher,
        commands: sync_mpsc::Receiver<Command>,
        lanes: Vec<LaneFeed>,
        lane_of: F,
        max_queued_bytes: usize,
    ) -> Self {
        Self {
            fetcher,
            commands,
            lanes,
            lane_of,
            max_queued_bytes,
            reading: BTreeMap::new(),
        }
    }

    /// Runs until nobody can command it any more.
    pub(crate) fn run(mut self) -> Result<(), FetchLoopError> {
        loop {
            loop {
                match self.commands.try_recv() {
                    Ok(command) => self.obey(command)?,
                    Err(sync_mpsc::TryRecvError::Empty) => break,
                    Err(sync_mpsc::TryRecvError::Disconnected) => return Ok(()),
                }
            }
            self.poll_once()?;
            self.balance()?;
        }
    }

    fn obey(&mut self, command: Command) -> Result<(), FetchLoopError> {
        match command {
            Command::Start { partition, at, run } => {
                let lane = (self.lane_of)(partition);
                self.fetcher.start(partition, at.next)?;
                if self.lanes[lane].paused {
                    self.fetcher.pause(partition)?;
                }
                self.reading.insert(partition, Reading::new(lane, run, at));
            }
            Command::Stop { partition } => {
                self.fetcher.stop(partition)?;
                self.reading.remove(&partition);
            }
        }
        Ok(())
    }

    fn poll_once(&mut self) -> Result<(), FetchLoopError> {
        let half_done = self.reading.values().any(|reading| reading.moved);
        let patience = if half_done { Duration::ZERO } else { IDLE_POLL };
        match self.fetcher.poll(patience) {
            Ok(Some(Fetched::Record(record))) => self.take(record),
            Ok(Some(Fetched::Drained(partition))) => self.hand_over(partition),
            Ok(None) => self.hand_over_all(),
            Err(FetchError::Transient(error)) => tracing::debug!(error, "polling chat.events"),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn take(&mut self, record: Record) {
        let partition = record.partition;
        let Some(reading) = self.reading.get_mut(&partition) else {
            return;
        };
        reading.take(record);
        if reading.events.len() >= SLICE_EVENTS {
            self.hand_over(partition);
        }
    }

    fn hand_over_all(&mut self) {
        let moved: Vec<_> = self
            .reading
            .iter()
            .filter(|(_, reading)| reading.moved)
            .map(|(p, _)| *p)
            .collect();
        for partition in moved {
            self.hand_over(partition);
        }
    }

    fn hand_over(&mut self, partition: Partition) {
        let Some(reading) = self
            .reading
            .get_mut(&partition)
            .filter(|reading| reading.moved)
        else {
            return;
        };
        let lane = &self.lanes[reading.lane];
        let feed = reading.cut(partition);
        lane.queued.fetch_add(feed.bytes, Ordering::Relaxed);
        // A lane that is gone takes the whole projection with it.
        let _ = lane.sender.send(feed);
    }

    /// Pauses the partitions of lanes that hold too much, and lets them go on at half of it.
    fn balance(&mut self) -> Result<(), KafkaFault> {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let queued = lane.queued.load(Ordering::Relaxed);
            let pause = if lane.paused {
                queued > self.max_queued_bytes / 2
            } else {
                queued > self.max_queued_bytes
            };
            if pause == lane.paused {
                continue;
            }
            lane.paused = pause;
            for (partition, _) in self.reading.iter().filter(|(_, r)| r.lane == number) {
                if pause {
                    self.fetcher.pause(*partition)?;
                } else {
                    self.fetcher.resume(*partition)?;
                }
            }
        }
        Ok(())
    }
}

impl Reading {
    fn new(lane: usize, run: Run, at: Position) -> Self {
        Self {
            lane,
            run,
            marks: RisingMarks::above(at.mark),
            next: at.next,
            events: Vec::new(),
            poison: Vec::new(),
            bytes: 0,
            moved: false,
        }
    }

    fn take(&mut self, record: Record) {
        self.moved = true;
        self.next = NextOffset::after(record.offset);
        // What a record weighs in memory beside its value, about.
        self.bytes += record.bytes().len() + 128;
        match parse(&record) {
            Ok(event) => {
                if self.marks.admit(event.src.mark) && event.body != Body::Progress {
                    self.events.push(LogEvent {
                        offset: record.offset,
                        event,
                    });
                }
            }
            Err(wrong) => self.poison.push(Poison { record, wrong }),
        }
    }

    fn cut(&mut self, partition: Partition) -> Feed {
        self.moved = false;
        let behind = Position {
            next: self.next,
            mark: self.marks.highest().unwrap_or_default(),
        };
        Feed {
            run: self.run,
            slice: Slice {
                partition,
                events: std::mem::take(&mut self.events),
                behind,
            },
            poison: std::mem::take(&mut self.poison),
            bytes: std::mem::take(&mut self.bytes),
        }
    }
}

/// An event, in the partition where it belongs: in another one its rows would be out of every reader's sight.
fn parse(record: &Record) -> Result<Event, String> {
    let event = Event::parse(record.bytes(), record.timestamp).map_err(|e| e.to_string())?;
    match event.conversation().map(Partition::of) {
        Some(right) if right != record.partition => {
            Err(format!("its conversation belongs to partition {right}"))
        }
        _ => Ok(event),
    }
}

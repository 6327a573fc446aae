//! The fetch thread: polls, applies the readers' rule, and feeds each lane with slices.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc as sync_mpsc,
    },
    time::{Duration, Instant},
};

use event_log::{EventLogError, FetchError, Fetched, Fetcher, RecordRef};
use schemas::{LogPosition, Partition};
use tokio::sync::mpsc;

use crate::{
    Slice,
    brokers::Brokers,
    dead_letters::Poison,
    lane::LaneCommand,
    look_back::{Found, GoneBack},
    reading::Reading,
};

/// How long a poll waits when nothing is half done; commands wait no longer than this.
const IDLE_POLL: Duration = Duration::from_millis(10);

/// How many records are polled before commands and pauses get their turn.
const POLL_RECORDS: usize = 256;

/// Tells one start of a partition from the next: what was read before a rewind must not be absorbed after it.
pub(crate) type Run = u64;

pub(crate) enum Command {
    Start {
        partition: Partition,
        at: LogPosition,
        run: Run,
        /// That of the newest record when the position was compared with the log.
        leader_epoch: Option<i32>,
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
    pub(crate) commands: mpsc::UnboundedSender<LaneCommand>,
    /// Bytes that were read and not yet taken, those of open slices too; the pauses bound it.
    pub(crate) queued: Arc<AtomicUsize>,
    pub(crate) paused: bool,
}

pub(crate) struct FetchLoop<F> {
    pub(crate) fetcher: Fetcher,
    pub(crate) commands: sync_mpsc::Receiver<Command>,
    pub(crate) lanes: Vec<LaneFeed>,
    pub(crate) lane_of: F,
    pub(crate) max_queued_bytes: usize,
    pub(crate) brokers: Brokers,
    /// Whether the last poll failed.
    troubled: bool,
    reading: BTreeMap<Partition, Reading>,
}

/// What follows from what a poll brought.
enum Next {
    /// Nothing yet.
    Read,
    /// The open slice of this partition is complete.
    HandOver(Partition),
    /// The log of this partition need not be what was read.
    Doubt {
        partition: Partition,
        leader_epoch: Option<i32>,
    },
}

/// Takes a record into the open slice of its partition.
fn take_record(
    reading: &mut BTreeMap<Partition, Reading>,
    lanes: &[LaneFeed],
    record: &RecordRef<'_>,
) -> Next {
    let partition = record.partition;
    let Some(reading) = reading.get_mut(&partition) else {
        return Next::Read;
    };
    if reading.doubts(record) {
        let leader_epoch = Some(record.leader_epoch);
        return Next::Doubt {
            partition,
            leader_epoch,
        };
    }
    let lane = &lanes[reading.lane];
    let grown = reading.take(record);
    lane.queued.fetch_add(grown, Ordering::Relaxed);
    if reading.is_full() || lane.paused {
        Next::HandOver(partition)
    } else {
        Next::Read
    }
}

/// Why the fetch thread ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchLoopError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Kafka(#[from] EventLogError),
}

impl FetchLoopError {
    /// Whether what comes next was on the log once, and is no longer.
    pub(crate) fn is_of_deleted_records(&self) -> bool {
        matches!(self, Self::Fetch(FetchError::OutOfRange { position, start, .. })
            if position.get() < *start)
    }

    /// Where the log ends before what comes next.
    pub(crate) fn gone_back(&self) -> Option<GoneBack> {
        match self {
            Self::Fetch(FetchError::OutOfRange {
                partition,
                position,
                end,
                ..
            }) if position.get() > *end => Some(GoneBack {
                partition: *partition,
                next: position.get(),
                found: Found::End(*end),
            }),
            _ => None,
        }
    }
}

impl<F: Fn(Partition) -> usize> FetchLoop<F> {
    pub(crate) fn new(
        fetcher: Fetcher,
        commands: sync_mpsc::Receiver<Command>,
        lanes: Vec<LaneFeed>,
        lane_of: F,
        max_queued_bytes: usize,
        brokers: Brokers,
    ) -> Self {
        Self {
            fetcher,
            commands,
            lanes,
            lane_of,
            max_queued_bytes,
            brokers,
            troubled: false,
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
            self.poll_some()?;
            self.balance()?;
        }
    }

    fn obey(&mut self, command: Command) -> Result<(), FetchLoopError> {
        match command {
            Command::Start {
                partition,
                at,
                run,
                leader_epoch,
            } => {
                let lane = (self.lane_of)(partition);
                self.fetcher.start(partition, at.next)?;
                if self.lanes[lane].paused {
                    self.fetcher.pause(partition)?;
                }
                self.forget(partition);
                let reading = Reading::new(lane, run, at, leader_epoch);
                self.reading.insert(partition, reading);
            }
            Command::Stop { partition } => self.stop(partition)?,
        }
        Ok(())
    }

    fn stop(&mut self, partition: Partition) -> Result<(), EventLogError> {
        self.fetcher.stop(partition)?;
        self.forget(partition);
        Ok(())
    }

    /// Reads no further in a partition until its lane has looked whether the log below is still what was read.
    fn doubt(
        &mut self,
        partition: Partition,
        leader_epoch: Option<i32>,
    ) -> Result<(), EventLogError> {
        let lane = (self.lane_of)(partition);
        self.stop(partition)?;
        // A lane that is gone takes the whole projection with it.
        let _ = self.lanes[lane].commands.send(LaneCommand::LookBack {
            partition,
            leader_epoch,
        });
        Ok(())
    }

    /// Drops what was read and not handed over.
    fn forget(&mut self, partition: Partition) {
        if let Some(reading) = self.reading.remove(&partition) {
            let queued = &self.lanes[reading.lane].queued;
            queued.fetch_sub(reading.bytes(), Ordering::Relaxed);
        }
    }

    /// Takes what is at hand.
    fn poll_some(&mut self) -> Result<(), FetchLoopError> {
        let half_done = self.reading.values().any(Reading::has_moved);
        let mut patience = if half_done { Duration::ZERO } else { IDLE_POLL };
        for _ in 0..POLL_RECORDS {
            if !self.poll_once(patience)? {
                break;
            }
            patience = Duration::ZERO;
        }
        Ok(())
    }

    /// Whether something came.
    fn poll_once(&mut self, patience: Duration) -> Result<bool, FetchLoopError> {
        let Self {
            fetcher,
            lanes,
            reading,
            ..
        } = self;
        let polled = fetcher.poll(patience, |fetched| match fetched {
            Fetched::Record(record) => take_record(reading, lanes, &record),
            Fetched::Drained(partition) => Next::HandOver(partition),
            Fetched::Resumed(partition) => Next::Doubt {
                partition,
                leader_epoch: reading.get(&partition).and_then(Reading::leader_epoch),
            },
        });
        let next = match polled {
            Ok(next) => next,
            Err(FetchError::Transient(error)) => {
                self.troubled = true;
                self.brokers.failed(format!("reading chat.events: {error}"));
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        // That nothing came says nothing.
        if next.is_some() && std::mem::take(&mut self.troubled) {
            self.brokers.answered(Instant::now());
        }
        let Some(next) = next else {
            self.hand_over_all();
            return Ok(false);
        };
        self.go_on(next)?;
        Ok(true)
    }

    fn go_on(&mut self, next: Next) -> Result<(), EventLogError> {
        match next {
            Next::Read => {}
            Next::HandOver(partition) => self.hand_over(partition),
            Next::Doubt {
                partition,
                leader_epoch,
            } => self.doubt(partition, leader_epoch)?,
        }
        Ok(())
    }

    fn hand_over_all(&mut self) {
        let moved: Vec<_> = self
            .reading
            .iter()
            .filter(|(_, reading)| reading.has_moved())
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
            .filter(|reading| reading.has_moved())
        else {
            return;
        };
        let lane = &self.lanes[reading.lane];
        let feed = reading.cut(partition);
        // A lane that is gone takes the whole projection with it.
        let _ = lane.sender.send(feed);
    }

    /// Pauses the partitions of lanes that hold too much, and lets them go on at half of it.
    fn balance(&mut self) -> Result<(), EventLogError> {
        for number in 0..self.lanes.len() {
            let lane = &mut self.lanes[number];
            let queued = lane.queued.load(Ordering::Relaxed);
            let pause = if lane.paused {
                queued > self.max_queued_bytes / 2
            } else {
                queued > self.max_queued_bytes
            };
            if pause != lane.paused {
                lane.paused = pause;
                self.hold(number, pause)?;
            }
        }
        Ok(())
    }

    /// Pauses a lane's partitions, or ends that. What they have open is handed over: it counts as queued, and nothing else
    /// would close it while they are paused.
    fn hold(&mut self, lane: usize, pause: bool) -> Result<(), EventLogError> {
        let of_lane = |(partition, reading): (&Partition, &Reading)| {
            (reading.lane == lane).then_some(*partition)
        };
        let partitions: Vec<Partition> = self.reading.iter().filter_map(of_lane).collect();
        for partition in partitions {
            if pause {
                self.fetcher.pause(partition)?;
                self.hand_over(partition);
            } else {
                self.fetcher.resume(partition)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event_log::{KafkaConfig, Record};
    use schemas::topics::Topic;

    use super::*;
    use crate::reading::tests::{record, value};

    const LIMIT: usize = 1 << 20;

    type OneLane = FetchLoop<fn(Partition) -> usize>;

    /// One lane; nobody listens at the brokers' address.
    fn fetch_loop() -> (OneLane, mpsc::UnboundedReceiver<Feed>) {
        let kafka = KafkaConfig {
            brokers: "127.0.0.1:1".to_owned(),
            ..KafkaConfig::default()
        };
        let fetcher = Fetcher::new(&kafka, Topic::Events).unwrap();
        let (_, commands) = sync_mpsc::channel();
        let (sender, feeds) = mpsc::unbounded_channel();
        let (lane_commands, _) = mpsc::unbounded_channel();
        let lane = LaneFeed {
            sender,
            commands: lane_commands,
            queued: Arc::default(),
            paused: false,
        };
        let lane_of: fn(Partition) -> usize = |_| 0;
        let brokers = Brokers::default();
        let mut fetch = FetchLoop::new(fetcher, commands, vec![lane], lane_of, LIMIT, brokers);
        for partition in Partition::all() {
            let at = LogPosition::default();
            fetch
                .obey(Command::Start {
                    partition,
                    at,
                    run: 1,
                    leader_epoch: None,
                })
                .unwrap();
        }
        (fetch, feeds)
    }

    fn take(fetch: &mut OneLane, record: &Record) {
        let next = take_record(&mut fetch.reading, &fetch.lanes, &record.by_ref());
        fetch.go_on(next).unwrap();
    }

    fn queued(fetch: &OneLane) -> usize {
        fetch.lanes[0].queued.load(Ordering::Relaxed)
    }

    #[test]
    fn open_slices_of_all_partitions_count_as_queued() {
        let (mut fetch, mut feeds) = fetch_loop();
        // Junk, so that it belongs nowhere else.
        let mut taken = 0;
        'filling: for offset in 0..100 {
            for partition in 0..64 {
                let record = value(partition, offset, vec![0xff; 16 << 10]);
                take(&mut fetch, &record);
                fetch.balance().unwrap();
                taken += 16 << 10;
                if fetch.lanes[0].paused {
                    break 'filling;
                }
            }
        }
        assert!(
            taken <= LIMIT + (32 << 10),
            "{taken} bytes before the pause"
        );
        // It is all with the lane, which can take it and so end the pause.
        let mut handed = 0;
        while let Ok(feed) = feeds.try_recv() {
            handed += feed.bytes;
        }
        assert_eq!(handed, queued(&fetch));
        fetch.lanes[0].queued.fetch_sub(handed, Ordering::Relaxed);
        fetch.balance().unwrap();
        assert!(!fetch.lanes[0].paused);
    }

    #[test]
    fn what_is_dropped_with_its_partition_is_no_longer_queued() {
        let (mut fetch, _feeds) = fetch_loop();
        let partition = 3_i64.try_into().unwrap();
        take(&mut fetch, &record(3, 0, 100));
        assert!(queued(&fetch) > 100);
        fetch.obey(Command::Stop { partition }).unwrap();
        assert_eq!(queued(&fetch), 0);
    }
}

//! Loads the state of a partition: the newest valid snapshot, then the fold of `chat.events` after it, then the truncation checks
//! (PROTOCOL S9, S10, S12, S13).

mod error;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use schemas::{
    OffsetRange, Partition, TimestampMs,
    event::{Body, Event, ReadError, Source, SourceOffset},
};

pub use error::LoadError;

use super::StoredSnapshot;
use crate::core::{State, snapshot};

/// One record of `chat.events`.
#[derive(Clone, Copy, Debug)]
pub struct EventRecord<'a> {
    /// Its offset.
    pub offset: i64,
    /// Its CreateTime.
    pub ts: TimestampMs,
    /// Its value; empty if it had none.
    pub value: &'a [u8],
}

/// The input that a [`Loader`] asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadRequest {
    /// The record of `chat.events` at this offset, for [`Loader::on_record_before_snapshot`].
    RecordBeforeSnapshot(i64),
    /// The records of `chat.events` from this offset on, for [`Loader::on_events`], until it asks for something else.
    Events(i64),
    /// The leader epoch of the record of `chat.inbound` at this offset, for [`Loader::on_inbound_leader_epoch`].
    InboundLeaderEpoch(i64),
    /// Nothing more: call [`Loader::finish`].
    Done,
}

/// The state that a shell starts with.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The fold of the log.
    pub state: State,
    /// The highest source in the log. The inbound record after it is stepped next.
    pub last: Source,
    /// The end of the log, up to which it was folded.
    pub events_end: i64,
    /// The source of the last record before `events_end`; `None` if there is none.
    pub before_end: Option<Source>,
    /// The highest leader epoch of `chat.inbound` for which the log was checked; if `None`, the shell takes the one of the first record that it reads.
    pub inbound_leader_epoch: Option<i32>,
    /// How many events were folded after the snapshot.
    pub folded: u64,
}

/// Makes a [`Loaded`] from the records that it asks for. The ends of both logs are read before it begins.
#[derive(Debug)]
pub struct Loader {
    partition: Partition,
    events: OffsetRange,
    /// `None` if `chat.inbound` is not checked.
    inbound: Option<OffsetRange>,
    candidates: VecDeque<StoredSnapshot>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Compares a snapshot with the record before its offset.
    CheckSnapshot {
        fold: Fold,
    },
    Fold(Fold),
    CheckInbound(Fold),
    Done(Fold),
}

/// The source before the first record of an empty log.
const BEFORE_ALL: Source = Source {
    offset: SourceOffset::START,
    leader_epoch: -1,
};

/// The fold so far.
#[derive(Debug)]
struct Fold {
    state: State,
    last: Source,
    next: i64,
    before_next: Option<Source>,
    folded: u64,
}

impl Loader {
    /// Starts with the snapshots found, newest first, as [`Assembler`](super::Assembler) returns them.
    ///
    /// # Errors
    /// [`LoadError`] if a log lost records.
    pub fn new(
        partition: Partition,
        events: OffsetRange,
        inbound: OffsetRange,
        snapshots: Vec<StoredSnapshot>,
    ) -> Result<Self, LoadError> {
        Self::begin(partition, events, Some(inbound), snapshots)
    }

    /// A loader that folds `chat.events` without the check of `chat.inbound`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_events(
        partition: Partition,
        events: OffsetRange,
        snapshots: Vec<StoredSnapshot>,
    ) -> Result<Self, LoadError> {
        Self::begin(partition, events, None, snapshots)
    }

    fn begin(
        partition: Partition,
        events: OffsetRange,
        inbound: Option<OffsetRange>,
        snapshots: Vec<StoredSnapshot>,
    ) -> Result<Self, LoadError> {
        let mut loader = Self {
            partition,
            events,
            inbound,
            candidates: snapshots.into(),
            phase: Phase::Fold(Fold::default()),
        };
        loader.next_candidate()?;
        Ok(loader)
    }

    /// The input that the loader needs next.
    #[must_use]
    pub fn request(&self) -> LoadRequest {
        match &self.phase {
            Phase::CheckSnapshot { fold } => LoadRequest::RecordBeforeSnapshot(fold.next - 1),
            Phase::Fold(fold) => LoadRequest::Events(fold.next),
            Phase::CheckInbound(fold) => LoadRequest::InboundLeaderEpoch(fold.last.offset.offset),
            Phase::Done(_) => LoadRequest::Done,
        }
    }

    /// Takes the record of [`LoadRequest::RecordBeforeSnapshot`]. If it lacks the source that the snapshot names, the snapshot is skipped.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on_record_before_snapshot(&mut self, record: &EventRecord<'_>) -> Result<(), LoadError> {
        let Phase::CheckSnapshot { fold } = &mut self.phase else {
            return Ok(());
        };
        let found = parse(self.partition, record)?.map(|event| event.src);
        let agrees = found.is_some() && found == fold.before_next;
        if agrees {
            let fold = std::mem::take(fold);
            self.begin_fold(fold)
        } else {
            self.next_candidate()
        }
    }

    /// Takes records of [`LoadRequest::Events`], in order. Those at or above the end are ignored.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on_events<'a>(
        &mut self,
        records: impl IntoIterator<Item = EventRecord<'a>>,
    ) -> Result<(), LoadError> {
        let Phase::Fold(fold) = &mut self.phase else {
            return Ok(());
        };
        let end = self.events.end;
        for record in records.into_iter().take_while(|record| record.offset < end) {
            fold.take(self.partition, &record)?;
        }
        if fold.next == end {
            let fold = std::mem::take(fold);
            self.check_inbound(fold)?;
        }
        Ok(())
    }

    /// Takes the leader epoch of [`LoadRequest::InboundLeaderEpoch`]; `None` if the record is no longer retained.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on_inbound_leader_epoch(&mut self, found: Option<i32>) -> Result<(), LoadError> {
        let Phase::CheckInbound(fold) = &mut self.phase else {
            return Ok(());
        };
        let expected = fold.last.leader_epoch;
        if let Some(found) = found.filter(|found| *found >= 0 && *found != expected) {
            return Err(LoadError::InboundReplaced {
                partition: self.partition,
                sequenced: fold.last.offset.offset,
                expected,
                found,
            });
        }
        self.phase = Phase::Done(std::mem::take(fold));
        Ok(())
    }

    /// The loaded state after [`LoadRequest::Done`]; otherwise `None`.
    #[must_use]
    pub fn finish(self) -> Option<Loaded> {
        let Phase::Done(fold) = self.phase else {
            return None;
        };
        Some(Loaded {
            state: fold.state,
            last: fold.last,
            events_end: self.events.end,
            before_end: fold.before_next,
            inbound_leader_epoch: None,
            folded: fold.folded,
        })
    }

    /// Continues with the next usable snapshot, or folds the log from its beginning.
    fn next_candidate(&mut self) -> Result<(), LoadError> {
        while let Some(candidate) = self.candidates.pop_front() {
            let Some(fold) = Fold::after(candidate)? else {
                continue;
            };
            if fold.next > self.events.end {
                return Err(LoadError::EventsTruncated {
                    partition: self.partition,
                    end: self.events.end,
                    snapshot_offset: fold.next,
                });
            }
            if fold.next < self.events.start {
                continue;
            }
            if fold.next == self.events.start {
                // There is no record before it to compare with.
                return self.begin_fold(fold);
            }
            self.phase = Phase::CheckSnapshot { fold };
            return Ok(());
        }
        if self.events.start > 0 {
            return Err(LoadError::NoSnapshot {
                partition: self.partition,
                start: self.events.start,
            });
        }
        self.begin_fold(Fold::default())
    }

    fn begin_fold(&mut self, fold: Fold) -> Result<(), LoadError> {
        self.candidates.clear();
        if fold.next == self.events.end {
            return self.check_inbound(fold);
        }
        self.phase = Phase::Fold(fold);
        Ok(())
    }

    /// The truncation check of PROTOCOL S13: `chat.inbound` must still hold the records that were sequenced.
    fn check_inbound(&mut self, fold: Fold) -> Result<(), LoadError> {
        let (partition, sequenced) = (self.partition, fold.last.offset.offset);
        let Some(OffsetRange { start, end }) = self.inbound else {
            self.phase = Phase::Done(fold);
            return Ok(());
        };
        if end <= sequenced {
            return Err(LoadError::InboundTruncated {
                partition,
                end,
                sequenced,
            });
        }
        if start > sequenced + 1 {
            return Err(LoadError::InboundLost {
                partition,
                start,
                next: sequenced + 1,
            });
        }
        let retained = sequenced >= start;
        self.phase = if retained && fold.last.leader_epoch >= 0 {
            Phase::CheckInbound(fold)
        } else {
            Phase::Done(fold)
        };
        Ok(())
    }
}

impl Default for Fold {
    fn default() -> Self {
        Self {
            state: State::default(),
            last: BEFORE_ALL,
            next: 0,
            before_next: None,
            folded: 0,
        }
    }
}

impl Fold {
    /// The fold that continues after a snapshot; `None` if the snapshot is invalid.
    fn after(candidate: StoredSnapshot) -> Result<Option<Self>, LoadError> {
        let restored = match candidate.read() {
            Ok(restored) => restored,
            Err(snapshot::InvalidSnapshot::Rules(unknown)) => return Err(unknown.into()),
            Err(_) => return Ok(None),
        };
        Ok(Some(Self {
            state: restored.state,
            last: restored.src,
            next: restored.events_offset,
            before_next: restored.src_before_offset,
            folded: 0,
        }))
    }

    fn take(&mut self, partition: Partition, record: &EventRecord<'_>) -> Result<(), LoadError> {
        let offset = record.offset;
        if offset != self.next {
            return Err(LoadError::EventsGap {
                partition,
                expected: self.next,
                offset,
            });
        }
        self.next = offset + 1;
        let event = parse(partition, record)?;
        self.before_next = event.as_ref().map(|event| event.src);
        let Some(event) = event else {
            return Ok(());
        };
        // PROTOCOL S10: a former owner may have appended the same decisions again.
        if event.src.offset > self.last.offset {
            self.fold(&event);
        }
        Ok(())
    }

    fn fold(&mut self, event: &Event) {
        self.state.apply(event);
        self.last = event.src;
        self.folded += u64::from(event.body != Body::Progress);
    }
}

/// `None` for a record that every reader skips.
fn parse(partition: Partition, record: &EventRecord<'_>) -> Result<Option<Event>, LoadError> {
    match Event::read(partition, record.value, record.ts) {
        Ok(event) => Ok(Some(event)),
        Err(ReadError::Skipped(_)) => Ok(None),
        Err(ReadError::UnknownRules(unknown)) => Err(unknown.into()),
    }
}

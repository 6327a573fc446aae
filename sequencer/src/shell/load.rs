//! How an owner starts: newest valid snapshot, fold of the log behind it, checks (PROTOCOL S9, S10, S12, S13).

use std::collections::VecDeque;

use schemas::{
    Partition, TimestampMs,
    command::Malformed,
    event::{Body, Event, Source, SrcMark},
    proto::SequencerSnapshot,
};

use crate::{
    core::{State, UnknownRules, check_rules, snapshot},
    sabotage::{Rule, dropped},
};

/// The offsets that a partition of a topic holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRange {
    /// The first retained.
    pub start: i64,
    /// The one that the next record will take.
    pub end: i64,
}

/// One record of `chat.events`.
#[derive(Clone, Copy, Debug)]
pub struct EventRecord<'a> {
    /// Its offset.
    pub offset: i64,
    /// Its CreateTime.
    pub ts: TimestampMs,
    /// Its value; empty where it had none.
    pub value: &'a [u8],
}

/// What a [`Loader`] wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The record of `chat.events` at this offset, by [`Loader::on_witness`].
    Witness(i64),
    /// The records of `chat.events` from this offset on, by [`Loader::on_events`], until it wants something else.
    Events(i64),
    /// The leader epoch of the record of `chat.inbound` at this offset, by [`Loader::on_inbound_leader_epoch`].
    InboundLeaderEpoch(i64),
    /// No more: [`Loader::finish`].
    Nothing,
}

/// What a shell starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The fold of the log.
    pub state: State,
    /// The highest source in the log; stepping goes on behind it.
    pub last: Source,
    /// Up to where the log was folded.
    pub events_end: i64,
    /// The source of the record before; `None` where there is none.
    pub before_end: Option<Source>,
    /// How many events were folded behind the snapshot.
    pub folded: u64,
}

/// Why an owner cannot start. None goes away by itself: the process must end with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The beginning of the log is gone and no snapshot replaces it.
    #[error(
        "partition {partition} of chat.events begins at offset {start} and no valid snapshot lies at or above it: restore \
         chat.snapshots or the beginning of chat.events from a backup"
    )]
    NoSnapshot {
        /// The partition.
        partition: Partition,
        /// Where the log begins.
        start: i64,
    },
    /// A snapshot is ahead of the log.
    #[error(
        "partition {partition} of chat.events ends at offset {end}, and a snapshot was taken at {resume}: the topic lost \
         records. Restore them; or, if the deployment was reset on purpose, delete chat.snapshots too"
    )]
    EventsWentBack {
        /// The partition.
        partition: Partition,
        /// Where the log ends.
        end: i64,
        /// Where the fold would go on.
        resume: i64,
    },
    /// Records are missing within the log.
    #[error(
        "partition {partition} of chat.events goes on at offset {offset} where {expected} was next: the topic lost \
         records, is compacted, or a transactional producer wrote to it. Only the sequencer may write to it"
    )]
    EventsGap {
        /// The partition.
        partition: Partition,
        /// The offset that was next.
        expected: i64,
        /// The one that came.
        offset: i64,
    },
    /// A record of the log is no event.
    #[error(
        "offset {offset} of partition {partition} of chat.events is no event ({malformed}): only the sequencer may write \
         to it. If a newer version wrote it, run that"
    )]
    NoEvent {
        /// The partition.
        partition: Partition,
        /// Where it lies.
        offset: i64,
        /// What is wrong with it.
        malformed: Malformed,
    },
    /// The inbound log ends before what was sequenced of it.
    #[error(
        "partition {partition} of chat.inbound ends at offset {end}, and {sequenced} is sequenced already: the topic was \
         created anew or lost records. Restore it; or, to go on with it as it is, stop every sequencer and raise the \
         source epoch"
    )]
    InboundWentBack {
        /// The partition.
        partition: Partition,
        /// Where it ends.
        end: i64,
        /// The last offset that was sequenced.
        sequenced: i64,
    },
    /// The inbound log holds another record than the one sequenced.
    #[error(
        "offset {sequenced} of partition {partition} of chat.inbound has leader epoch {found}, and the record sequenced \
         had {expected}: the topic was created anew or lost records. Restore it; or, to go on with it as it is, stop \
         every sequencer and raise the source epoch"
    )]
    InboundReplaced {
        /// The partition.
        partition: Partition,
        /// The last offset that was sequenced.
        sequenced: i64,
        /// Its leader epoch then.
        expected: i32,
        /// Its leader epoch now.
        found: i32,
    },
    /// Inbound records were deleted before they were sequenced.
    #[error(
        "partition {partition} of chat.inbound begins at offset {start}, and {next} was to be sequenced next: records \
         were deleted unread. To go on without them, stop every sequencer and raise the source epoch; and lengthen the \
         topic's retention"
    )]
    InboundLost {
        /// The partition.
        partition: Partition,
        /// Where it begins.
        start: i64,
        /// The offset that was next.
        next: i64,
    },
    /// The rules ask for a newer program (PROTOCOL S5).
    #[error(transparent)]
    UnknownRules(#[from] UnknownRules),
}

/// Makes a [`Loaded`] out of what it asks for. The ends of both logs are fixed before it begins.
#[derive(Debug)]
pub struct Loader {
    partition: Partition,
    events: LogRange,
    inbound: LogRange,
    candidates: VecDeque<SequencerSnapshot>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// A snapshot is good if the log agrees with it.
    Witness {
        fold: Fold,
    },
    Fold(Fold),
    CheckInbound(Fold),
    Done(Fold),
}

/// Stands before the first record of an empty log.
const BEFORE_ALL: Source = Source {
    mark: SrcMark::START,
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
    /// Begins with the snapshots found, newest first, as [`Assembler`](super::Assembler) gives them.
    ///
    /// # Errors
    /// [`LoadError`] where the logs cannot be what they were.
    pub fn new(
        partition: Partition,
        events: LogRange,
        inbound: LogRange,
        snapshots: Vec<SequencerSnapshot>,
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

    /// What it wants next.
    #[must_use]
    pub fn need(&self) -> Need {
        match &self.phase {
            Phase::Witness { fold } => Need::Witness(fold.next - 1),
            Phase::Fold(fold) => Need::Events(fold.next),
            Phase::CheckInbound(fold) => Need::InboundLeaderEpoch(fold.last.mark.offset),
            Phase::Done(_) => Need::Nothing,
        }
    }

    /// The record asked for by [`Need::Witness`]. The snapshot is passed over unless it agrees.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on_witness(&mut self, record: &EventRecord<'_>) -> Result<(), LoadError> {
        let Phase::Witness { fold } = &mut self.phase else {
            return Ok(());
        };
        let found = Event::parse(record.value, record.ts)
            .ok()
            .map(|event| event.src);
        let agrees = found.is_some() && found == fold.before_next;
        if agrees || dropped(Rule::S12Witness) {
            let fold = std::mem::take(fold);
            self.begin_fold(fold)
        } else {
            self.next_candidate()
        }
    }

    /// Records from [`Need::Events`] on, in order; those at or above the end fixed at the start are left out.
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

    /// The answer to [`Need::InboundLeaderEpoch`]; `None` where the record is no longer retained.
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
                sequenced: fold.last.mark.offset,
                expected,
                found,
            });
        }
        self.phase = Phase::Done(std::mem::take(fold));
        Ok(())
    }

    /// The start, once nothing is needed any more; otherwise `None`.
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
            folded: fold.folded,
        })
    }

    /// Goes on with the next snapshot that may do, or from the beginning.
    fn next_candidate(&mut self) -> Result<(), LoadError> {
        while let Some(candidate) = self.candidates.pop_front() {
            let Some(fold) = Fold::behind(&candidate)? else {
                continue;
            };
            if fold.next > self.events.end {
                return Err(LoadError::EventsWentBack {
                    partition: self.partition,
                    end: self.events.end,
                    resume: fold.next,
                });
            }
            if fold.next < self.events.start {
                continue;
            }
            if fold.next == self.events.start {
                // The record before it is gone, or never was.
                return self.begin_fold(fold);
            }
            self.phase = Phase::Witness { fold };
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
        if fold.next == self.events.end {
            return self.check_inbound(fold);
        }
        self.phase = Phase::Fold(fold);
        Ok(())
    }

    /// PROTOCOL S13: what was sequenced must still be what `chat.inbound` holds.
    fn check_inbound(&mut self, fold: Fold) -> Result<(), LoadError> {
        let (partition, sequenced) = (self.partition, fold.last.mark.offset);
        if self.inbound.end <= sequenced {
            return Err(LoadError::InboundWentBack {
                partition,
                end: self.inbound.end,
                sequenced,
            });
        }
        if self.inbound.start > sequenced + 1 {
            return Err(LoadError::InboundLost {
                partition,
                start: self.inbound.start,
                next: sequenced + 1,
            });
        }
        let retained = sequenced >= self.inbound.start;
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
    /// The fold that goes on behind a snapshot; `None` where it is no valid one.
    fn behind(candidate: &SequencerSnapshot) -> Result<Option<Self>, LoadError> {
        let state = match snapshot::read(candidate) {
            Ok(state) => state,
            Err(snapshot::InvalidSnapshot::Rules(unknown)) => return Err(unknown.into()),
            Err(_) => return Ok(None),
        };
        let last = candidate.src.map(Source::try_from);
        let before = candidate
            .src_before_offset
            .map(Source::try_from)
            .transpose();
        let (Some(Ok(last)), Ok(before_next)) = (last, before) else {
            return Ok(None);
        };
        let last = if dropped(Rule::S12Mark) {
            BEFORE_ALL
        } else {
            last
        };
        Ok((candidate.events_offset >= 0).then_some(Self {
            state,
            last,
            next: candidate.events_offset,
            before_next,
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
        let event =
            Event::parse(record.value, record.ts).map_err(|malformed| LoadError::NoEvent {
                partition,
                offset,
                malformed,
            })?;
        self.next = offset + 1;
        self.before_next = Some(event.src);
        // PROTOCOL S10: a former owner may have appended the same decisions again.
        if event.src.mark > self.last.mark || dropped(Rule::S10) {
            self.fold(&event)?;
        }
        Ok(())
    }

    fn fold(&mut self, event: &Event) -> Result<(), LoadError> {
        if let Body::Control(rules) = &event.body {
            check_rules(rules)?;
        }
        self.state.apply(event);
        self.last = event.src;
        self.folded += u64::from(event.body != Body::Progress);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schemas::{ConversationId, Mid, Ordinal, UserId, event::Message, event::Rules};

    use super::*;
    use crate::sabotage::drop_rule;

    fn partition() -> Partition {
        Partition::try_from(4).unwrap()
    }

    fn range(start: i64, end: i64) -> LogRange {
        LogRange { start, end }
    }

    /// The message that inbound record `offset` caused, in leader epoch 5.
    fn event(offset: i64, body: Body) -> Event {
        Event {
            src: Source {
                mark: SrcMark { epoch: 0, offset },
                leader_epoch: 5,
            },
            ts: TimestampMs(offset),
            body,
        }
    }

    fn message(offset: i64) -> Event {
        let user = |uid| UserId::try_from(uid).unwrap();
        let message = Message {
            srcid: user(1),
            destid: user(3),
            client_msg_id: offset.to_string().try_into().unwrap(),
            msg: "m".to_owned(),
            mid: Mid::try_from(offset + 1).unwrap(),
            n: Ordinal::ZERO.next(),
        };
        assert_eq!(
            message.conversation(),
            ConversationId::direct(user(1), user(3))
        );
        event(offset, Body::Message(message))
    }

    /// A log in which record i was caused by inbound record i.
    fn log(length: i64) -> Vec<Event> {
        (0..length).map(message).collect()
    }

    /// The snapshot behind the first `length` records.
    fn snapshot_of(log: &[Event], length: i64) -> SequencerSnapshot {
        let mut state = State::default();
        for event in &log[..length as usize] {
            state.apply(event);
        }
        let last = log[length as usize - 1].src;
        SequencerSnapshot {
            events_offset: length,
            src_before_offset: Some(last.into()),
            ..snapshot::write(&state, last)
        }
    }

    /// Loads from a log that begins at `start`; the inbound log holds `inbound`, all of it in leader epoch `epoch`.
    fn load(
        log: &[Event],
        start: i64,
        inbound: (LogRange, i32),
        snapshots: Vec<SequencerSnapshot>,
    ) -> Result<Loaded, LoadError> {
        let end = log.len() as i64;
        let encoded: Vec<_> = log.iter().map(|event| event.clone().encode()).collect();
        let record = |offset: i64| EventRecord {
            offset,
            ts: log[offset as usize].ts,
            value: &encoded[offset as usize],
        };
        let (inbound, epoch) = inbound;
        let mut loader = Loader::new(partition(), range(start, end), inbound, snapshots)?;
        loop {
            match loader.need() {
                Need::Witness(offset) => loader.on_witness(&record(offset))?,
                Need::Events(from) => loader.on_events((from..end).map(record))?,
                Need::InboundLeaderEpoch(_) => loader.on_inbound_leader_epoch(Some(epoch))?,
                Need::Nothing => return Ok(loader.finish().unwrap()),
            }
        }
    }

    const INBOUND: (LogRange, i32) = (LogRange { start: 0, end: 99 }, 5);

    #[test]
    fn a_snapshot_and_the_rest_are_the_whole() {
        let log = log(9);
        let whole = load(&log, 0, INBOUND, vec![]).unwrap();
        assert_eq!(whole.folded, 9);
        assert_eq!(whole.last, log[8].src);
        let rest = load(&log, 0, INBOUND, vec![snapshot_of(&log, 6)]).unwrap();
        assert_eq!(rest.folded, 3);
        assert_eq!(Loaded { folded: 9, ..rest }, whole);
        // The beginning may be gone as long as a snapshot replaces it.
        let cut = load(&log, 6, INBOUND, vec![snapshot_of(&log, 6)]).unwrap();
        assert_eq!(cut.state, whole.state);
    }

    #[test]
    fn a_snapshot_that_the_log_does_not_agree_with_gives_way_to_the_next() {
        let log = log(9);
        let mut other = log.clone();
        other[6].src.leader_epoch = 4;
        let strange = snapshot_of(&other, 7);
        let whole = load(&log, 0, INBOUND, vec![]).unwrap();
        let snapshots = vec![strange.clone(), snapshot_of(&log, 3)];
        let loaded = load(&log, 0, INBOUND, snapshots).unwrap();
        assert_eq!(loaded.folded, 6);
        assert_eq!(loaded.state, whole.state);
        // S12: without the comparison it would be used.
        let _dropped = drop_rule(Rule::S12Witness);
        assert_eq!(load(&log, 0, INBOUND, vec![strange]).unwrap().folded, 2);
    }

    #[test]
    fn a_beginning_that_is_gone_needs_a_snapshot() {
        let log = log(9);
        let missing = LoadError::NoSnapshot {
            partition: partition(),
            start: 4,
        };
        assert_eq!(load(&log, 4, INBOUND, vec![]), Err(missing.clone()));
        assert_eq!(
            load(&log, 4, INBOUND, vec![snapshot_of(&log, 3)]),
            Err(missing)
        );
    }

    #[test]
    fn a_log_that_is_shorter_than_a_snapshot_halts() {
        let whole = log(9);
        let resumed = load(&log(5), 0, INBOUND, vec![snapshot_of(&whole, 6)]);
        assert_eq!(
            resumed,
            Err(LoadError::EventsWentBack {
                partition: partition(),
                end: 5,
                resume: 6
            })
        );
    }

    #[test]
    fn an_inbound_log_that_is_another_halts() {
        let log = log(9);
        let partition = partition();
        assert_eq!(
            load(&log, 0, (range(0, 8), 5), vec![]),
            Err(LoadError::InboundWentBack {
                partition,
                end: 8,
                sequenced: 8
            })
        );
        assert_eq!(
            load(&log, 0, (range(10, 20), 5), vec![]),
            Err(LoadError::InboundLost {
                partition,
                start: 10,
                next: 9
            })
        );
        assert_eq!(
            load(&log, 0, (range(0, 20), 6), vec![]),
            Err(LoadError::InboundReplaced {
                partition,
                sequenced: 8,
                expected: 5,
                found: 6
            })
        );
        // All that was sequenced may be gone, and nothing else need be there.
        assert!(load(&log, 0, (range(9, 9), 6), vec![]).is_ok());
    }

    #[test]
    fn a_raised_epoch_begins_at_the_new_inbound_logs_first_record() {
        let mut log = log(9);
        let mark = SrcMark {
            epoch: 1,
            offset: -1,
        };
        let src = Source {
            mark,
            leader_epoch: -1,
        };
        log.push(Event {
            src,
            ..event(0, Body::Progress)
        });
        let loaded = load(&log, 0, (range(0, 0), 0), vec![]).unwrap();
        assert_eq!(loaded.last.mark, mark);
    }

    #[test]
    fn what_is_no_event_or_needs_a_newer_program_halts() {
        let mut loader = Loader::new(partition(), range(0, 2), INBOUND.0, vec![]).unwrap();
        let junk = EventRecord {
            offset: 0,
            ts: TimestampMs(0),
            value: b"junk",
        };
        let refused = loader.on_events([junk]);
        assert!(matches!(refused, Err(LoadError::NoEvent { offset: 0, .. })));
        let gap = loader.on_events([EventRecord { offset: 1, ..junk }]);
        let missing = LoadError::EventsGap {
            partition: partition(),
            expected: 0,
            offset: 1,
        };
        assert_eq!(gap, Err(missing));
        let newer = Rules {
            rule_version: 2,
            ..Rules::VERSION_1
        };
        let loaded = load(&[event(0, Body::Control(newer))], 0, INBOUND, vec![]);
        assert_eq!(loaded, Err(UnknownRules { version: 2 }.into()));
    }
}

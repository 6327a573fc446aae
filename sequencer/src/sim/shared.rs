//! The environment of the processes, and the logs that they share.

use schemas::{dead_letter::Reason, event::Event, proto::SequencerSnapshot};

use super::kafka::{Broker, LogRecord};
use crate::shell::InboundRecord;

/// What the sequencer requires of its environment. A test takes one thing away and shows that the simulation notices.
#[derive(Clone, Copy)]
pub(crate) struct Environment {
    /// After a failure the producer sends nothing more (PROTOCOL S6; librdkafka's `enable.gapless.guarantee`).
    pub(crate) gapless_producer: bool,
    /// Inbound records are read from the consumer group's offset on, which PROTOCOL S9 forbids.
    pub(crate) starts_at_the_groups_offset: bool,
}

impl Environment {
    pub(crate) const SOUND: Self = Self {
        gapless_producer: true,
        starts_at_the_groups_offset: false,
    };
}

/// What all processes see.
pub(crate) struct Shared {
    pub(crate) environment: Environment,
    pub(crate) now_ms: u64,
    pub(crate) inbound: Vec<InboundRecord>,
    /// How many of the inbound records are on the log so far.
    pub(crate) posted: usize,
    /// Records below this offset are no longer retained.
    pub(crate) inbound_start: i64,
    pub(crate) broker: Broker,
    pub(crate) dead_letters: Vec<(i64, Reason)>,
    /// Values of `chat.snapshots`.
    pub(crate) snapshots: Vec<Vec<u8>>,
    /// Every snapshot that a process wrote.
    pub(crate) taken: Vec<SequencerSnapshot>,
    /// The consumer group's offset, which is for lag only.
    pub(crate) committed: i64,
    covered: i64,
    /// The length of the log for which `covered` holds.
    covered_at: usize,
}

impl Shared {
    pub(crate) fn new(environment: Environment, inbound: Vec<InboundRecord>) -> Self {
        Self {
            environment,
            now_ms: 0,
            inbound,
            posted: 0,
            inbound_start: 0,
            broker: Broker::default(),
            dead_letters: Vec::new(),
            snapshots: Vec::new(),
            taken: Vec::new(),
            committed: 0,
            covered: -1,
            covered_at: 0,
        }
    }

    /// The highest inbound offset that the log covers so far.
    pub(crate) fn covered(&mut self) -> i64 {
        let log = &self.broker.log;
        self.covered = self
            .covered
            .max(highest_source_offset(&log[self.covered_at..]));
        self.covered_at = log.len();
        self.covered
    }
}

/// The highest inbound offset among the sources of the log's records; −1 for an empty log.
pub(crate) fn highest_source_offset(log: &[LogRecord]) -> i64 {
    let events = log
        .iter()
        .flat_map(|record| Event::parse(&record.value, record.ts));
    events
        .map(|event| event.src.offset.offset)
        .max()
        .unwrap_or(-1)
}

//! The outbox: outputs that are decided and not yet acknowledged, in order (PROTOCOL S6, S7).
//!
//! A producer id that the broker does not know, or has forgotten, may start at any sequence number. If several batches were in flight, the
//! first could be refused and the second accepted, and the first would be lost. So whenever nothing is in flight, exactly one record is
//! sent, which is one batch. Its acknowledgement opens the window for the others. The window closes when nothing is in flight.

use std::collections::{BTreeMap, VecDeque};

use schemas::event::{Event, Source};

use super::{DeadLetter, HaltReason, OutputId, ShellConfig, ShellEffects};

enum Output {
    Append(Event),
    DeadLetter(DeadLetter),
}

struct Waiting {
    id: OutputId,
    bytes: usize,
    output: Output,
}

struct Appending {
    id: OutputId,
    bytes: usize,
    src: Source,
}

pub(super) struct Outbox {
    config: ShellConfig,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    appending: VecDeque<Appending>,
    appending_bytes: usize,
    /// Dead-letter records in flight, each with its inbound offset and its size.
    dead_letters: BTreeMap<OutputId, (i64, usize)>,
    dead_letter_bytes: usize,
    window_is_open: bool,
    next_id: u64,
}

impl Outbox {
    pub(super) fn new(config: ShellConfig) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            appending: VecDeque::new(),
            appending_bytes: 0,
            dead_letters: BTreeMap::new(),
            dead_letter_bytes: 0,
            window_is_open: false,
            next_id: 0,
        }
    }

    /// Queues an event.
    pub(super) fn push_event(&mut self, event: Event) -> OutputId {
        let bytes = RECORD_BYTES + event.body.extra_bytes();
        self.push(bytes, Output::Append(event))
    }

    /// Queues a dead-letter record.
    pub(super) fn push_dead_letter(&mut self, letter: DeadLetter) {
        let bytes = dead_letter_bytes(&letter);
        self.push(bytes, Output::DeadLetter(letter));
    }

    /// Sends as many outputs as may be in flight.
    pub(super) fn send(&mut self, effects: &mut impl ShellEffects) {
        while let Some(next) = self.waiting.front() {
            let may_go = match next.output {
                Output::Append(_) => self.may_append(),
                Output::DeadLetter(_) => {
                    self.dead_letters.len() < self.config.max_dead_letters_in_flight
                        && self.dead_letter_bytes < self.config.max_in_flight_bytes
                }
            };
            let Some(next) = may_go.then(|| self.waiting.pop_front()).flatten() else {
                break;
            };
            self.waiting_bytes -= next.bytes;
            self.dispatch(next, effects);
        }
        if self.appending.is_empty() {
            self.window_is_open = false;
        }
    }

    /// The oldest append in flight was acknowledged. Returns its source.
    pub(super) fn appended(&mut self, id: OutputId) -> Result<Source, HaltReason> {
        let expected = self.appending.front().map(|oldest| oldest.id);
        match self.appending.pop_front() {
            Some(oldest) if oldest.id == id => {
                self.appending_bytes -= oldest.bytes;
                self.window_is_open = true;
                Ok(oldest.src)
            }
            _ => Err(HaltReason::ReportOutOfOrder {
                expected,
                reported: id,
            }),
        }
    }

    /// A dead-letter record was acknowledged.
    pub(super) fn dead_lettered(&mut self, id: OutputId) {
        let removed = self.dead_letters.remove(&id);
        self.dead_letter_bytes -= removed.map_or(0, |(_, bytes)| bytes);
    }

    /// Whether an event queued earlier is acknowledged.
    pub(super) fn is_appended(&self, id: OutputId) -> bool {
        let in_flight = self.appending.front().map(|oldest| oldest.id);
        let waiting = self.waiting.front().map(|next| next.id);
        in_flight.or(waiting).is_none_or(|oldest| id < oldest)
    }

    /// Whether nothing waits; outputs may be in flight.
    pub(super) fn nothing_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether nothing is in flight; outputs may wait.
    pub(super) fn nothing_in_flight(&self) -> bool {
        self.appending.is_empty() && self.dead_letters.is_empty()
    }

    /// Whether more outputs may be queued.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < self.config.max_waiting_records
            && self.waiting_bytes < self.config.max_waiting_bytes
    }

    /// How many outputs wait or are in flight.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.appending.len() + self.dead_letters.len()
    }

    /// The inbound offset of the oldest output that waits or is in flight.
    pub(super) fn oldest_inbound(&self) -> Option<i64> {
        let waiting = self.waiting.front().map(|next| match &next.output {
            Output::Append(event) => event.src.offset.offset,
            Output::DeadLetter(letter) => letter.record.offset,
        });
        let appending = self.appending.front().map(|next| next.src.offset.offset);
        let letters = self.dead_letters.values();
        let letter = letters.map(|(offset, _)| *offset).min();
        [waiting, appending, letter].into_iter().flatten().min()
    }

    fn push(&mut self, bytes: usize, output: Output) -> OutputId {
        let id = OutputId(self.next_id);
        self.next_id += 1;
        self.waiting_bytes += bytes;
        self.waiting.push_back(Waiting { id, bytes, output });
        id
    }

    fn may_append(&self) -> bool {
        // Later events have a higher source offset: after a restart the dead-lettered record would not be stepped again.
        if !self.dead_letters.is_empty() {
            return false;
        }
        if self.appending.is_empty() {
            return true;
        }
        self.window_is_open
            && self.appending.len() < self.config.max_in_flight_records
            && self.appending_bytes < self.config.max_in_flight_bytes
    }

    fn dispatch(&mut self, next: Waiting, effects: &mut impl ShellEffects) {
        match next.output {
            Output::Append(event) => {
                self.appending_bytes += next.bytes;
                self.appending.push_back(Appending {
                    id: next.id,
                    bytes: next.bytes,
                    src: event.src,
                });
                effects.append(next.id, event);
            }
            Output::DeadLetter(letter) => {
                let place = (letter.record.offset, next.bytes);
                self.dead_letters.insert(next.id, place);
                self.dead_letter_bytes += next.bytes;
                effects.dead_letter(next.id, letter);
            }
        }
    }
}

/// The size of a record without its texts, in memory and on the log.
const RECORD_BYTES: usize = 128;

fn dead_letter_bytes(letter: &DeadLetter) -> usize {
    let record = &letter.record;
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let headers: usize = record
        .headers
        .iter()
        .map(|(name, value)| name.len() + length(value))
        .sum();
    RECORD_BYTES + length(&record.key) + length(&record.value) + headers
}

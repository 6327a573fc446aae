//! Decided outputs on their way out, in order (PROTOCOL S6, S7).
//!
//! A producer id that the broker does not know, or has forgotten, may start at any sequence number: of several batches
//! in flight the first may be refused and the second taken, and then the first is lost. So whenever nothing is in
//! flight exactly one record goes out, which is one batch for certain, and its acknowledgement opens the window for
//! the rest. The window closes as soon as nothing is in flight.

use std::collections::{BTreeMap, VecDeque};

use schemas::event::{Body, Event, Source};

use super::{DeadLetter, HaltReason, Io, ShellConfig, Ticket};
use crate::sabotage::{Rule, dropped};

enum Output {
    Append(Event),
    DeadLetter(DeadLetter),
}

struct Waiting {
    ticket: Ticket,
    bytes: usize,
    output: Output,
}

struct Appending {
    ticket: Ticket,
    bytes: usize,
    src: Source,
}

pub(super) struct Outbox {
    config: ShellConfig,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    appending: VecDeque<Appending>,
    appending_bytes: usize,
    /// With the offset of the record that each is of.
    dead_letters: BTreeMap<Ticket, i64>,
    window_is_open: bool,
    next_ticket: u64,
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
            window_is_open: false,
            next_ticket: 0,
        }
    }

    /// Puts an event last in line.
    pub(super) fn push_event(&mut self, event: Event) -> Ticket {
        let bytes = event_bytes(&event);
        self.push(bytes, Output::Append(event))
    }

    /// Puts an event first in line, which PROTOCOL S8 forbids.
    pub(super) fn sabotaged_push_event(&mut self, event: Event) -> Ticket {
        let ticket = self.push_event(event);
        self.waiting.rotate_right(1);
        ticket
    }

    /// Puts a dead letter last in line.
    pub(super) fn push_dead_letter(&mut self, letter: DeadLetter) {
        let bytes = letter_bytes(&letter);
        self.push(bytes, Output::DeadLetter(letter));
    }

    /// Hands out as much as may go now.
    pub(super) fn send(&mut self, io: &mut impl Io) {
        while let Some(next) = self.waiting.front() {
            let may_go = match next.output {
                Output::Append(_) => self.may_append(),
                Output::DeadLetter(_) => {
                    self.dead_letters.len() < self.config.max_dead_letters_in_flight
                }
            };
            let Some(next) = may_go.then(|| self.waiting.pop_front()).flatten() else {
                break;
            };
            self.waiting_bytes -= next.bytes;
            self.hand_out(next, io);
        }
        if self.appending.is_empty() {
            self.window_is_open = false;
        }
    }

    /// The oldest append in flight was reported; its source.
    pub(super) fn appended(&mut self, ticket: Ticket) -> Result<Source, HaltReason> {
        let expected = self.appending.front().map(|oldest| oldest.ticket);
        match self.appending.pop_front() {
            Some(oldest) if oldest.ticket == ticket => {
                self.appending_bytes -= oldest.bytes;
                self.window_is_open = true;
                Ok(oldest.src)
            }
            _ => Err(HaltReason::ReportOutOfOrder {
                expected,
                reported: ticket,
            }),
        }
    }

    /// A dead letter is on its topic.
    pub(super) fn dead_lettered(&mut self, ticket: Ticket) {
        self.dead_letters.remove(&ticket);
    }

    /// Whether an event put in line before was acknowledged.
    pub(super) fn is_appended(&self, ticket: Ticket) -> bool {
        let in_flight = self.appending.front().map(|oldest| oldest.ticket);
        let waiting = self.waiting.front().map(|next| next.ticket);
        in_flight.or(waiting).is_none_or(|oldest| ticket < oldest)
    }

    /// Nothing waits; things may be in flight.
    pub(super) fn nothing_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Nothing is in flight; things may wait.
    pub(super) fn nothing_in_flight(&self) -> bool {
        self.appending.is_empty() && self.dead_letters.is_empty()
    }

    /// Whether more may be put in line.
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
        let letter = self.dead_letters.values().min().copied();
        [waiting, appending, letter].into_iter().flatten().min()
    }

    fn push(&mut self, bytes: usize, output: Output) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting_bytes += bytes;
        self.waiting.push_back(Waiting {
            ticket,
            bytes,
            output,
        });
        ticket
    }

    fn may_append(&self) -> bool {
        // Whatever follows a dead letter has a higher src: readers would never come back for the letter's record.
        if !self.dead_letters.is_empty() && !dropped(Rule::S7) {
            return false;
        }
        if self.appending.is_empty() {
            return true;
        }
        (self.window_is_open || dropped(Rule::S6Alone))
            && self.appending.len() < self.config.max_in_flight_records
            && self.appending_bytes < self.config.max_in_flight_bytes
    }

    fn hand_out(&mut self, next: Waiting, io: &mut impl Io) {
        match next.output {
            Output::Append(event) => {
                self.appending_bytes += next.bytes;
                self.appending.push_back(Appending {
                    ticket: next.ticket,
                    bytes: next.bytes,
                    src: event.src,
                });
                io.append(next.ticket, event);
            }
            Output::DeadLetter(letter) => {
                self.dead_letters.insert(next.ticket, letter.record.offset);
                io.dead_letter(next.ticket, letter);
            }
        }
    }
}

/// What a record costs besides its texts, in memory and on the log.
const RECORD_BYTES: usize = 128;

fn event_bytes(event: &Event) -> usize {
    let texts = match &event.body {
        Body::Message(message) => message.msg.len() + message.client_msg_id.as_str().len(),
        Body::ReadPosition(_) | Body::Control(_) | Body::Progress => 0,
    };
    RECORD_BYTES + texts
}

fn letter_bytes(letter: &DeadLetter) -> usize {
    let record = &letter.record;
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let headers: usize = record
        .headers
        .iter()
        .map(|(name, value)| name.len() + length(value))
        .sum();
    RECORD_BYTES + length(&record.key) + length(&record.value) + headers
}

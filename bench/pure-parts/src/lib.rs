#![doc = include_str!("../README.md")]

mod traffic;

use std::hint::black_box;

use projection::{EventBatch, LogEvent};
use schemas::{
    LogPosition, NextOffset, Partition,
    command::Command,
    event::{Body, Event, SourceOffset},
};
use sequencer::core::{Decision, Inbound, State, step};

/// Something that is done once for each of [`COUNT`] messages.
pub struct Part {
    /// The name of what is done, for people and files.
    pub name: &'static str,
    work: Box<dyn FnMut()>,
}

/// How many messages one run of a part processes.
pub const COUNT: usize = 5_000;

/// How often a part is run at most to count its instructions. The first run is taken off, and five are left so that chance (the seeds of hash tables)
/// evens out.
pub const MOST_RUNS: usize = 6;

/// All messages are in this partition, as they are for a worker that processes one partition.
const PARTITION: i64 = 7;

impl Part {
    /// Does the work once for each message.
    pub fn run(&mut self) {
        (self.work)();
    }

    /// All parts, with their inputs.
    ///
    /// # Panics
    /// The generated traffic is refused.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let sends = traffic::sends(PARTITION, COUNT);
        let texts: Vec<String> = sends.iter().map(|send| send.msg.clone()).collect();
        let filter = traffic::word_filter();
        let ndjson = traffic::ndjson(&sends);
        let protobuf = traffic::protobuf(&sends);
        let commands: Vec<Command> = sends.into_iter().map(Command::Send).collect();
        let inbound = encoded(commands);
        let events = stepped(newest_rules(), &inbound);
        let (mut small, mut large) = (InGroup::of(10), InGroup::of(100_000));
        let values: Vec<Vec<u8>> = events.iter().cloned().map(Event::encode).collect();
        let batch = batch(&events);
        let of_batch = batch.clone();
        let contacts = mysql_sinks::measured::Contacts::new();
        let rows = contacts.fold(&batch);
        assert!(rows > 0, "messages make rows of contacts");
        vec![
            Self::new("parse-ndjson", move || ingest::measured::ndjson(&ndjson)),
            Self::new("parse-protobuf", move || {
                ingest::measured::protobuf(&protobuf)
            }),
            Self::new("check-words", move || traffic::clean(&filter, &texts)),
            Self::new("step", move || stepped(newest_rules(), &inbound).len()),
            Self::new("step-group-of-10", move || small.step()),
            Self::new("step-group-of-100000", move || large.step()),
            // Encoding consumes an event, so the cost of a copy of each event is included.
            Self::new("encode-event", move || {
                let mut value = Vec::new();
                let encoded = events.iter().cloned().map(|event| {
                    value.clear();
                    event.encode_to(&mut value);
                    // 1 for each event, which has bytes.
                    black_box(&value).len().min(1)
                });
                encoded.sum()
            }),
            Self::new("read-event", move || {
                let ts = traffic::TS;
                let read = values
                    .iter()
                    .map(|value| Event::read(partition(), value, ts));
                read.filter(|read| black_box(read).is_ok()).count()
            }),
            Self::new("fold-unread", move || {
                projector_unread::measured::fold(&batch)
            }),
            Self::new("fold-contacts", move || {
                // Messages of a conversation share a row. As many rows as at first stand for all messages.
                usize::from(contacts.fold(&of_batch) == rows) * COUNT
            }),
        ]
    }

    /// `work` returns for how many messages it did something, which has to be [`COUNT`].
    fn new(name: &'static str, mut work: impl FnMut() -> usize + 'static) -> Self {
        let work = move || {
            let done = work();
            assert_eq!(done, COUNT, "{name} has to do something for each message");
        };
        Self {
            name,
            work: Box::new(work),
        }
    }
}

fn partition() -> Partition {
    Partition::try_from(PARTITION).expect("a partition")
}

fn encoded(commands: Vec<Command>) -> Vec<Vec<u8>> {
    commands.into_iter().map(Command::encode).collect()
}

/// A state with nothing but the newest rules.
fn newest_rules() -> State {
    let mut state = State::default();
    state.apply(&Event {
        src: traffic::source(0),
        ts: traffic::TS,
        body: Body::Control(traffic::newest_rules()),
        command: None,
        words: None,
    });
    state
}

/// The same with the group that messages are sent to.
fn state_with_group(members: i64) -> State {
    let mut state = newest_rules();
    for event in stepped(state.clone(), &encoded(traffic::group(PARTITION, members))) {
        state.apply(&event);
    }
    state
}

/// Messages to a group whose state goes on from one run to the next: a copy of the state of a large group takes longer than the messages.
struct InGroup {
    begin: State,
    state: State,
    inbound: Vec<Vec<u8>>,
    done: usize,
}

impl InGroup {
    /// The state begins anew after [`MOST_RUNS`], so that no count has the copy of it.
    fn of(members: i64) -> Self {
        let begin = state_with_group(members);
        let sends = traffic::sends_to_group(PARTITION, MOST_RUNS * COUNT);
        Self {
            state: begin.clone(),
            begin,
            inbound: encoded(sends),
            done: 0,
        }
    }

    fn step(&mut self) -> usize {
        if self.done == self.inbound.len() {
            (self.state, self.done) = (self.begin.clone(), 0);
        }
        let inbound = &self.inbound[self.done..][..COUNT];
        let events = step_all(&mut self.state, self.done, inbound);
        self.done += COUNT;
        events.len()
    }
}

/// The events that the sequencer makes of these records.
fn stepped(mut state: State, inbound: &[Vec<u8>]) -> Vec<Event> {
    step_all(&mut state, 0, inbound)
}

/// As [`stepped`], for records that come after `done` others in the same state.
fn step_all(state: &mut State, done: usize, inbound: &[Vec<u8>]) -> Vec<Event> {
    let mut events = Vec::with_capacity(inbound.len());
    for (offset, value) in (done as i64 + 1..).zip(inbound) {
        let src = traffic::source(offset);
        let ts = traffic::TS;
        let inbound = Inbound { src, ts, value };
        let Decision::Emit(event) = step(state, partition(), &inbound) else {
            panic!("record {offset} is no message");
        };
        state.apply(&event);
        events.push(event);
    }
    events
}

fn batch(events: &[Event]) -> EventBatch {
    let numbered = (0..).zip(events.iter().cloned());
    let events: Vec<LogEvent> = numbered
        .map(|(offset, event)| LogEvent { offset, event })
        .collect();
    let next = NextOffset::new(events.len() as i64);
    let watermark = SourceOffset::START;
    EventBatch {
        partition: partition(),
        end: LogPosition { next, watermark },
        events,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_does_its_work() {
        for mut part in Part::all() {
            part.run();
        }
    }
}

//! A log for tests, of which each record is decided as it is appended.

use schemas::{
    Partition, TimestampMs,
    command::{Command, Control, InboundValue},
    event::{Source, SourceOffset},
};

use super::{Decision, Inbound, State, step};

/// A partition's state, and the log that it follows from.
pub(super) struct TestLog {
    pub(super) state: State,
    /// The log time of the next record, ms.
    pub(super) now: i64,
    partition: Partition,
    pub(super) offset: i64,
}

impl TestLog {
    /// A log whose first record has these rules, and some key for hashes.
    pub(super) fn new(partition: Partition, now: i64, control: Control) -> Self {
        let mut log = Self {
            state: State::default(),
            now,
            partition,
            offset: 0,
        };
        log.applied(Command::Control(Control {
            hash_key: Some(vec![7; 16]),
            ..control
        }));
        log
    }

    /// Appends a command with this id, which may be empty, and applies what is decided.
    pub(super) fn post(&mut self, command: Command, id: &str) -> Decision {
        let partition = command.partition().unwrap_or(self.partition);
        let value = InboundValue {
            id: id.to_owned(),
            ..command.into()
        };
        self.offset += 1;
        let offset = SourceOffset {
            epoch: 0,
            offset: self.offset,
        };
        let inbound = Inbound {
            src: Source {
                offset,
                leader_epoch: 0,
            },
            ts: TimestampMs(self.now),
            value: &value.encode(),
        };
        let decision = step(&self.state, partition, &inbound);
        if let Decision::Emit(event) = &decision {
            self.state.apply(event);
        }
        decision
    }

    /// Appends a command without an id, which has an effect.
    pub(super) fn applied(&mut self, command: Command) {
        let decision = self.post(command, "");
        assert!(matches!(decision, Decision::Emit(_)), "{decision:?}");
    }
}

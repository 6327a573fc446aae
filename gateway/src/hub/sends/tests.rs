use std::sync::Arc;

use schemas::{
    DeviceClass, InboundPosition, NextOffset, OffsetRange, Partition, PartitionMap, Recipient,
    dead_letter::Reason,
    event::{Body, SourceOffset},
};
use serde_json::{Value, json};

use crate::hub::{
    Connection, DeviceOf, Hub, HubLimits, Next, Outcome, Outgoing, PostedSend, Refusal,
    test_events::{event, message_body, uid},
};

const P: Partition = Partition::FIRST;

struct Gateway {
    hub: Hub,
    connection: Arc<Connection>,
}

impl Gateway {
    fn new() -> Self {
        let limits = HubLimits {
            ring_ms: 1_000,
            ring_bytes: 1 << 20,
            ring_bytes_of_account: 1 << 20,
            turn: 1_000,
            max_devices: 1,
            dead_letters_ms: 100,
        };
        let device = DeviceOf {
            uid: uid(1),
            id: "a".to_owned().try_into().unwrap(),
            class: DeviceClass::Pc,
        };
        Self {
            hub: Hub::new(limits, 0, &PartitionMap::new()),
            connection: Arc::new(Connection::new(device, 0, 10_000)),
        }
    }

    /// The user 1 sends a message of this id to user 2, at this offset of `chat.inbound`.
    fn send(&mut self, offset: i64, id: &str) {
        self.send_after(None, offset, id);
    }

    fn send_after(&mut self, decided_before: Option<SourceOffset>, offset: i64, id: &str) {
        self.hub.track(PostedSend {
            at: at(offset),
            connection: Arc::clone(&self.connection),
            reference: offset.to_string(),
            client_msg_id: id.to_owned().try_into().ok(),
            to: Recipient::User(uid(2)),
            decided_before,
        });
    }

    /// The sequencer's event for the record at this offset.
    fn event(&mut self, offset: i64, body: Body) {
        self.hub.apply(event(P, offset, body), 0);
    }

    fn refuse(&mut self, offset: i64, now_ms: u64) {
        let refusal = Refusal {
            reason: Reason::Blocked,
            detail: String::new(),
        };
        self.hub.refuse(at(offset), refusal, now_ms);
        self.hub.read_dead_letters(P, NextOffset::after(offset));
    }

    /// All dead letters are read, as far as they go now.
    fn read_dead_letters(&mut self, end: i64) {
        let without_event = self.hub.sends_without_event();
        let ends = [(P, NextOffset::new(end))].into();
        self.hub.wait_for_dead_letters(&without_event, &ends);
        self.hub.read_dead_letters(P, NextOffset::new(end));
    }

    /// What the device was told: reference, and number or reason.
    fn answers(&self) -> Vec<(String, Value)> {
        let mut answers = Vec::new();
        while let Next::Write(item) = self.connection.next() {
            if let Outgoing::Answer(answer) = item {
                let what = match answer.outcome {
                    Outcome::Sent(message) => json!(message.map(|(mid, _)| mid)),
                    Outcome::Refused(refusal) => refusal.reason.as_str().into(),
                    Outcome::Unknown => "unknown-outcome".into(),
                };
                answers.push((answer.reference, what));
            }
        }
        answers
    }
}

fn at(offset: i64) -> InboundPosition {
    InboundPosition {
        partition: P,
        offset,
    }
}

fn one(reference: &str, what: Value) -> Vec<(String, Value)> {
    vec![(reference.to_owned(), what)]
}

/// A dead letter of a send that waits may be among those that are gone, so no device is told that it is a repeat.
#[test]
fn what_waits_for_dead_letters_that_are_gone_is_not_known() {
    let mut gateway = Gateway::new();
    gateway.hub.read_dead_letters(P, NextOffset::new(3));
    gateway.send(1, "a");
    gateway.event(2, message_body(2, 1, "b", 1));
    let go_on = |gateway: &mut Gateway, start, end| {
        let log = OffsetRange { start, end };
        gateway.hub.lose_dead_letters(P, log).get()
    };
    assert_eq!(go_on(&mut gateway, 5, 8), 5, "what is before was deleted");
    assert_eq!(gateway.answers(), one("1", "unknown-outcome".into()));
    assert_eq!(go_on(&mut gateway, 0, 2), 2, "the log was truncated");
    gateway.send(3, "c");
    gateway.refuse(3, 0);
    assert_eq!(gateway.answers(), one("3", "blocked".into()));
}

#[test]
fn what_a_new_inbound_topic_has_is_not_answered_as_of_the_old_one() {
    let mut gateway = Gateway::new();
    gateway.event(7, message_body(1, 2, "x", 3));
    gateway.event(9, Body::Progress);
    let decided = gateway.hub.decided(P);
    gateway.send_after(decided, 7, "y");
    assert_eq!(gateway.answers(), one("7", json!("unknown-outcome")));
    // The send no longer waits.
    gateway.read_dead_letters(10);
    assert_eq!(gateway.answers(), []);
    gateway.send_after(decided, 10, "z");
    assert_eq!(gateway.answers(), []);
}

#[test]
fn the_log_may_be_ahead_of_the_append() {
    let mut gateway = Gateway::new();
    gateway.event(7, message_body(1, 2, "x", 3));
    gateway.event(8, Body::Progress);
    gateway.send(7, "x");
    assert_eq!(gateway.answers(), one("7", json!(3)));
    gateway.refuse(9, 0);
    gateway.send(9, "y");
    assert_eq!(gateway.answers(), one("9", json!("blocked")));
}

#[test]
fn a_send_without_an_event_is_a_repeat_only_when_all_dead_letters_are_read() {
    let mut gateway = Gateway::new();
    gateway.event(1, message_body(1, 2, "x", 3));
    gateway.send(5, "x");
    gateway.send(6, "x");
    gateway.read_dead_letters(4);
    assert!(gateway.answers().is_empty(), "not decided yet");
    gateway.event(6, Body::Progress);
    assert!(
        gateway.answers().is_empty(),
        "a dead letter may be on its way"
    );
    let without_event = gateway.hub.sends_without_event();
    assert_eq!(without_event, [at(5), at(6)]);
    let ends = [(P, NextOffset::new(6))].into();
    gateway.hub.wait_for_dead_letters(&without_event, &ends);
    assert!(gateway.answers().is_empty(), "nor are they read so far");
    gateway.refuse(5, 0);
    assert_eq!(
        gateway.answers(),
        [one("5", json!("blocked")), one("6", json!(3))].concat()
    );
    assert_eq!(gateway.connection.sends_under_way(), 0);
}

#[test]
fn a_repeat_has_the_number_of_its_own_conversation() {
    let mut gateway = Gateway::new();
    gateway.event(1, message_body(1, 2, "x", 3));
    // To somebody else in the same partition.
    gateway.event(2, message_body(1, 66, "x", 1));
    gateway.send(5, "x");
    gateway.event(5, Body::Progress);
    gateway.read_dead_letters(0);
    assert_eq!(gateway.answers(), one("5", json!(3)));
}

#[test]
fn only_a_message_is_the_event_of_a_send() {
    let mut gateway = Gateway::new();
    gateway.send(5, "x");
    // Up to here everything is decided.
    gateway.event(5, Body::Progress);
    assert!(gateway.answers().is_empty());
    gateway.read_dead_letters(0);
    assert_eq!(gateway.answers(), one("5", Value::Null));
}

#[test]
fn offsets_of_another_epoch_are_others() {
    let mut gateway = Gateway::new();
    gateway.event(1, Body::Progress);
    gateway.send(5, "x");
    let mut raised = event(P, 2, message_body(2, 1, "z", 1));
    raised.event.src.offset.epoch = 1;
    raised.event.src.offset.offset = 5;
    gateway.hub.apply(raised, 0);
    assert_eq!(gateway.answers(), one("5", json!("unknown-outcome")));
}

#[test]
fn what_nobody_waits_for_is_forgotten() {
    let mut gateway = Gateway::new();
    gateway.refuse(3, 0);
    gateway.hub.drop_old(200);
    gateway.send(3, "x");
    assert!(gateway.answers().is_empty(), "its dead letter is dropped");
    assert_eq!(gateway.connection.sends_under_way(), 1);
    let connection = Arc::clone(&gateway.connection);
    gateway.hub.close(&connection, 0);
    gateway.event(3, message_body(1, 2, "x", 3));
    assert!(gateway.answers().is_empty());
}

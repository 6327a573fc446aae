use schemas::{
    Mid, Ordinal,
    command::{Control, SendMessage},
    event::{Source, SourceOffset},
};

use super::*;

fn record(offset: i64, value: Vec<u8>) -> Record {
    Record {
        partition: Partition::try_from(3).unwrap(),
        offset,
        timestamp: TimestampMs(1_000),
        leader_epoch: 0,
        key: None,
        value: Some(value),
        headers: Vec::new(),
    }
}

fn send(id: &str) -> SendMessage {
    SendMessage {
        srcid: 1.try_into().unwrap(),
        destid: 2.try_into().unwrap(),
        client_msg_id: id.to_owned().try_into().unwrap(),
        msg: "hello".to_owned(),
    }
}

fn message(id: &str, mid: Mid) -> Body {
    let send = send(id);
    Body::Message(Message {
        srcid: send.srcid,
        destid: send.destid,
        client_msg_id: send.client_msg_id,
        msg: send.msg,
        mid,
        n: Ordinal::try_from(mid.get()).unwrap(),
    })
}

fn event(at: i64, (epoch, offset): (u32, i64), body: Body) -> Record {
    let src = Source {
        offset: SourceOffset { epoch, offset },
        leader_epoch: 0,
    };
    let ts = TimestampMs(1_000);
    record(at, Event { src, ts, body }.encode())
}

fn fold(
    events: Vec<Record>,
    inbound: Vec<Record>,
    dead_lettered_events: BTreeSet<i64>,
) -> FoldedPartition {
    let input = PartitionInput {
        partition: Partition::try_from(3).unwrap(),
        scope: Scope::All,
        events_topic: "chat.events".to_owned(),
        inbound_topic: "chat.inbound".to_owned(),
        events_start: 0,
        inbound: 0..i64::try_from(inbound.len()).unwrap(),
        dead_lettered_inbound: BTreeSet::new(),
        dead_lettered_events,
        examples: 10,
    };
    let open = move || Box::new(inbound.clone().into_iter().map(Ok)) as Records;
    PartitionFold::new(&input, &open)
        .run(events.into_iter().map(Ok))
        .unwrap()
}

#[test]
fn inbound_that_began_anew_answers_to_the_new_epoch_only() {
    let (one, two) = (Mid::ZERO.next(), Mid::ZERO.next().next());
    let events = vec![
        event(0, (0, 5), message("a", one)),
        event(1, (1, -1), Body::Progress),
        event(2, (1, 0), message("b", two)),
        // A former owner of the old epoch wakes up.
        event(3, (0, 6), message("c", two.next())),
    ];
    let inbound = vec![record(0, Command::Send(send("b")).encode())];
    let folded = fold(events, inbound, BTreeSet::new());
    assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
    assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
    assert_eq!((folded.account.sequenced, folded.account.pending), (1, 0));
    assert_eq!((folded.repeated, folded.messages.digests.len()), (1, 2));
}

#[test]
fn what_is_no_event_has_to_be_in_the_dead_letters() {
    let junk = || vec![record(0, b"junk".to_vec())];
    let found = fold(junk(), Vec::new(), BTreeSet::new());
    assert_eq!(found.events.different, 1);
    let dead_lettered_events = fold(junk(), Vec::new(), BTreeSet::from([0]));
    assert_eq!(dead_lettered_events.events.differences(), 0);
}

#[test]
fn an_epoch_that_goes_on_with_the_same_log_keeps_what_was_matched() {
    let one = Mid::ZERO.next();
    let events = vec![
        event(0, (0, 0), Body::Control(Rules::VERSION_1)),
        event(1, (0, 1), message("a", one)),
        event(2, (1, 1), Body::Progress),
        event(3, (2, 1), Body::Progress),
        event(4, (2, 2), message("b", one.next())),
    ];
    let inbound = vec![
        record(
            0,
            Command::Control(Control {
                rule_version: None,
                dedup_window_ms: None,
                dedup_max_entries: None,
                max_msg_bytes: None,
            })
            .encode(),
        ),
        record(1, Command::Send(send("a")).encode()),
        record(2, Command::Send(send("b")).encode()),
    ];
    let folded = fold(events, inbound, BTreeSet::new());
    assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
    assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
    assert_eq!((folded.account.sequenced, folded.account.repeats), (3, 0));
}

#[test]
fn a_log_that_lost_its_end_answers_for_what_is_left_and_what_came_since() {
    let (one, two, three) = (Mid::ZERO.next(), Mid::ZERO.next().next(), mid(3));
    let events = vec![
        event(0, (0, 0), message("a", one)),
        event(1, (0, 1), message("lost", two)),
        event(2, (1, 0), Body::Progress),
        event(3, (1, 1), message("c", three)),
    ];
    let inbound = vec![
        record(0, Command::Send(send("a")).encode()),
        record(1, Command::Send(send("c")).encode()),
    ];
    let folded = fold(events, inbound, BTreeSet::new());
    assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
    assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
    assert_eq!((folded.account.sequenced, folded.account.repeats), (2, 0));
}

#[test]
fn a_record_that_is_sequenced_in_two_epochs_is_found() {
    let no_window = Rules {
        dedup_window_ms: 0,
        ..Rules::VERSION_1
    };
    let control = Control {
        dedup_window_ms: Some(0),
        ..Control::default()
    };
    let late = |at, src, body| {
        let mut later = event(at, src, body);
        later.timestamp = TimestampMs(2_000);
        later
    };
    let events = vec![
        event(0, (0, 0), Body::Control(no_window)),
        event(1, (0, 1), message("a", Mid::ZERO.next())),
        late(2, (1, 0), Body::Progress),
        late(3, (1, 1), message("a", mid(2))),
    ];
    let inbound = vec![
        record(0, Command::Control(control).encode()),
        record(1, Command::Send(send("a")).encode()),
    ];
    let folded = fold(events, inbound, BTreeSet::new());
    assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
    assert_eq!(folded.inbound.extra, 1, "{:?}", folded.inbound);
    assert_eq!(folded.inbound.differences(), 1);
}

fn mid(mid: i64) -> Mid {
    mid.try_into().unwrap()
}

/// A message in the partition of another conversation.
fn misplaced() -> Body {
    let Body::Message(mut message) = message("m", Mid::ZERO.next()) else {
        unreachable!("it is a message");
    };
    message.destid = 3.try_into().unwrap();
    Body::Message(message)
}

#[test]
fn an_event_in_another_partition_is_found_and_passed_over() {
    let events = || {
        vec![
            event(0, (0, 9), misplaced()),
            event(1, (0, 0), message("a", Mid::ZERO.next())),
        ]
    };
    let inbound = || vec![record(0, Command::Send(send("a")).encode())];
    let folded = fold(events(), inbound(), BTreeSet::new());
    assert_eq!(
        (folded.events.different, folded.events.differences()),
        (1, 1)
    );
    assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
    assert_eq!((folded.account.sequenced, folded.account.pending), (1, 0));
    assert_eq!((folded.repeated, folded.messages.digests.len()), (0, 1));
    // Projections put it into the dead letters, as they do with what is no event.
    let dead_lettered_events = fold(events(), inbound(), BTreeSet::from([0]));
    assert_eq!(
        dead_lettered_events.events.differences(),
        0,
        "{:?}",
        dead_lettered_events.events
    );
}

#[test]
fn a_younger_record_in_the_place_of_its_cause_is_found() {
    let mut younger = record(0, Command::Send(send("a")).encode());
    younger.timestamp = TimestampMs(1_001);
    let events = vec![event(0, (0, 0), message("a", Mid::ZERO.next()))];
    let folded = fold(events, vec![younger], BTreeSet::new());
    assert_eq!(folded.inbound.different, 1, "{:?}", folded.inbound);
    let finding = &folded.inbound.examples[0];
    assert!(finding.what.contains("younger"), "{finding:?}");
}

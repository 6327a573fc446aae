use schemas::{
    DeviceClass, Mid, Ordinal, Recipient,
    command::{Control, ReadAck, SendMessage},
    event::{KNOWN_RULE_VERSION, Message, ReadPosition, Source, SourceOffset, UnknownRules},
};

use super::*;
use crate::fold::in_memory;

mod changes;
mod groups;
mod once;

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
        by_user: false,
        srcid: 1.try_into().unwrap(),
        to: Recipient::User(2.try_into().unwrap()),
        client_msg_id: id.to_owned().try_into().unwrap(),
        msg: "hello".to_owned(),
    }
}

fn message(id: &str, mid: Mid) -> Body {
    let send = send(id);
    Body::Message(Message {
        srcid: send.srcid,
        to: send.to,
        client_msg_id: send.client_msg_id,
        msg: send.msg,
        mid,
        ordinal: Ordinal::try_from(mid.get()).unwrap(),
    })
}

fn event(at: i64, (epoch, offset): (u32, i64), body: Body) -> Record {
    let src = Source {
        offset: SourceOffset { epoch, offset },
        leader_epoch: 0,
    };
    let ts = TimestampMs(1_000);
    record(
        at,
        Event {
            src,
            ts,
            body,
            command: None,
            words: None,
        }
        .encode(),
    )
}

/// The dead letters of records.
fn refused(originals: &[(&Record, Reason)]) -> OfPartition {
    let mut dead_letters = OfPartition::default();
    for (original, reason) in originals {
        dead_letters.refuse(original, *reason);
    }
    dead_letters
}

fn fold(events: Vec<Record>, inbound: Vec<Record>) -> FoldedPartition {
    let none = OfPartition::default;
    fold_with(events, inbound, none(), none())
}

fn fold_with(
    events: Vec<Record>,
    inbound: Vec<Record>,
    dead_lettered_inbound: OfPartition,
    dead_lettered_events: OfPartition,
) -> FoldedPartition {
    try_fold(events, inbound, dead_lettered_inbound, dead_lettered_events).unwrap()
}

fn try_fold(
    events: Vec<Record>,
    inbound: Vec<Record>,
    dead_lettered_inbound: OfPartition,
    dead_lettered_events: OfPartition,
) -> Result<FoldedPartition, AuditError> {
    let input = PartitionInput {
        dead_lettered_inbound,
        dead_lettered_events,
        ..input(inbound.len())
    };
    in_memory::fold(&input, &inbound, &events)
}

fn input(inbound: usize) -> PartitionInput {
    PartitionInput {
        partition: Partition::try_from(3).unwrap(),
        scope: Scope::All,
        events_topic: "chat.events".to_owned(),
        inbound_topic: "chat.inbound".to_owned(),
        events_start: 0,
        inbound: 0..i64::try_from(inbound).unwrap(),
        dead_lettered_inbound: OfPartition::default(),
        dead_lettered_events: OfPartition::default(),
        examples: 10,
    }
}

#[test]
fn a_newer_rule_version_ends_the_audit() {
    let newer = Rules {
        rule_version: KNOWN_RULE_VERSION + 1,
        ..Rules::VERSION_1
    };
    let events = vec![
        event(0, (0, 0), message("a", Mid::ZERO.next())),
        event(1, (0, 1), Body::Control(newer)),
    ];
    // Even if an older projection dead-lettered it.
    let dead_letters = refused(&[(&events[1], Reason::Malformed)]);
    let ended = try_fold(events, Vec::new(), OfPartition::default(), dead_letters);
    let unknown = UnknownRules::Version(KNOWN_RULE_VERSION + 1);
    assert!(matches!(
        ended,
        Err(AuditError::UnknownRules { offset: 1, unknown: found, .. }) if found == unknown
    ));
}

#[test]
fn inbound_that_began_anew_answers_to_the_new_epoch_only() {
    let (one, two) = (Mid::ZERO.next(), Mid::ZERO.next().next());
    let events = vec![
        event(0, (0, 5), message("a", one)),
        event(1, (1, -1), Body::Progress),
        event(2, (1, 0), message("b", two)),
        // A former owner of the old epoch resumes.
        event(3, (0, 6), message("c", two.next())),
    ];
    let inbound = vec![record(0, Command::Send(send("b")).encode())];
    let folded = fold(events, inbound);
    assert_eq!(folded.events.differences(), 0, "{:?}", folded.events);
    assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
    assert_eq!((folded.account.sequenced, folded.account.pending), (1, 0));
    assert_eq!((folded.repeated, folded.messages.digests.len()), (1, 2));
}

#[test]
fn what_is_no_event_has_to_be_in_the_dead_letters() {
    let junk = record(0, b"junk".to_vec());
    let found = fold(vec![junk.clone()], Vec::new());
    assert_eq!(found.events.different, 1);
    let dead_lettered = refused(&[(&junk, Reason::Malformed)]);
    let found = fold_with(
        vec![junk],
        Vec::new(),
        OfPartition::default(),
        dead_lettered,
    );
    assert_eq!(found.events.differences(), 0);
}

#[test]
fn what_is_an_event_must_not_be_in_the_dead_letters() {
    let whole = event(0, (0, 0), message("a", mid(1)));
    let dead_lettered = refused(&[(&whole, Reason::Malformed)]);
    let found = fold_with(
        vec![whole],
        Vec::new(),
        OfPartition::default(),
        dead_lettered,
    );
    assert_eq!(found.events.different, 1, "{:?}", found.events);
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
        record(0, Command::Control(Control::default()).encode()),
        record(1, Command::Send(send("a")).encode()),
        record(2, Command::Send(send("b")).encode()),
    ];
    let folded = fold(events, inbound);
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
    let folded = fold(events, inbound);
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
    let folded = fold(events, inbound);
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
    message.to = Recipient::User(3.try_into().unwrap());
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
    let folded = fold(events(), inbound());
    assert_eq!(
        (folded.events.different, folded.events.differences()),
        (1, 1)
    );
    assert_eq!(folded.inbound.differences(), 0, "{:?}", folded.inbound);
    assert_eq!((folded.account.sequenced, folded.account.pending), (1, 0));
    assert_eq!((folded.repeated, folded.messages.digests.len()), (0, 1));
    // Projections dead-letter it, as they do with a value that is not an event.
    let dead_lettered = refused(&[(&events()[0], Reason::WrongPartition)]);
    let found = fold_with(events(), inbound(), OfPartition::default(), dead_lettered);
    assert_eq!(found.events.differences(), 0, "{:?}", found.events);
}

#[test]
fn a_younger_record_in_the_place_of_its_cause_is_found() {
    let mut younger = record(0, Command::Send(send("a")).encode());
    younger.timestamp = TimestampMs(1_001);
    let events = vec![event(0, (0, 0), message("a", Mid::ZERO.next()))];
    let folded = fold(events, vec![younger]);
    assert_eq!(folded.inbound.different, 1, "{:?}", folded.inbound);
    let finding = &folded.inbound.examples[0];
    assert!(finding.what.contains("younger"), "{finding:?}");
}

/// Every kind of refused record, under rules in force from the first record on, and the right reasons.
fn refusable() -> (Vec<Record>, Vec<Record>, Vec<(Record, Reason)>) {
    let control = Control {
        max_msg_bytes: Some(5),
        ..Control::default()
    };
    let five_bytes = Rules {
        max_msg_bytes: 5,
        ..Rules::VERSION_1
    };
    let endless = Control {
        dedup_window_ms: Some(i64::MAX),
        ..Control::default()
    };
    let other_text = SendMessage {
        msg: "other".to_owned(),
        ..send("a")
    };
    let six_bytes = SendMessage {
        msg: "longer".to_owned(),
        ..send("long")
    };
    let elsewhere = SendMessage {
        to: Recipient::User(3.try_into().unwrap()),
        ..send("elsewhere")
    };
    let ack_elsewhere = ReadAck {
        uid: 1.try_into().unwrap(),
        to: Recipient::User(3.try_into().unwrap()),
        device: DeviceClass::Pc,
        mid: None,
    };
    let refusable = [
        (b"junk".to_vec(), Reason::Malformed),
        (Command::Send(elsewhere).encode(), Reason::WrongPartition),
        (
            Command::ReadAck(ack_elsewhere).encode(),
            Reason::WrongPartition,
        ),
        (Command::Send(other_text).encode(), Reason::Conflict),
        (Command::Send(six_bytes).encode(), Reason::TooLarge),
        (Command::Control(endless).encode(), Reason::InvalidControl),
    ];
    let refusable: Vec<(Record, Reason)> = (2..)
        .zip(refusable)
        .map(|(offset, (value, reason))| (record(offset, value), reason))
        .collect();
    let mut inbound = vec![
        record(0, Command::Control(control).encode()),
        record(1, Command::Send(send("a")).encode()),
    ];
    inbound.extend(refusable.iter().map(|(record, _)| record.clone()));
    let last = inbound.len() as i64 - 1;
    let events = vec![
        event(0, (0, 0), Body::Control(five_bytes)),
        event(1, (0, 1), message("a", mid(1))),
        event(2, (0, last), Body::Progress),
    ];
    (events, inbound, refusable)
}

fn fold_refusing(
    events: Vec<Record>,
    inbound: Vec<Record>,
    letters: &[(&Record, Reason)],
) -> FoldedPartition {
    fold_with(events, inbound, refused(letters), OfPartition::default())
}

#[test]
fn a_refusal_needs_a_dead_letter_with_the_right_reason() {
    let (events, inbound, refusable) = refusable();
    let letters: Vec<_> = refusable
        .iter()
        .map(|(record, why)| (record, *why))
        .collect();
    let right = fold_refusing(events.clone(), inbound.clone(), &letters);
    assert_eq!(right.inbound.differences(), 0, "{:?}", right.inbound);
    assert_eq!(right.account.dead_letters, 6);

    for left_out in 0..letters.len() {
        let mut fewer = letters.clone();
        let (_, why) = fewer.remove(left_out);
        let found = fold_refusing(events.clone(), inbound.clone(), &fewer).inbound;
        assert_eq!((found.missing, found.differences()), (1, 1), "{found:?}");
        assert!(found.examples[0].what.contains(why.as_str()), "{found:?}");
    }
    for changed in 0..letters.len() {
        let mut wrong = letters.clone();
        wrong[changed].1 = match wrong[changed].1 {
            Reason::Malformed => Reason::TooLarge,
            _ => Reason::Malformed,
        };
        let found = fold_refusing(events.clone(), inbound.clone(), &wrong).inbound;
        assert_eq!((found.different, found.differences()), (1, 1), "{found:?}");
    }
}

/// Retention deletes dead letters, and with them the proof that older records were refused or skipped.
#[test]
fn a_dead_letter_that_may_be_deleted_is_not_missing() {
    let deleted_before = |time| {
        let mut letters = OfPartition::default();
        letters.begins = Some(TimestampMs(time));
        letters
    };
    for (begins, differences) in [(1_001, 0), (1_000, 6)] {
        let (events, inbound, _) = refusable();
        let found = fold_with(
            events,
            inbound,
            deleted_before(begins),
            OfPartition::default(),
        );
        assert_eq!(
            found.inbound.differences(),
            differences,
            "{:?}",
            found.inbound
        );
    }
    // The time of a junk record does not matter: the event before it decides.
    for (begins, differences) in [(1_001, 0), (1_000, 1)] {
        for time in [-1, 1_000, i64::MAX] {
            let mut junk = record(1, b"junk".to_vec());
            junk.timestamp = TimestampMs(time);
            let events = vec![event(0, (0, 0), message("a", mid(1))), junk];
            let letters = deleted_before(begins);
            let found = fold_with(events, Vec::new(), OfPartition::default(), letters);
            assert_eq!(found.events.differences(), differences, "{time}");
        }
    }
}

#[test]
fn what_is_not_to_be_refused_must_have_no_dead_letter() {
    let nothing_to_read = ReadAck {
        uid: 1.try_into().unwrap(),
        to: Recipient::User(2.try_into().unwrap()),
        device: DeviceClass::Pc,
        mid: Some(mid(1)),
    };
    let values = [
        Command::ReadAck(nothing_to_read),
        Command::Send(send("a")),
        Command::Send(send("a")),
        Command::Send(send("refused")),
    ];
    let inbound: Vec<Record> = (0..)
        .zip(values)
        .map(|(offset, command)| record(offset, command.encode()))
        .collect();
    let events = vec![
        event(0, (0, 1), message("a", mid(1))),
        event(1, (0, 3), Body::Progress),
    ];
    let letters: Vec<_> = inbound
        .iter()
        .map(|record| (record, Reason::TooLarge))
        .collect();
    let found = fold_refusing(events, inbound.clone(), &letters).inbound;
    // The second record is sequenced as well.
    assert_eq!((found.extra, found.different), (3, 1), "{found:?}");
    assert_eq!(found.differences(), 4);
}

/// An owner that starts again may append a dead letter twice, but the log gives no other reason.
#[test]
fn every_dead_letter_of_a_record_needs_the_right_reason() {
    let junk = record(0, b"junk".to_vec());
    let events = || vec![event(0, (0, 0), Body::Progress)];
    let (right, wrong) = (Reason::Malformed, Reason::TooLarge);
    for (reasons, different) in [
        ([right, right], 0),
        ([wrong, right], 1),
        ([right, wrong], 1),
    ] {
        let letters = reasons.map(|reason| (&junk, reason));
        let found = fold_refusing(events(), vec![junk.clone()], &letters);
        let inbound = found.inbound;
        assert_eq!(
            (inbound.different, inbound.differences()),
            (different, different),
            "{reasons:?}: {inbound:?}"
        );
        assert_eq!(found.account.dead_letters, 1);
    }
}

/// Under the rules of the earlier epoch the record was too large; now it is a conflict.
#[test]
fn a_dead_letter_of_an_earlier_epoch_is_not_judged_by_the_later_one() {
    let four_bytes = Rules {
        max_msg_bytes: 4,
        ..Rules::VERSION_1
    };
    let events = vec![
        event(0, (0, 0), Body::Control(four_bytes)),
        event(1, (0, 2), Body::Progress),
        event(2, (1, -1), Body::Progress),
        event(3, (1, 0), Body::Control(Rules::VERSION_1)),
        event(4, (1, 1), message("a", mid(1))),
        event(5, (1, 2), Body::Progress),
    ];
    let control = Control {
        max_msg_bytes: Some(Rules::VERSION_1.max_msg_bytes),
        ..Control::default()
    };
    let other_text = SendMessage {
        msg: "other".to_owned(),
        ..send("a")
    };
    let inbound = vec![
        record(0, Command::Control(control).encode()),
        record(1, Command::Send(send("a")).encode()),
        record(2, Command::Send(other_text).encode()),
    ];
    let letters = [Reason::TooLarge, Reason::Conflict].map(|reason| (&inbound[2], reason));
    let found = fold_refusing(events, inbound.clone(), &letters).inbound;
    assert_eq!(found.differences(), 0, "{found:?}");
}

#[test]
fn what_is_to_be_refused_must_not_be_sequenced() {
    let control = Control {
        max_msg_bytes: Some(4),
        ..Control::default()
    };
    let four_bytes = Rules {
        max_msg_bytes: 4,
        ..Rules::VERSION_1
    };
    let events = vec![
        event(0, (0, 0), Body::Control(four_bytes)),
        event(1, (0, 1), message("a", mid(1))),
    ];
    let inbound = vec![
        record(0, Command::Control(control).encode()),
        record(1, Command::Send(send("a")).encode()),
    ];
    let found = fold(events, inbound).inbound;
    assert_eq!((found.different, found.differences()), (1, 1), "{found:?}");
    assert!(found.examples[0].what.contains("too-large"), "{found:?}");
}

#[test]
fn a_dead_letter_of_a_record_that_is_gone_is_not_that_of_its_successor() {
    let gone = record(0, b"junk".to_vec());
    let events = vec![
        event(0, (0, 0), Body::Progress),
        event(1, (1, -1), Body::Progress),
        event(2, (1, 0), message("a", mid(1))),
    ];
    let inbound = vec![record(0, Command::Send(send("a")).encode())];
    let found = fold_refusing(events, inbound, &[(&gone, Reason::Malformed)]).inbound;
    assert_eq!(found.differences(), 0, "{found:?}");
}

#[test]
fn rule_version_2_begins_with_a_key_and_does_not_end() {
    let version_2 = Rules {
        rule_version: 2,
        hash_key: Some([7; 16].into()),
        dedup_max_per_sender: 100_000,
        new_conversations_per_day: 20,
        ..Rules::VERSION_1
    };
    let control = |version: u32, key: Option<Vec<u8>>| {
        Command::Control(Control {
            rule_version: Some(version),
            hash_key: key,
            ..Control::default()
        })
    };
    let values = [
        control(2, None),
        control(2, Some(vec![7; 16])),
        control(1, None),
        control(2, Some(vec![8; 16])),
    ];
    let inbound: Vec<Record> = (0..)
        .zip(values)
        .map(|(offset, command)| record(offset, command.encode()))
        .collect();
    let events = vec![
        event(0, (0, 1), Body::Control(version_2)),
        event(1, (0, 3), Body::Progress),
    ];
    let refused = [0, 2, 3].map(|offset: usize| (&inbound[offset], Reason::InvalidControl));
    let found = fold_refusing(events, inbound.clone(), &refused);
    assert_eq!(found.inbound.differences(), 0, "{:?}", found.inbound);
    assert_eq!(found.account.unverifiable, 0);
}

#[test]
fn a_user_begins_as_many_conversations_as_the_rules_allow() {
    let rules = Rules {
        rule_version: 2,
        hash_key: Some([7; 16].into()),
        dedup_max_per_sender: 100_000,
        new_conversations_per_day: 1,
        ..Rules::VERSION_1
    };
    let control = Control {
        rule_version: Some(2),
        hash_key: Some(vec![7; 16]),
        new_conversations_per_day: Some(1),
        ..Control::default()
    };
    let to_stranger = |by_user| {
        let known = send("b");
        Command::Send(SendMessage {
            to: Recipient::User(66.try_into().unwrap()),
            by_user,
            ..known
        })
    };
    let inbound = vec![
        record(0, Command::Control(control).encode()),
        record(1, Command::Send(send("a")).encode()),
        record(2, to_stranger(true).encode()),
        record(3, to_stranger(false).encode()),
    ];
    let Command::Send(stranger) = to_stranger(false) else {
        unreachable!()
    };
    let begins = Body::Message(Message {
        srcid: stranger.srcid,
        to: stranger.to,
        client_msg_id: stranger.client_msg_id,
        msg: stranger.msg,
        mid: mid(1),
        ordinal: Ordinal::ZERO.next(),
    });
    let events = |src| {
        vec![
            event(0, (0, 0), Body::Control(rules)),
            event(1, (0, 1), message("a", mid(1))),
            event(2, (0, src), begins.clone()),
            event(3, (0, 3), Body::Progress),
        ]
    };
    let letters = [(&inbound[2], Reason::TooManyConversations)];
    let found = fold_refusing(events(3), inbound.clone(), &letters).inbound;
    assert_eq!(found.differences(), 0, "{found:?}");
    let found = fold_refusing(events(2), inbound[..3].to_vec(), &[]).inbound;
    assert_eq!((found.different, found.differences()), (1, 1), "{found:?}");
}

//! Starts from good and bad logs and snapshots.

use prost::Message as _;
use schemas::{
    DirectConversation, Mid, Ordinal, Recipient, UserId,
    event::{KNOWN_RULE_VERSION, Message, Rules, UnknownRules},
    proto::SequencerSnapshot,
};

use super::*;
use crate::{
    core::snapshot::Snapshot,
    shell::{Assembler, split},
};

fn partition() -> Partition {
    Partition::try_from(4).unwrap()
}

fn range(start: i64, end: i64) -> OffsetRange {
    OffsetRange { start, end }
}

/// The message that inbound record `offset` caused, in leader epoch 5.
fn event(offset: i64, body: Body) -> Event {
    Event {
        src: Source {
            offset: SourceOffset { epoch: 0, offset },
            leader_epoch: 5,
        },
        ts: TimestampMs(offset),
        body,
        command: None,
        words: None,
    }
}

fn message(offset: i64) -> Event {
    let user = |uid| UserId::try_from(uid).unwrap();
    let message = Message {
        srcid: user(1),
        to: Recipient::User(user(3)),
        client_msg_id: offset.to_string().try_into().unwrap(),
        msg: "m".to_owned(),
        mid: Mid::try_from(offset + 1).unwrap(),
        ordinal: Ordinal::ZERO.next(),
    };
    assert_eq!(
        message.conversation(),
        DirectConversation::new(user(1), user(3)).into()
    );
    event(offset, Body::Message(message))
}

/// A log in which record i was caused by inbound record i.
fn log(length: i64) -> Vec<Event> {
    (0..length).map(message).collect()
}

/// The snapshot after the first `length` records.
fn snapshot_of(log: &[Event], length: i64) -> SequencerSnapshot {
    let mut state = State::default();
    for event in &log[..length as usize] {
        state.apply(event);
    }
    let last = log[length as usize - 1].src;
    Snapshot::of(&state, last)
        .at(length, Some(last))
        .into_message()
}

/// Loads from a log that begins at `start`; the inbound log holds `inbound`, all of it in leader epoch `epoch`.
fn load(
    log: &[Event],
    start: i64,
    inbound: (OffsetRange, i32),
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
    let mut stored = Assembler::default();
    for chunk in snapshots.iter().flat_map(|snapshot| split(snapshot, 20)) {
        stored.push(&chunk.encode_to_vec());
    }
    let mut loader = Loader::new(partition(), range(start, end), inbound, stored.finish())?;
    loop {
        match loader.request() {
            LoadRequest::RecordBeforeSnapshot(offset) => {
                loader.on_record_before_snapshot(&record(offset))?;
            }
            LoadRequest::Events(from) => loader.on_events((from..end).map(record))?,
            LoadRequest::InboundLeaderEpoch(_) => loader.on_inbound_leader_epoch(Some(epoch))?,
            LoadRequest::Done => return Ok(loader.finish().unwrap()),
        }
    }
}

const INBOUND: (OffsetRange, i32) = (OffsetRange { start: 0, end: 99 }, 5);

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
fn a_fold_of_events_alone_does_not_ask_for_the_inbound_log() {
    let log = log(9);
    let mut loader = Loader::of_events(partition(), range(0, 9), vec![]).unwrap();
    assert_eq!(loader.request(), LoadRequest::Events(0));
    let encoded: Vec<_> = log.iter().map(|event| event.clone().encode()).collect();
    let record = |offset: i64| EventRecord {
        offset,
        ts: log[offset as usize].ts,
        value: &encoded[offset as usize],
    };
    loader.on_events((0..9).map(record)).unwrap();
    assert_eq!(loader.request(), LoadRequest::Done);
    assert_eq!(loader.finish().unwrap().last, log[8].src);
    let beheaded = Loader::of_events(partition(), range(1, 9), vec![]).unwrap_err();
    assert!(matches!(beheaded, LoadError::NoSnapshot { start: 1, .. }));
}

#[test]
fn a_snapshot_that_the_log_does_not_agree_with_gives_way_to_the_next() {
    let log = log(9);
    let mut other = log.clone();
    other[6].src.leader_epoch = 4;
    let strange = snapshot_of(&other, 7);
    let whole = load(&log, 0, INBOUND, vec![]).unwrap();
    let snapshots = vec![strange, snapshot_of(&log, 3)];
    let loaded = load(&log, 0, INBOUND, snapshots).unwrap();
    assert_eq!(loaded.folded, 6);
    assert_eq!(loaded.state, whole.state);
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
        Err(LoadError::EventsTruncated {
            partition: partition(),
            end: 5,
            snapshot_offset: 6
        })
    );
}

#[test]
fn an_inbound_log_that_is_another_halts() {
    let log = log(9);
    let partition = partition();
    assert_eq!(
        load(&log, 0, (range(0, 8), 5), vec![]),
        Err(LoadError::InboundTruncated {
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
    // All sequenced records may be gone, even if there is no later record.
    assert!(load(&log, 0, (range(9, 9), 6), vec![]).is_ok());
}

#[test]
fn a_raised_epoch_begins_at_the_new_inbound_logs_first_record() {
    let mut log = log(9);
    let watermark = SourceOffset {
        epoch: 1,
        offset: -1,
    };
    let src = Source {
        offset: watermark,
        leader_epoch: -1,
    };
    log.push(Event {
        src,
        ..event(0, Body::Progress)
    });
    let loaded = load(&log, 0, (range(0, 0), 0), vec![]).unwrap();
    assert_eq!(loaded.last.offset, watermark);
}

#[test]
fn junk_is_passed_over_and_a_gap_or_a_newer_program_halts() {
    let mut loader = Loader::new(partition(), range(0, 3), INBOUND.0, vec![]).unwrap();
    let junk = EventRecord {
        offset: 0,
        ts: TimestampMs(0),
        value: b"junk",
    };
    assert_eq!(loader.on_events([junk]), Ok(()));
    let gap = loader.on_events([EventRecord { offset: 2, ..junk }]);
    let missing = LoadError::EventsGap {
        partition: partition(),
        expected: 1,
        offset: 2,
    };
    assert_eq!(gap, Err(missing));
    let newer = Rules {
        rule_version: KNOWN_RULE_VERSION + 1,
        ..Rules::VERSION_1
    };
    let newer = [event(0, Body::Control(newer))];
    let halted = Err(UnknownRules::Version(KNOWN_RULE_VERSION + 1).into());
    assert_eq!(load(&newer, 0, INBOUND, vec![]), halted);
    // Whatever the field means in that version.
    let mut snapshot = snapshot_of(&newer, 1);
    snapshot.rules.as_mut().unwrap().hash_key = vec![7; 32];
    assert_eq!(load(&newer, 0, INBOUND, vec![snapshot.clone()]), halted);
    assert_eq!(load(&newer, 1, INBOUND, vec![snapshot]), halted);
}

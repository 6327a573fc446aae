//! Unit tests of `PartitionShell`. The simulation covers faults.

use bytes::Bytes;
use schemas::{
    DeviceClass, DirectConversation, Partition, Recipient, TimestampMs, UserId,
    command::{Command, Control, ReadAck, SendMessage},
    event::{Body, Event, Source, SourceOffset, UnknownRules},
    proto::SequencerSnapshot,
};

use super::{
    DeadLetter, HaltReason, InboundRecord, Loaded, NextAction, OutputId, PartitionShell,
    ShellConfig, ShellEffects, SnapshotWriteId, WriteFailed,
};
use crate::core::{State, snapshot::Snapshot};

/// Records the effects that the shell requests.
#[derive(Default)]
struct RecordedEffects {
    appends: Vec<(OutputId, Event)>,
    letters: Vec<(OutputId, DeadLetter)>,
    snapshots: Vec<(SnapshotWriteId, SequencerSnapshot)>,
    no_snapshots: bool,
}

impl ShellEffects for RecordedEffects {
    fn may_snapshot(&mut self) -> bool {
        !self.no_snapshots
    }

    fn append(&mut self, id: OutputId, event: Event) {
        self.appends.push((id, event));
    }

    fn dead_letter(&mut self, id: OutputId, letter: DeadLetter) {
        self.letters.push((id, letter));
    }

    fn store_snapshot(&mut self, id: SnapshotWriteId, snapshot: Snapshot) {
        self.snapshots.push((id, snapshot.into_message()));
    }
}

impl RecordedEffects {
    /// Inbound offsets of the appends so far.
    fn appended(&self) -> Vec<i64> {
        self.appends
            .iter()
            .map(|(_, event)| event.src.offset.offset)
            .collect()
    }
}

fn user(uid: i64) -> UserId {
    UserId::try_from(uid).unwrap()
}

fn record(offset: i64, value: Vec<u8>) -> InboundRecord {
    InboundRecord {
        offset,
        ts: TimestampMs(1000 + offset),
        leader_epoch: 0,
        key: None,
        value: Some(Bytes::from(value)),
        headers: Vec::new(),
    }
}

fn send(offset: i64) -> InboundRecord {
    send_to(user(3), offset)
}

/// The user to whom user 1 writes in a conversation of this partition.
fn peer_in(partition: Partition) -> UserId {
    (2..)
        .map(user)
        .find(|peer| DirectConversation::new(user(1), *peer).partition() == partition)
        .unwrap()
}

fn send_to(destid: UserId, offset: i64) -> InboundRecord {
    let send = SendMessage {
        by_user: false,
        srcid: user(1),
        to: Recipient::User(destid),
        client_msg_id: offset.to_string().try_into().unwrap(),
        msg: "hello".to_owned(),
    };
    record(offset, Command::Send(send).encode())
}

fn take(
    shell: &mut PartitionShell,
    records: Vec<InboundRecord>,
    now_ms: u64,
    io: &mut RecordedEffects,
) -> NextAction {
    for record in &records {
        shell.take(record, now_ms);
    }
    shell.send_outputs(now_ms, io)
}

/// A record that emits nothing, because its conversation does not exist.
fn idle(offset: i64) -> InboundRecord {
    let ack = ReadAck {
        uid: user(1),
        to: Recipient::User(user(67)),
        device: DeviceClass::Pc,
        mid: None,
    };
    record(offset, Command::ReadAck(ack).encode())
}

fn start(config: ShellConfig) -> PartitionShell {
    start_as(4, config)
}

fn start_as(partition: i64, config: ShellConfig) -> PartitionShell {
    let partition = Partition::try_from(partition).unwrap();
    PartitionShell::start(
        partition,
        loaded(source(SourceOffset::START), None),
        config,
        0,
    )
}

/// The loaded state of a log of ten records, or of an empty one.
fn loaded(last: Source, before_end: Option<Source>) -> Loaded {
    Loaded {
        state: State::default(),
        last,
        events_end: before_end.map_or(0, |_| 10),
        before_end,
        inbound_leader_epoch: Some(0),
        folded: 0,
    }
}

fn source(offset: SourceOffset) -> Source {
    Source {
        offset,
        leader_epoch: -1,
    }
}

#[test]
fn one_append_is_in_flight_until_it_is_acknowledged() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let records = (0..4).map(send).collect();
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert_eq!(io.appended(), [0]);
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(io.appended(), [0, 1, 2, 3]);
    for id in 1..4 {
        let action = shell.on_appended([(OutputId(id), Ok(Some(id as i64)))], 0, &mut io);
        assert_eq!(action, NextAction::Continue);
    }
    // Nothing is in flight, so one record is sent alone again.
    let records = (4..6).map(send).collect();
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert_eq!(io.appended(), [0, 1, 2, 3, 4]);
}

#[test]
fn nothing_passes_a_dead_letter() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let records = vec![send(0), record(1, b"junk".to_vec()), send(2)];
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(io.appended(), [0]);
    assert_eq!(io.letters[0].1.record.offset, 1);
    let action = shell.on_dead_lettered(io.letters[0].0, Ok(()), 0, &mut io);
    assert_eq!(action, NextAction::Continue);
    assert_eq!(io.appended(), [0, 2]);
    let failed =
        shell.on_dead_lettered(OutputId(1), Err(WriteFailed("gone".to_owned())), 0, &mut io);
    let reason = HaltReason::DeadLetterFailed(WriteFailed("gone".to_owned()));
    assert_eq!(failed, NextAction::Halt(reason));
}

#[test]
fn progress_is_sent_for_records_without_an_event_when_drained_and_not_too_often() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    assert_eq!(
        take(&mut shell, vec![idle(0)], 500, &mut io),
        NextAction::Continue
    );
    assert!(io.appends.is_empty());
    assert_eq!(shell.on_caught_up(500, &mut io), NextAction::Continue);
    assert_eq!(io.appended(), [0]);
    assert_eq!(io.appends[0].1.body, Body::Progress);
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 510, &mut io),
        NextAction::Continue
    );
    // The progress event is held back for 100 ms, then sent.
    assert_eq!(
        take(&mut shell, vec![idle(1)], 520, &mut io),
        NextAction::Continue
    );
    assert_eq!(shell.on_caught_up(520, &mut io), NextAction::Continue);
    assert_eq!(io.appended(), [0]);
    assert_eq!(shell.on_tick(599, &mut io), NextAction::Continue);
    assert_eq!(io.appended(), [0]);
    assert_eq!(shell.on_tick(600, &mut io), NextAction::Continue);
    assert_eq!(io.appended(), [0, 1]);
    assert_eq!(
        shell.on_appended([(OutputId(1), Ok(Some(1)))], 600, &mut io),
        NextAction::Continue
    );
    // Every record is covered by an event.
    assert_eq!(shell.on_caught_up(5000, &mut io), NextAction::Continue);
    assert_eq!(io.appended(), [0, 1]);
}

#[test]
fn progress_comes_within_a_second_of_silence_without_a_pause_in_the_records() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    for offset in 0..20 {
        let now_ms = 60 * offset as u64;
        let action = take(&mut shell, vec![idle(offset)], now_ms, &mut io);
        assert_eq!(action, NextAction::Continue);
        assert_eq!(io.appends.is_empty(), now_ms < 1000, "{now_ms}");
    }
}

/// A reader of the last records only would take the source of a repeat for the highest.
#[test]
fn progress_is_sent_behind_the_repeats_of_a_former_owner() {
    let at = |offset| source(SourceOffset { epoch: 0, offset });
    for (before_end, expected) in [(at(2), &[7][..]), (at(7), &[])] {
        let (config, mut io) = (ShellConfig::default(), RecordedEffects::default());
        let partition = Partition::try_from(4).unwrap();
        let mut shell =
            PartitionShell::start(partition, loaded(at(7), Some(before_end)), config, 0);
        assert_eq!(shell.on_caught_up(0, &mut io), NextAction::Continue);
        assert_eq!(io.appended(), expected);
        if let Some((id, progress)) = io.appends.first() {
            assert_eq!(progress.body, Body::Progress);
            let appended = shell.on_appended([(*id, Ok(Some(10)))], 10, &mut io);
            assert_eq!(appended, NextAction::Continue);
        }
        assert_eq!(shell.on_caught_up(5_000, &mut io), NextAction::Continue);
        assert_eq!(io.appended(), expected);
    }
}

#[test]
fn a_foreign_record_ends_the_ownership_once_all_is_reported() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let records = (0..3).map(send).collect();
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(
        shell.on_appended([(OutputId(1), Ok(Some(2)))], 0, &mut io),
        NextAction::Continue
    );
    assert!(!shell.wants_more());
    assert_eq!(
        take(&mut shell, vec![send(3)], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(io.appended(), [0, 1, 2]);
    assert_eq!(
        shell.on_appended([(OutputId(2), Ok(Some(3)))], 0, &mut io),
        NextAction::Reload
    );
}

#[test]
fn a_snapshot_that_is_never_stored_does_not_keep_a_partition_from_its_start() {
    let config = ShellConfig {
        snapshot_events: 1,
        ..ShellConfig::default()
    };
    let (mut shell, mut io) = (start(config), RecordedEffects::default());
    assert_eq!(
        take(&mut shell, vec![send(0)], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(io.snapshots.len(), 1, "it is being stored");
    assert_eq!(
        take(&mut shell, vec![send(1)], 0, &mut io),
        NextAction::Continue
    );
    // A foreign record is before it.
    assert_eq!(
        shell.on_appended([(OutputId(1), Ok(Some(2)))], 0, &mut io),
        NextAction::Reload
    );
}

#[test]
fn an_offset_that_is_not_known_counts_as_foreign() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    assert_eq!(
        take(&mut shell, vec![send(0)], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(None))], 0, &mut io),
        NextAction::Reload
    );
}

#[test]
fn failed_or_reordered_reports_halt() {
    let halted = |report: fn(&mut PartitionShell, &mut RecordedEffects) -> NextAction| {
        let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
        let records = (0..3).map(send).collect();
        assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
        assert_eq!(
            shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
            NextAction::Continue
        );
        let NextAction::Halt(reason) = report(&mut shell, &mut io) else {
            panic!("it went on");
        };
        assert_eq!(
            shell.on_tick(9999, &mut io),
            NextAction::Halt(reason.clone())
        );
        assert!(!shell.wants_more());
        reason
    };
    let failed = WriteFailed("no".to_owned());
    assert_eq!(
        halted(|shell, io| shell.on_appended(
            [(OutputId(1), Err(WriteFailed("no".to_owned())))],
            0,
            io
        )),
        HaltReason::AppendFailed(failed)
    );
    assert_eq!(
        halted(|shell, io| shell.on_appended([(OutputId(2), Ok(Some(8)))], 0, io)),
        HaltReason::ReportOutOfOrder {
            expected: Some(OutputId(1)),
            reported: OutputId(2)
        }
    );
}

#[test]
fn a_truncated_log_halts_until_a_restart() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let records = (0..3).map(send).collect();
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    let truncated = HaltReason::EventsTruncated {
        offset: 0,
        known: 1,
    };
    // If it were loaded from the present log, the partition would go on after that event, without the lost ones.
    assert!(truncated.needs_restart());
    assert_eq!(
        shell.on_appended([(OutputId(1), Ok(Some(0)))], 0, &mut io),
        NextAction::Halt(truncated)
    );
}

#[test]
fn inbound_records_must_be_contiguous() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let records = vec![send(0), send(2), send(3)];
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert!(!shell.wants_more());
    assert_eq!(io.appended(), [0], "what came before is still sequenced");
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Halt(HaltReason::InboundGap {
            expected: 1,
            offset: 2
        })
    );
}

#[test]
fn a_new_leader_of_inbound_is_a_start_from_the_log() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let of_new_leader = |offset| InboundRecord {
        leader_epoch: 1,
        ..send(offset)
    };
    let records = vec![send(0), of_new_leader(1), of_new_leader(2)];
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert!(!shell.wants_more());
    assert_eq!(io.appended(), [0], "what came before is still sequenced");
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Reload
    );
}

#[test]
fn what_was_decided_is_appended_where_inbound_is_out_of_range() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let records = (0..3).map(send).collect();
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert_eq!(io.appended(), [0], "the others wait for it");
    let why = "deleted".to_owned();
    assert_eq!(
        shell.on_out_of_range(why.clone(), 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(io.appended(), [0, 1, 2]);
    let others = [1, 2].map(|id| (OutputId(id), Ok(i64::try_from(id).ok())));
    assert_eq!(
        shell.on_appended(others, 0, &mut io),
        NextAction::Halt(HaltReason::InboundOutOfRange(why))
    );
}

#[test]
fn unknown_rules_halt() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let control = Control {
        rule_version: Some(9),
        ..Control::default()
    };
    let control = record(0, Command::Control(control).encode());
    assert_eq!(
        take(&mut shell, vec![control], 0, &mut io),
        NextAction::Halt(HaltReason::UnknownRules {
            offset: 0,
            unknown: UnknownRules::Version(9),
        })
    );
}

#[test]
fn the_queue_is_bounded() {
    let config = ShellConfig {
        max_waiting_records: 2,
        ..ShellConfig::default()
    };
    let (mut shell, mut io) = (start(config), RecordedEffects::default());
    assert_eq!(
        take(&mut shell, (0..2).map(send).collect(), 0, &mut io),
        NextAction::Continue
    );
    assert!(shell.wants_more());
    assert_eq!(
        take(&mut shell, vec![send(2)], 0, &mut io),
        NextAction::Continue
    );
    assert!(!shell.wants_more());
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    assert!(shell.wants_more());
}

#[test]
fn a_snapshot_is_stored_once_its_event_is_acknowledged() {
    let config = ShellConfig {
        snapshot_events: 2,
        ..ShellConfig::default()
    };
    let (mut shell, mut io) = (start(config), RecordedEffects::default());
    assert_eq!(
        take(&mut shell, vec![send(0), send(1)], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(
        take(&mut shell, vec![send(2)], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    assert!(io.snapshots.is_empty());
    assert_eq!(
        shell.on_appended([(OutputId(1), Ok(Some(1)))], 0, &mut io),
        NextAction::Continue
    );
    let (id, snapshot) = io.snapshots[0].clone();
    assert_eq!(snapshot.src.unwrap().offset, 1);
    assert_eq!(snapshot.events_offset, 2);
    assert_eq!(snapshot.src_before_offset, snapshot.src);
    assert_eq!(snapshot.conversations[0].last_mid, 2);
    assert_eq!(
        shell.on_snapshot_finished(id, 0, &mut io),
        NextAction::Continue
    );
}

#[test]
fn a_large_state_is_stored_less_often() {
    let config = ShellConfig {
        snapshot_events: 2,
        snapshot_interval_ms: 1_000,
        ..ShellConfig::default()
    };
    let (mut shell, mut io) = (start_as(63, config), RecordedEffects::default());
    for offset in 0..50 {
        // Each send is the first of a conversation: one send and one conversation more, for one event.
        let peer = user(62 + 64 * offset);
        let action = take(&mut shell, vec![send_to(peer, offset)], 0, &mut io);
        assert_eq!(action, NextAction::Continue);
        let id = io.appends.last().unwrap().0;
        let action = shell.on_appended([(id, Ok(Some(offset)))], 0, &mut io);
        assert_eq!(action, NextAction::Continue);
        if let Some((id, _)) = io.snapshots.last() {
            let action = shell.on_snapshot_finished(*id, 0, &mut io);
            assert_eq!(action, NextAction::Continue);
        }
    }
    let watermarks = io.snapshots.iter().map(|(_, of)| of.src.unwrap().offset);
    assert_eq!(watermarks.collect::<Vec<_>>(), [1, 3, 7, 15, 31]);
    // The last snapshot held 64 entries: 32 events instead of two, and so 16 intervals instead of one.
    assert_eq!(shell.on_tick(15_999, &mut io), NextAction::Continue);
    assert_eq!(io.snapshots.len(), 5);
    assert_eq!(shell.on_tick(16_000, &mut io), NextAction::Continue);
    assert_eq!(io.snapshots.len(), 6);
}

#[test]
fn first_snapshots_are_spread_over_the_interval_and_others_come_after_it() {
    let interval_ms = 64_000;
    let config = ShellConfig {
        snapshot_interval_ms: interval_ms,
        ..ShellConfig::default()
    };
    for partition in [0, 4, 63] {
        let (mut shell, mut io) = (start_as(partition, config), RecordedEffects::default());
        let peer = peer_in(partition.try_into().unwrap());
        for (snapshot, due_ms) in [1000 * (partition as u64 + 1), interval_ms]
            .into_iter()
            .scan(0, |now, wait| {
                *now += wait;
                Some(*now)
            })
            .enumerate()
        {
            let offset = snapshot as i64;
            let action = take(&mut shell, vec![send_to(peer, offset)], 0, &mut io);
            assert_eq!(action, NextAction::Continue);
            let id = io.appends[snapshot].0;
            let action = shell.on_appended([(id, Ok(Some(offset)))], 0, &mut io);
            assert_eq!(action, NextAction::Continue);
            assert_eq!(shell.on_tick(due_ms - 1, &mut io), NextAction::Continue);
            assert_eq!(io.snapshots.len(), snapshot, "{partition}");
            assert_eq!(shell.on_tick(due_ms, &mut io), NextAction::Continue);
            assert_eq!(io.snapshots.len(), snapshot + 1, "{partition}");
            let id = io.snapshots[snapshot].0;
            let action = shell.on_snapshot_finished(id, due_ms, &mut io);
            assert_eq!(action, NextAction::Continue);
        }
        // The state has not changed since.
        assert_eq!(
            shell.on_tick(9 * interval_ms, &mut io),
            NextAction::Continue
        );
        assert_eq!(io.snapshots.len(), 2);
    }
}

#[test]
fn a_snapshot_waits_for_its_turn() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    io.no_snapshots = true;
    assert_eq!(
        take(&mut shell, vec![send(0)], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(
        shell.on_appended([(OutputId(0), Ok(Some(0)))], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(shell.on_tick(900_000, &mut io), NextAction::Continue);
    assert!(io.snapshots.is_empty());
    io.no_snapshots = false;
    assert_eq!(shell.on_tick(900_050, &mut io), NextAction::Continue);
    assert_eq!(io.snapshots.len(), 1);
}

#[test]
fn the_commit_offset_stops_at_the_oldest_unacknowledged_output() {
    let (mut shell, mut io) = (start(ShellConfig::default()), RecordedEffects::default());
    let records = vec![send(0), send(1), record(2, b"junk".to_vec()), send(3)];
    assert_eq!(take(&mut shell, records, 0, &mut io), NextAction::Continue);
    assert_eq!((shell.commit_offset(), shell.next_inbound()), (0, 4));
    for id in 0..2 {
        let action = shell.on_appended([(OutputId(id), Ok(Some(id as i64)))], 0, &mut io);
        assert_eq!(action, NextAction::Continue);
    }
    // More records arrive meanwhile.
    assert_eq!(
        take(&mut shell, vec![send(4)], 0, &mut io),
        NextAction::Continue
    );
    assert_eq!(shell.commit_offset(), 2, "the dead letter is in flight");
    let action = shell.on_dead_lettered(io.letters[0].0, Ok(()), 0, &mut io);
    assert_eq!(action, NextAction::Continue);
    assert_eq!(shell.commit_offset(), 3);
    for (id, offset) in [(3, 2), (4, 3)] {
        let action = shell.on_appended([(OutputId(id), Ok(Some(offset)))], 0, &mut io);
        assert_eq!(action, NextAction::Continue);
    }
    assert_eq!((shell.commit_offset(), shell.next_inbound()), (5, 5));
}

//! The code that the fuzz target in `fuzz/` runs; the test beside it runs it over the inputs found.

use std::collections::BTreeMap;

use prost::Message as _;
use schemas::{
    Change, ChangeContact, ChangeGroup, ChangeMessage, ConversationId, CreateGroup, DeviceClass,
    GroupAction, GroupId, GroupRole, Mid, Partition, Profile, Recipient, TimestampMs, UserId,
    command::{Command, Control, ReadAck, SendMessage},
    event::{Body, Event, Source, SourceOffset},
};
use sequencer::core::{
    Decision, Inbound, NoOp, State,
    snapshot::{self, Snapshot},
    step,
};

/// Pairs of users whose conversations are in partition 4: two conversations that share a user, and one to oneself.
const PAIRS: [(i64, i64); 5] = [(1, 3), (3, 1), (1, 67), (67, 1), (2, 2)];
const PARTITION: i64 = 4;

/// A log of inbound records, each a few bytes of the input, stepped from an empty state. Panics if a rule of the protocol does not hold.
pub(crate) fn log(mut data: &[u8]) {
    let mut log = Log::default();
    while let Some(record) = next_record(&mut data) {
        if !log.take(&record) {
            return;
        }
    }
    log.survives_a_snapshot();
}

struct Record {
    passed_ms: i64,
    value: Vec<u8>,
}

/// The sequencer's state, and what must hold of its decisions.
struct Log {
    state: State,
    ts: i64,
    offset: i64,
    last_mids: BTreeMap<ConversationId, i64>,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            state: State::default(),
            ts: 1_000_000,
            offset: 0,
            last_mids: BTreeMap::new(),
        }
    }
}

impl Log {
    /// Whether the sequencer continues after the record.
    fn take(&mut self, record: &Record) -> bool {
        self.ts = (self.ts + record.passed_ms).max(0);
        let decision = self.decide(&record.value);
        assert_eq!(
            decision,
            self.decide(&record.value),
            "a step depends on more than the state"
        );
        self.offset += 1;
        match decision {
            Decision::Emit(event) => self.emit(event, &record.value),
            Decision::DeadLetter(refusal) => assert!(!refusal.detail.is_empty()),
            Decision::NoOp(_) => {}
            Decision::Halt(_) => return false,
        }
        true
    }

    fn decide(&self, value: &[u8]) -> Decision {
        let inbound = Inbound {
            src: self.source(self.offset),
            ts: TimestampMs(self.ts),
            value,
        };
        step(&self.state, partition(), &inbound)
    }

    fn source(&self, offset: i64) -> Source {
        Source {
            offset: SourceOffset { epoch: 0, offset },
            leader_epoch: 7,
        }
    }

    fn emit(&mut self, event: Event, value: &[u8]) {
        assert!(event.ts >= self.state.clock(), "the log's clock goes back");
        let ts = event.ts;
        let read = Event::read(partition(), &event.clone().encode(), ts);
        assert_eq!(read.as_ref(), Ok(&event), "readers see another event");
        if let Body::Message(message) = &event.body {
            let last = self.last_mids.entry(message.conversation()).or_default();
            *last += 1;
            assert_eq!(message.mid.get(), *last, "mids are dense");
        }
        self.state.apply(&event);
        let is_remembered = self.state.dedup_entries() > 0;
        if matches!(event.body, Body::Message(_)) && is_remembered {
            let again = self.decide(value);
            assert!(
                again == Decision::NoOp(NoOp::Repeat),
                "a repeat is {again:?}"
            );
        }
    }

    fn survives_a_snapshot(&self) {
        let src = self.source(self.offset);
        let payload = Snapshot::of(&self.state, src)
            .into_message()
            .encode_to_vec();
        let read = snapshot::read(payload.as_slice()).expect("a snapshot is valid");
        assert_eq!(
            Snapshot::of(&read.state, src).into_message(),
            Snapshot::of(&self.state, src).into_message()
        );
    }
}

fn partition() -> Partition {
    Partition::try_from(PARTITION).expect("a partition")
}

fn byte(data: &mut &[u8]) -> Option<u8> {
    let (first, rest) = data.split_first()?;
    *data = rest;
    Some(*first)
}

fn bytes<'a>(data: &mut &'a [u8], count: u8) -> &'a [u8] {
    let (taken, rest) = data.split_at(usize::from(count).min(data.len()));
    *data = rest;
    taken
}

fn number(data: &mut &[u8]) -> i64 {
    let mut whole = [0; 8];
    let taken = bytes(data, 8);
    whole[..taken.len()].copy_from_slice(taken);
    i64::from_le_bytes(whole)
}

fn next_record(data: &mut &[u8]) -> Option<Record> {
    let kind = byte(data)?;
    // Append times go back and forth.
    let passed_ms = i64::from(byte(data)?.cast_signed()) * i64::from(byte(data)?);
    let value = match kind % 16 {
        0..=5 => send(data)?.encode(),
        6..=8 => read_ack(data)?.encode(),
        9..=11 => message_change(data)?.encode(),
        12 => contact_change(data)?.encode(),
        13 if kind >= 192 => profile(data)?.encode(),
        13 => group(data)?.encode(),
        14 => control(data)?.encode(),
        _ => {
            let count = byte(data)?;
            bytes(data, count).to_vec()
        }
    };
    Some(Record { passed_ms, value })
}

fn pair(data: &mut &[u8]) -> Option<(UserId, UserId)> {
    let (one, other) = PAIRS[usize::from(byte(data)?) % PAIRS.len()];
    Some((one.try_into().ok()?, other.try_into().ok()?))
}

fn send(data: &mut &[u8]) -> Option<Command> {
    let (srcid, destid) = pair(data)?;
    let id = byte(data)?;
    let msg = byte(data)? % 4;
    Some(Command::Send(SendMessage {
        by_user: id & 16 != 0,
        srcid,
        to: Recipient::User(destid),
        client_msg_id: (id % 16).to_string().try_into().ok()?,
        msg: "x".repeat(1 + usize::from(msg)),
    }))
}

fn read_ack(data: &mut &[u8]) -> Option<Command> {
    let (uid, peer) = pair(data)?;
    let choice = byte(data)?;
    Some(Command::ReadAck(ReadAck {
        uid,
        to: Recipient::User(peer),
        device: DeviceClass::ALL[usize::from(choice & 1)],
        mid: match choice >> 1 {
            0 => None,
            1 => Mid::try_from(number(data)).ok(),
            mid => Mid::try_from(i64::from(mid)).ok(),
        },
    }))
}

fn message_change(data: &mut &[u8]) -> Option<Command> {
    let (by, peer) = pair(data)?;
    let (kind, mid) = (byte(data)?, byte(data)?);
    Some(Command::ChangeMessage(ChangeMessage {
        by,
        to: Recipient::User(peer),
        mid: Mid::try_from(1 + i64::from(mid)).ok()?,
        change: match kind % 5 {
            0 => Change::Recall,
            1 => Change::Delete,
            2 => Change::Edit("y".repeat(1 + usize::from(kind) / 64)),
            3 => Change::Hide,
            _ => Change::Clear,
        },
    }))
}

fn contact_change(data: &mut &[u8]) -> Option<Command> {
    let (uid, peer) = pair(data)?;
    let (given, flags) = (byte(data)?, byte(data)?);
    let flag = |bit: u8| (given & bit != 0).then_some(flags & bit != 0);
    Some(Command::ChangeContact(ChangeContact {
        uid,
        peer,
        favourite: flag(1),
        pinned: flag(2),
        muted: flag(4),
        blocked: flag(8).filter(|_| uid != peer),
        deleted: given & 16 != 0,
        by_user: given & 32 != 0,
    }))
}

fn profile(data: &mut &[u8]) -> Option<Command> {
    let (uid, nick) = (byte(data)?, byte(data)?);
    Some(Command::SetProfile(Profile {
        // Every second profile is in another partition.
        uid: (i64::from(uid) * 32 + 4).try_into().ok()?,
        nick: nick.to_string(),
        avatar: None,
        extra: (nick > 128).then(|| "{}".to_owned()),
    }))
}

/// A command in one of two groups of the partition, whose first users are those of [`PAIRS`].
fn group(data: &mut &[u8]) -> Option<Command> {
    let users = [1, 3, 67, 2, 5, 6].map(|uid: i64| UserId::try_from(uid));
    let user = |bits: u8| users[usize::from(bits) % users.len()].clone().ok();
    let (choice, who, value) = (byte(data)?, byte(data)?, byte(data)?);
    let one = user(value)?;
    let gid = GroupId::try_from(if choice & 1 == 0 { 4 } else { 68 }).ok()?;
    let (by, by_user, to) = (user(who)?, choice & 2 != 0, Recipient::Group(gid));
    let action = match choice >> 3 & 15 {
        0..=4 => {
            return Some(Command::Send(SendMessage {
                srcid: by,
                to,
                client_msg_id: (value % 16).to_string().try_into().ok()?,
                msg: "x".repeat(1 + usize::from(value >> 6)),
                by_user,
            }));
        }
        5 => {
            return Some(Command::ReadAck(ReadAck {
                uid: by,
                to,
                device: DeviceClass::ALL[usize::from(value & 1)],
                mid: Mid::try_from(i64::from(value >> 1))
                    .ok()
                    .filter(|mid| *mid > Mid::ZERO),
            }));
        }
        6 => {
            return Some(Command::ChangeMessage(ChangeMessage {
                by,
                to,
                mid: Mid::try_from(1 + i64::from(value >> 3)).ok()?,
                change: match value % 5 {
                    0 => Change::Recall,
                    1 => Change::Delete,
                    2 => Change::Edit("y".to_owned()),
                    3 => Change::Hide,
                    _ => Change::Clear,
                },
            }));
        }
        7 => GroupAction::Create(CreateGroup {
            name: "n".to_owned(),
            members: vec![one, user(value >> 4)?],
            open: value & 1 != 0,
            whole_history: false,
            client_id: (value & 2 != 0).then(|| "g".to_owned()),
        }),
        8 => GroupAction::Add(vec![one, user(value >> 4)?]),
        9 => GroupAction::Remove(vec![one]),
        10 => GroupAction::Join,
        11 => GroupAction::Leave,
        12 => GroupAction::SetRole {
            uid: one,
            role: GroupRole::ALL[usize::from(value >> 4) % 3],
        },
        13 => GroupAction::Mute(Some(one).filter(|_| value & 64 != 0)),
        14 => GroupAction::Unmute(Some(one).filter(|_| value & 64 != 0)),
        _ if value % 8 == 0 => GroupAction::Dissolve,
        _ => GroupAction::Rename(format!("n{value}")),
    };
    Some(Command::ChangeGroup(ChangeGroup {
        gid,
        by,
        by_user,
        action,
    }))
}

fn control(data: &mut &[u8]) -> Option<Command> {
    let which = byte(data)?;
    let mut given = |bit: u8| (which & bit != 0).then(|| number(data));
    Some(Command::Control(Control {
        rule_version: given(1).map(|version| version.rem_euclid(5) as u32),
        dedup_window_ms: given(2),
        dedup_max_entries: given(4),
        max_msg_bytes: given(8),
        hash_key: (which & 16 != 0).then(|| vec![7; 16]),
        dedup_max_per_sender: (which & 32 != 0).then_some(1),
        new_conversations_per_day: (which & 64 != 0).then_some(1),
        recall_window_ms: (which & 128 != 0).then_some(100),
        delete_for_all: (which & 128 != 0).then_some(true),
        max_group_members: (which & 128 != 0).then_some(4),
        new_memberships_per_day: (which & 64 != 0).then_some(2),
        max_memberships_by_others: (which & 64 != 0).then_some(1),
    }))
}

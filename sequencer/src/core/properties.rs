//! Any mix of sends, repeats, conflicts, acks, controls and clocks, judged by the fold of the audit.

use std::{collections::BTreeMap, iter};

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use schemas::{
    AppliedCommand, Change, ChangeContact, ChangeMessage, ConversationId, DeviceClass, GroupId,
    Mid, Partition, Profile, Recipient, TimestampMs, UserId,
    command::{Command, Control, ReadAck, SendMessage},
    event::{Body, Event, KNOWN_RULE_VERSION, Rules, Source, SourceOffset, UnknownRules},
    proto::SequencerSnapshot,
};

use super::{
    Decision, NoOp, State,
    snapshot::{self, Snapshot},
};
use crate::{
    shell::InboundRecord,
    sim::{
        rng::Rng,
        traffic,
        uninterrupted::{audited, decide, decisions},
    },
};

/// Pairs of users whose conversations are in partition 4: two conversations that share a user, and one to oneself.
const PAIRS: [(i64, i64); 5] = [(1, 3), (3, 1), (1, 67), (67, 1), (2, 2)];

fn partition() -> Partition {
    Partition::try_from(4).unwrap()
}

fn user(uid: i64) -> UserId {
    UserId::try_from(uid).unwrap()
}

fn pair() -> impl Strategy<Value = (UserId, UserId)> {
    prop::sample::select(&PAIRS[..]).prop_map(|(one, other)| (user(one), user(other)))
}

fn send() -> impl Strategy<Value = Command> {
    let send = (pair(), 0..40_u8, "[ab]{1,3}", any::<bool>());
    send.prop_map(|((srcid, destid), id, msg, by_user)| {
        Command::Send(SendMessage {
            by_user,
            srcid,
            to: Recipient::User(destid),
            client_msg_id: id.to_string().try_into().unwrap(),
            msg,
        })
    })
}

fn read_ack() -> impl Strategy<Value = Command> {
    let mid = prop::option::of(prop_oneof![1..300_i64, Just(i64::MAX)]);
    let device = prop::sample::select(&DeviceClass::ALL[..]);
    (pair(), device, mid).prop_map(|((uid, peer), device, mid)| {
        Command::ReadAck(ReadAck {
            uid,
            to: Recipient::User(peer),
            device,
            mid: mid.map(|mid| Mid::try_from(mid).unwrap()),
        })
    })
}

fn message_change() -> impl Strategy<Value = Command> {
    let change = prop_oneof![
        2 => Just(Change::Recall),
        1 => Just(Change::Delete),
        2 => "[ab]{1,4}".prop_map(Change::Edit),
        1 => Just(Change::Hide),
        1 => Just(Change::Clear),
        1 => "[👍❤]{0,1}".prop_map(Change::React),
    ];
    (pair(), 1..300_i64, change).prop_map(|((by, peer), mid, change)| {
        Command::ChangeMessage(ChangeMessage {
            by,
            to: Recipient::User(peer),
            mid: Mid::try_from(mid).unwrap(),
            change,
        })
    })
}

fn contact_change() -> impl Strategy<Value = Command> {
    let flag = || prop::option::of(any::<bool>());
    let all = (pair(), flag(), flag(), flag(), any::<[bool; 2]>());
    all.prop_map(
        |((uid, peer), favourite, pinned, blocked, [deleted, by_user])| {
            Command::ChangeContact(ChangeContact {
                uid,
                peer,
                favourite,
                pinned,
                muted: Some(by_user),
                blocked: blocked.filter(|_| uid != peer),
                deleted,
                by_user,
            })
        },
    )
}

/// Every fourth profile is in another partition.
fn profile() -> impl Strategy<Value = Command> {
    let uid = prop::sample::select(&[4, 68, 132, 5][..]).prop_map(user);
    let extra = prop::option::of(prop::sample::select(&["{}", "{ }"][..]));
    (uid, "[ab]{1,2}", extra).prop_map(|(uid, nick, extra)| {
        Command::SetProfile(Profile {
            uid,
            nick,
            avatar: None,
            extra: extra.map(str::to_owned),
        })
    })
}

fn control() -> impl Strategy<Value = Command> {
    let window = prop::option::of(0..2000_i64);
    let entries = prop::option::of(prop_oneof![0..30_i64, 128..700_i64]);
    let per_sender = prop::option::of(0..20_i64);
    let bytes = prop::option::of(0..4_i64);
    let version = prop::option::of(1..=KNOWN_RULE_VERSION);
    let changes = (
        prop::option::of(-1..2000_i64),
        prop::option::of(any::<bool>()),
        prop::option::of(0..6_i64),
        prop::option::of(0..4_i64),
        prop::option::of(0..2_i64),
    );
    let key = prop::option::of(prop::sample::select(&[15, 16][..]));
    let per_day = prop::option::of(0..3_i64);
    let all = (
        window, entries, per_sender, bytes, version, key, per_day, changes,
    );
    all.prop_map(
        |(window, entries, per_sender, bytes, version, key, per_day, changes)| {
            Command::Control(Control {
                rule_version: version,
                dedup_window_ms: window,
                dedup_max_entries: entries,
                max_msg_bytes: bytes,
                hash_key: key.map(|bytes| vec![7; bytes]),
                dedup_max_per_sender: per_sender,
                new_conversations_per_day: per_day,
                recall_window_ms: changes.0,
                delete_for_all: changes.1,
                max_group_members: changes.2,
                new_memberships_per_day: changes.3,
                max_memberships_by_others: changes.4,
            })
        },
    )
}

fn newest_rules() -> Command {
    Command::Control(Control {
        rule_version: Some(KNOWN_RULE_VERSION),
        hash_key: Some(vec![7; 16]),
        delete_for_all: Some(true),
        ..Control::default()
    })
}

/// A log in which append times go back and forth.
fn inbound() -> impl Strategy<Value = Vec<InboundRecord>> {
    let command = prop_oneof![
        12 => send(),
        6 => read_ack(),
        6 => message_change(),
        2 => contact_change(),
        1 => profile(),
        6 => any::<u64>().prop_map(|seed| traffic::group(&mut Rng::new(seed))),
        1 => control(),
    ];
    // Few ids, so that they repeat.
    let id = prop_oneof![Just(String::new()), "k[0-9]?"];
    let value = prop_oneof![
        33 => (command, id).prop_map(|(command, id)| traffic::with_id(command, id)),
        1 => prop::collection::vec(any::<u8>(), 0..9),
    ];
    // Every second log begins with the newest rules.
    let begin = prop::option::of(Just((newest_rules().encode(), 0)));
    let records = prop::collection::vec((value, -100..200_i64), 0..400);
    (begin, records).prop_map(|(begin, records)| log_of(begin.into_iter().chain(records)))
}

/// A log of two groups that soon are full.
fn in_groups() -> impl Strategy<Value = Vec<InboundRecord>> {
    let value = any::<u64>().prop_map(|seed| traffic::group(&mut Rng::new(seed)).encode());
    let full = Control {
        max_group_members: Some(4),
        ..Control::default()
    };
    let begin = [newest_rules(), Command::Control(full)].map(|one| (one.encode(), 0));
    let records = prop::collection::vec((value, 0..9_i64), 0..400);
    records.prop_map(move |records| log_of(begin.clone().into_iter().chain(records)))
}

/// A log of a conversation that is longer than a word of recalled messages: 64.
fn in_a_long_conversation() -> impl Strategy<Value = Vec<InboundRecord>> {
    let sent = |n: i64| {
        let (srcid, destid) = PAIRS[usize::from(n % 2 == 0)];
        Command::Send(SendMessage {
            by_user: true,
            srcid: user(srcid),
            to: Recipient::User(user(destid)),
            client_msg_id: n.to_string().try_into().unwrap(),
            msg: "a".to_owned(),
        })
    };
    let begin: Vec<_> = iter::once(newest_rules())
        .chain((1..300).map(sent))
        .map(|one| (one.encode(), 0))
        .collect();
    let changes = prop::collection::vec(
        (message_change().prop_map(Command::encode), 0..9_i64),
        0..300,
    );
    changes.prop_map(move |changes| log_of(begin.clone().into_iter().chain(changes)))
}

/// The records of a log; each value comes with its delay after the record before it.
fn log_of(values: impl Iterator<Item = (Vec<u8>, i64)>) -> Vec<InboundRecord> {
    let mut ts = 1_000_000;
    let record = |((value, passed), offset)| {
        ts += passed;
        InboundRecord {
            offset,
            ts: TimestampMs(ts),
            leader_epoch: 7,
            key: None,
            value: Some(Bytes::from(value)),
            headers: Vec::new(),
        }
    };
    values.zip(0..).map(record).collect()
}

fn restored(snapshot: &SequencerSnapshot) -> State {
    let payload = snapshot.encode_to_vec();
    snapshot::read(payload.as_slice()).unwrap().state
}

/// All events of one owner; `state` is left as after the last one.
fn run(state: &mut State, records: &[InboundRecord]) -> Vec<Event> {
    let decided = decisions(state, partition(), records);
    decided.into_iter().filter_map(emitted).collect()
}

fn emitted(decision: Decision) -> Option<Event> {
    match decision {
        Decision::Emit(event) => Some(event),
        Decision::Halt(unknown) => panic!("{unknown}"),
        Decision::DeadLetter(_) | Decision::NoOp(_) => None,
    }
}

fn progress(offset: i64, ts: TimestampMs) -> Event {
    Event {
        src: Source {
            offset: SourceOffset { epoch: 0, offset },
            leader_epoch: 0,
        },
        ts,
        body: Body::Progress,
        command: None,
        words: None,
    }
}

proptest! {
    #[test]
    fn decisions_are_the_audits(records in prop_oneof![inbound(), in_groups(), in_a_long_conversation()]) {
        let decided = decisions(&mut State::default(), partition(), &records);
        let refused: Vec<_> = (0..)
            .zip(&decided)
            .filter_map(|(offset, decision)| match decision {
                Decision::DeadLetter(refusal) => Some((offset, refusal.reason)),
                _ => None,
            })
            .collect();
        let mut events: Vec<Event> = decided.into_iter().filter_map(emitted).collect();
        // The audit does not judge what is above the last source.
        let ts = events.last().map_or(TimestampMs(0), |last| last.ts);
        events.extend(records.last().map(|last| progress(last.offset, ts)));
        let log = events.into_iter().map(|event| (event.ts, event.encode()));
        prop_assert_eq!(audited(partition(), &records, &refused, log), Ok(()));
    }

    #[test]
    fn mids_and_chgs_are_dense_positions_rise_and_time_never_goes_back(records in inbound()) {
        let mut last_mids: BTreeMap<ConversationId, Mid> = BTreeMap::new();
        let mut positions: BTreeMap<(UserId, ConversationId, DeviceClass), Mid> = BTreeMap::new();
        let mut chgs: BTreeMap<ConversationId, i64> = BTreeMap::new();
        let (mut clock, mut rules) = (TimestampMs(0), Rules::VERSION_1);
        for event in run(&mut State::default(), &records) {
            prop_assert!(event.ts >= clock);
            clock = event.ts;
            match event.body {
                Body::Message(message) => {
                    let last = last_mids.entry(message.conversation()).or_default();
                    prop_assert_eq!(message.mid, last.next());
                    *last = message.mid;
                }
                Body::ReadPosition(position) => {
                    let key = (position.uid, position.conversation(), position.device);
                    let before = positions.entry(key).or_default();
                    prop_assert!(position.mid > *before);
                    prop_assert!(position.mid <= last_mids[&position.conversation()]);
                    *before = position.mid;
                }
                Body::MessageChange(change) => {
                    prop_assert!(change.mid <= last_mids[&change.conversation()]);
                    let change_seq = chgs.entry(change.conversation()).or_default();
                    let is_own = change.change.is_for_one() && rules.rule_version >= 4;
                    *change_seq += i64::from(!is_own);
                    prop_assert_eq!(change.change_seq.get(), if is_own { 0 } else { *change_seq });
                }
                Body::GroupChange(change) => {
                    let dissolved = change.settings.dissolved;
                    prop_assert_eq!(change.member_count == 0, dissolved);
                }
                Body::Control(later) => rules = later,
                Body::Progress | Body::ContactChange(_) | Body::Profile(_) => {}
            }
        }
    }

    #[test]
    fn the_state_is_the_fold_of_the_output(records in inbound()) {
        let mut state = State::default();
        let events = run(&mut state, &records);
        let mut fold = State::default();
        for event in &events {
            // Encoded and parsed, as on the log.
            let event = Event::parse(&event.clone().encode(), event.ts).unwrap();
            fold.apply(&event);
        }
        prop_assert_eq!(&fold, &state);
    }

    #[test]
    fn a_restored_snapshot_goes_on_alike(records in inbound(), cut in 0..400_usize) {
        let (before, after) = records.split_at(cut.min(records.len()));
        let mut state = State::default();
        run(&mut state, before);
        let src = Source { offset: SourceOffset::START, leader_epoch: -1 };
        let taken = Snapshot::of(&state, src).into_message();
        let mut restored = restored(&taken);
        prop_assert_eq!(&restored, &state);
        // Older programs read the snapshots of rule version 1.
        prop_assert!(state.rules().rule_version > 1 || taken.keyed_dedup.is_empty());
        prop_assert_eq!(Snapshot::of(&restored, src).into_message(), taken);
        prop_assert_eq!(run(&mut restored, after), run(&mut state, after));
        prop_assert_eq!(restored, state);
    }

    #[test]
    fn a_repeat_at_once_is_silent(records in inbound()) {
        let mut state = State::default();
        for record in &records {
            let Decision::Emit(event) = decide(&state, partition(), record) else {
                continue;
            };
            state.apply(&event);
            if matches!(event.body, Body::Message(_)) {
                prop_assert_eq!(decide(&state, partition(), record), Decision::NoOp(NoOp::Repeat));
            }
        }
    }

    #[test]
    fn no_event_makes_the_fold_panic(events in prop::collection::vec(any_event(), 0..50)) {
        let mut state = State::default();
        for event in &events {
            state.apply(event);
        }
        let src = Source { offset: SourceOffset::START, leader_epoch: -1 };
        prop_assert_eq!(restored(&Snapshot::of(&state, src).into_message()), state);
    }
}

/// Events that no sequencer would write: positions past the end, arbitrary mids, rules out of bounds.
fn any_event() -> impl Strategy<Value = Event> {
    use schemas::{
        ChangeSeq, ContactChange, ContactFlags, DeletedContact, MessageChange, Ordinal,
        event::{Message, ReadPosition},
    };
    let mid = || (1..=i64::MAX).prop_map(|mid| Mid::try_from(mid).unwrap());
    let message = (sender(), mid(), 0..3_u8).prop_map(|((srcid, to), mid, id)| {
        Body::Message(Message {
            srcid,
            to,
            client_msg_id: id.to_string().try_into().unwrap(),
            msg: "m".to_owned(),
            mid,
            ordinal: Ordinal::ZERO,
        })
    });
    let position = (sender(), mid()).prop_map(|((uid, to), mid)| {
        Body::ReadPosition(ReadPosition {
            uid,
            to,
            device: DeviceClass::Pc,
            mid,
            ordinal: None,
        })
    });
    let rules = (any::<i64>(), any::<i64>(), any::<bool>()).prop_map(|(window, entries, keyed)| {
        Body::Control(Rules {
            dedup_window_ms: window,
            dedup_max_entries: entries,
            hash_key: keyed.then_some([7; 16].into()),
            dedup_max_per_sender: entries / 100,
            new_conversations_per_day: entries % 3,
            rule_version: window.rem_euclid(5) as u32,
            recall_window_ms: window % 500,
            ..Rules::VERSION_1
        })
    });
    let changes = [Change::Recall, Change::Hide, Change::Clear];
    let change = prop::sample::select(changes.to_vec());
    let change = (sender(), mid(), change, 0..2_i64);
    let change = change.prop_map(|((by, to), mid, change, change_seq)| {
        Body::MessageChange(MessageChange {
            by,
            to,
            mid,
            change,
            change_seq: ChangeSeq::try_from(change_seq).unwrap(),
            ordinal: None,
        })
    });
    let contact = (pair(), prop::option::of(mid())).prop_map(|((uid, peer), deleted)| {
        Body::ContactChange(ContactChange {
            uid,
            peer,
            flags: ContactFlags::default(),
            deleted: deleted.map(|mid| DeletedContact {
                mid,
                ordinal: Ordinal::ZERO,
            }),
        })
    });
    let body = prop_oneof![
        message,
        position,
        change,
        contact,
        group_change(),
        rules,
        Just(Body::Progress)
    ];
    let command = ("[a-c]", any::<u32>()).prop_map(|(id, content)| {
        Box::new(AppliedCommand {
            id: id.try_into().unwrap(),
            content,
        })
    });
    let all = (body, prop::option::of(command), any::<i64>());
    all.prop_map(|(body, command, ts)| Event {
        src: Source {
            offset: SourceOffset::START,
            leader_epoch: -1,
        },
        ts: TimestampMs(ts),
        body,
        command,
        words: None,
    })
}

/// The author and recipient of a message in a direct conversation or in a group.
fn sender() -> impl Strategy<Value = (UserId, Recipient)> {
    let to_user = pair().prop_map(|(one, other)| (one, Recipient::User(other)));
    let group = Recipient::Group(GroupId::try_from(4).unwrap());
    prop_oneof![to_user, (1..4_i64).prop_map(move |by| (user(by), group))]
}

fn group_change() -> impl Strategy<Value = Body> {
    use schemas::{GroupChange, GroupChangeKind, GroupMember, GroupRole, GroupSettings};
    let settings =
        (1..4_i64, any::<[bool; 2]>()).prop_map(|(owner, [muted, dissolved])| GroupSettings {
            name: "n".to_owned(),
            owner: user(owner),
            open: true,
            whole_history: false,
            muted,
            dissolved,
        });
    let role = prop::option::of(prop::sample::select(&GroupRole::ALL[..]));
    let member = (1..4_i64, role, any::<bool>()).prop_map(|(uid, role, muted)| GroupMember {
        uid: user(uid),
        role,
        muted,
        joined: muted,
    });
    let kinds = [
        GroupChangeKind::Create,
        GroupChangeKind::Add,
        GroupChangeKind::Dissolve,
    ];
    let kind = prop::sample::select(kinds.to_vec());
    let mid = || (1..=i64::MAX).prop_map(|mid| Mid::try_from(mid).unwrap());
    let members = prop::collection::vec(member, 0..3);
    (kind, settings, members, mid(), 1..4_i64).prop_map(
        |(kind, settings, members, last_mid, by)| {
            Body::GroupChange(Box::new(GroupChange {
                gid: GroupId::try_from(4).unwrap(),
                by: user(by),
                kind,
                settings,
                member_count: 7,
                last_mid,
                members,
            }))
        },
    )
}

#[test]
fn a_version_that_this_binary_lacks_stops_it() {
    let control = Command::Control(Control {
        rule_version: Some(KNOWN_RULE_VERSION + 1),
        ..Control::default()
    });
    let record = InboundRecord {
        offset: 0,
        ts: TimestampMs(0),
        leader_epoch: 0,
        key: None,
        value: Some(control.encode().into()),
        headers: Vec::new(),
    };
    let decision = decide(&State::default(), partition(), &record);
    assert_eq!(
        decision,
        Decision::Halt(UnknownRules::Version(KNOWN_RULE_VERSION + 1))
    );
}

//! An inbound log: few users, few ids and few texts, so that repeats, conflicts and idle acks happen often.

use std::sync::LazyLock;

use bytes::Bytes;
use schemas::{
    Change, ChangeContact, ChangeGroup, ChangeMessage, CreateGroup, DeviceClass, GroupAction,
    GroupId, GroupRole, Mid, Partition, Profile, Recipient, SetGroupOptions, TimestampMs, UserId,
    WordVerdict,
    command::{Command, Control, InboundValue, ReadAck, SendMessage},
    event::KNOWN_RULE_VERSION,
};

use super::rng::Rng;
use crate::shell::InboundRecord;

/// Pairs of users whose conversations are all in this partition, one to oneself among them.
const PAIRS: [(i64, i64); 6] = [(1, 3), (3, 1), (1, 67), (67, 1), (2, 2), (65, 3)];
const TEXTS: [&str; 4] = ["yes", "no", "a text of 24 bytes, so so", "\u{1f30a}"];

/// The owners, client_ids and derived gids of two groups of the partition.
static DERIVED: LazyLock<[(UserId, String, GroupId); 2]> = LazyLock::new(|| {
    [1, 2].map(|owner| {
        let owner = user(owner);
        let of_number = |number| {
            let client_id = format!("g{number}");
            let gid = GroupId::of_owner(owner, &client_id);
            (owner, client_id, gid)
        };
        let mut all = (0..).map(of_number);
        let is_here = |(_, _, gid): &(UserId, String, GroupId)| gid.partition() == partition();
        all.find(is_here).unwrap()
    })
});

/// The partition of the conversations.
pub(crate) fn partition() -> Partition {
    Partition::try_from(4).unwrap()
}

/// A log of `length` records. Append times mostly rise and sometimes go back; leader epochs rise now and then.
pub(crate) fn inbound(rng: &mut Rng, length: usize) -> Vec<InboundRecord> {
    // Shortly before midnight.
    let mut ts = 1_700_006_400_000 - rng.between(0, 3_000);
    let mut leader_epoch = 0;
    // Every fifth log is mostly of groups, under the newest rules.
    let of_groups = rng.chance(20);
    let mut records: Vec<InboundRecord> = Vec::with_capacity(length);
    for offset in 0..length as i64 {
        ts += if rng.chance(15) {
            rng.between(-200, 0)
        } else {
            rng.between(0, 60)
        };
        leader_epoch += i32::from(rng.chance(4));
        let value = match rng.below(100) {
            // The first record lowers the limits, so that they are reached.
            _ if offset == 0 => limits(rng).encode(),
            _ if of_groups && offset == 1 => raise_to(KNOWN_RULE_VERSION).encode(),
            0..60 if of_groups => with_id(group(rng), id(rng, offset)),
            0..30 => with_words(send(rng), words(rng)),
            30..45 if offset > 1 => again(rng, &records),
            45..55 => with_id(read_ack(rng), id(rng, offset)),
            55..62 => with_id(message_change(rng), id(rng, offset)),
            62..66 => with_id(contact_change(rng), id(rng, offset)),
            66..82 => with_id(group(rng), id(rng, offset)),
            82..85 => with_id(profile(rng), id(rng, offset)),
            85..90 => with_id(limits(rng), id(rng, offset)),
            90..93 => beyond_limits(rng).encode(),
            93..96 => with_id(elsewhere(rng), id(rng, offset)),
            _ => rng.pick(&[b"".as_slice(), b"junk", b"\x0a\x00"]).to_vec(),
        };
        records.push(InboundRecord {
            offset,
            ts: TimestampMs(ts),
            leader_epoch,
            key: None,
            value: (!value.is_empty()).then(|| Bytes::from(value)),
            headers: Vec::new(),
        });
    }
    if !of_groups && rng.chance(70) {
        // The versions are raised one after the other, or several at once; often early.
        for version in 2..=KNOWN_RULE_VERSION {
            let raised = rng.below(length);
            let raised = if rng.chance(50) { raised / 8 } else { raised };
            let raise = with_id(raise_to(version), format!("v{version}"));
            records[raised].value = Some(raise.into());
        }
    }
    records
}

fn with_words(command: Command, words: Option<WordVerdict>) -> Vec<u8> {
    InboundValue {
        words,
        ..command.into()
    }
    .encode()
}

pub(crate) fn with_id(command: Command, id: String) -> Vec<u8> {
    InboundValue {
        id,
        ..command.into()
    }
    .encode()
}

/// Mostly an id of its own; sometimes one that other commands have, or none.
fn id(rng: &mut Rng, offset: i64) -> String {
    match rng.below(20) {
        0..12 => format!("k{offset}"),
        12..17 => format!("c{}", rng.below(3)),
        17 => "no\nid".to_owned(),
        _ => String::new(),
    }
}

fn words(rng: &mut Rng) -> Option<WordVerdict> {
    let verdict = WordVerdict {
        masked: rng.chance(50),
        dictionary: rng.next(),
    };
    rng.chance(20).then_some(verdict)
}

fn raise_to(version: u32) -> Command {
    Command::Control(Control {
        rule_version: Some(version),
        hash_key: Some(vec![7; 16]),
        ..Control::default()
    })
}

fn user(uid: i64) -> UserId {
    UserId::try_from(uid).unwrap()
}

fn send(rng: &mut Rng) -> Command {
    let (srcid, mut destid) = *rng.pick(&PAIRS);
    if rng.chance(20) {
        // A stranger in the same partition.
        destid += 64 * rng.between(2, 40);
    }
    Command::Send(SendMessage {
        by_user: rng.chance(60),
        srcid: user(srcid),
        to: Recipient::User(user(destid)),
        client_msg_id: format!("c{}", rng.below(12)).try_into().unwrap(),
        msg: (*rng.pick(&TEXTS)).to_owned(),
    })
}

/// An earlier record again; sometimes in other bytes with the same meaning.
fn again(rng: &mut Rng, records: &[InboundRecord]) -> Vec<u8> {
    let newest = &records[records.len().saturating_sub(12)..];
    let mut value = rng.pick(newest).value.clone().unwrap_or_default().to_vec();
    if rng.chance(30) && Command::parse(&value).is_ok() {
        // Field 15, which no version knows.
        value.extend([15 << 3, 1]);
    }
    value
}

fn read_ack(rng: &mut Rng) -> Command {
    let (uid, peer) = *rng.pick(&PAIRS);
    let mid = match rng.below(4) {
        0 => None,
        1 => Some(i64::MAX),
        _ => Some(rng.between(1, 12)),
    };
    Command::ReadAck(ReadAck {
        uid: user(uid),
        to: Recipient::User(user(peer)),
        device: *rng.pick(&DeviceClass::ALL),
        mid: mid.map(|mid| Mid::try_from(mid).unwrap()),
    })
}

fn message_change(rng: &mut Rng) -> Command {
    let (by, peer) = *rng.pick(&PAIRS);
    Command::ChangeMessage(ChangeMessage {
        by: user(by),
        to: Recipient::User(user(peer)),
        // A mid that may be above the last one of short conversations.
        mid: Mid::try_from(rng.between(1, 16)).unwrap(),
        change: change(rng),
    })
}

fn change(rng: &mut Rng) -> Change {
    match rng.below(8) {
        0..3 => Change::Recall,
        3 => Change::Delete,
        4 => Change::Edit((*rng.pick(&TEXTS)).to_owned()),
        5 => Change::React((*rng.pick(&["👍", "❤️", ""])).to_owned()),
        6 => Change::Hide,
        _ => Change::Clear,
    }
}

fn contact_change(rng: &mut Rng) -> Command {
    let (uid, mut peer) = *rng.pick(&PAIRS);
    if rng.chance(20) {
        // A user to whom nobody has written.
        peer += 64 * rng.between(2, 40);
    }
    let mut flag = || rng.chance(40).then(|| rng.chance(50));
    let change = ChangeContact {
        uid: user(uid),
        peer: user(peer),
        favourite: flag(),
        pinned: flag(),
        muted: flag(),
        blocked: flag().filter(|_| uid != peer),
        deleted: false,
        by_user: rng.chance(60),
    };
    Command::ChangeContact(ChangeContact {
        deleted: rng.chance(30) || change.checked().is_err(),
        ..change
    })
}

/// A command in one of four groups of few users, of whom some are members and some are not. Services chose two of the gids.
pub(crate) fn group(rng: &mut Rng) -> Command {
    let one = |rng: &mut Rng| user(rng.between(1, 6));
    let some = |rng: &mut Rng| (0..rng.between(1, 3)).map(|_| one(rng)).collect::<Vec<_>>();
    let whom = |rng: &mut Rng| Some(one(rng)).filter(|_| rng.chance(60));
    let derived = &*DERIVED;
    let chosen = [4, 68].map(|gid| GroupId::try_from(gid).unwrap());
    let all = [chosen[0], chosen[0], chosen[1], derived[0].2, derived[1].2];
    let gid = *rng.pick(&all);
    // Mostly low uids, so that owners and admins act.
    let by = user(rng.between(1, 6).min(rng.between(1, 6)));
    let (by_user, to) = (rng.chance(60), Recipient::Group(gid));
    let action = match rng.below(44) {
        0..12 => {
            return Command::Send(SendMessage {
                by_user,
                srcid: by,
                to,
                client_msg_id: format!("c{}", rng.below(12)).try_into().unwrap(),
                msg: (*rng.pick(&TEXTS)).to_owned(),
            });
        }
        12..16 => {
            return Command::ReadAck(ReadAck {
                uid: by,
                to,
                device: *rng.pick(&DeviceClass::ALL),
                mid: rng
                    .chance(70)
                    .then(|| Mid::try_from(rng.between(1, 12)).unwrap()),
            });
        }
        16..21 => {
            return Command::ChangeMessage(ChangeMessage {
                by,
                to,
                mid: Mid::try_from(rng.between(1, 10)).unwrap(),
                change: change(rng),
            });
        }
        21..25 => return create(rng, gid, by, by_user, some),
        25..28 => GroupAction::Add(some(rng)),
        28..30 => GroupAction::Remove(some(rng)),
        30..32 => GroupAction::Join,
        32 | 39 | 40 => GroupAction::Leave,
        33 | 34 => GroupAction::SetRole {
            uid: one(rng),
            role: *rng.pick(&GroupRole::ALL),
        },
        35 => GroupAction::Rename((*rng.pick(&["Lunch", "Breakfast"])).to_owned()),
        36 => GroupAction::Mute(whom(rng)),
        37 => GroupAction::Unmute(whom(rng)),
        38 => GroupAction::SetOptions(SetGroupOptions {
            open: Some(rng.chance(50)),
            whole_history: rng.chance(50).then_some(true),
        }),
        41 | 42 => GroupAction::Add(some(rng)),
        _ if rng.chance(60) => GroupAction::Unmute(None),
        _ => GroupAction::Dissolve,
    };
    Command::ChangeGroup(ChangeGroup {
        gid,
        by,
        by_user,
        action,
    })
}

/// If the gid is derived, mostly by the owner from whom it is derived.
fn create(
    rng: &mut Rng,
    gid: GroupId,
    by: UserId,
    by_user: bool,
    members: impl Fn(&mut Rng) -> Vec<UserId>,
) -> Command {
    let own = DERIVED.iter().find(|own| own.2 == gid);
    let own = own.filter(|_| rng.chance(80));
    let action = GroupAction::Create(CreateGroup {
        name: (*rng.pick(&["Lunch", "Dinner"])).to_owned(),
        members: members(rng),
        open: rng.chance(70),
        whole_history: rng.chance(50),
        client_id: own.map(|(_, client_id, _)| client_id.clone()),
    });
    let by = own.filter(|_| rng.chance(80)).map_or(by, |own| own.0);
    Command::ChangeGroup(ChangeGroup {
        gid,
        by,
        by_user,
        action,
    })
}

/// A profile of one of two users of the partition, sometimes unchanged.
fn profile(rng: &mut Rng) -> Command {
    let text = |rng: &mut Rng, texts: &[&str; 2]| {
        let text = (*rng.pick(texts)).to_owned();
        rng.chance(50).then_some(text)
    };
    Command::SetProfile(Profile {
        uid: user(*rng.pick(&[4, 68])),
        nick: (*rng.pick(&TEXTS)).to_owned(),
        avatar: text(rng, &["https://a/1.png", "https://a/2.png"]),
        extra: text(rng, &["{}", "{ \"n\": 1 }"]),
    })
}

fn limits(rng: &mut Rng) -> Command {
    let mut maybe = |low, high| {
        let value = rng.between(low, high);
        rng.chance(60).then_some(value)
    };
    let mut limits = Control {
        rule_version: None,
        dedup_window_ms: maybe(0, 800),
        dedup_max_entries: maybe(1, 12),
        max_msg_bytes: maybe(20, 40),
        hash_key: None,
        dedup_max_per_sender: maybe(1, 8),
        new_conversations_per_day: maybe(0, 2),
        recall_window_ms: maybe(-1, 400),
        delete_for_all: maybe(0, 1).map(|allowed| allowed == 1),
        max_group_members: maybe(2, 6),
        new_memberships_per_day: maybe(0, 6),
        max_memberships_by_others: maybe(0, 2),
    };
    if rng.chance(40) {
        // Enough for rounds of several entries.
        limits.dedup_max_entries = Some(rng.between(128, 640));
    }
    Command::Control(limits)
}

fn beyond_limits(rng: &mut Rng) -> Command {
    let mut control = Control::default();
    match rng.below(14) {
        0 => control.rule_version = Some(0),
        1 => control.dedup_window_ms = Some(i64::MAX),
        2 => control.dedup_max_entries = Some(0),
        3 => control.max_msg_bytes = Some(65_536),
        // Under version 1 these change nothing; under version 2 all but the last are refused, and the last repeats what is in force.
        4 => control.rule_version = Some(1),
        5 => control.hash_key = Some(vec![7; 15]),
        6 => control.hash_key = Some(vec![8; 16]),
        7 => control.dedup_max_per_sender = Some(0),
        8 => control.new_conversations_per_day = Some(1_000_001),
        9 => control.recall_window_ms = Some(86_400_001),
        // Refused from version 3 on.
        10 => control.max_group_members = Some(0),
        // Refused from version 4 on.
        11 => control.new_memberships_per_day = Some(1_000_001),
        12 => control.max_memberships_by_others = Some(-1),
        _ => control.hash_key = Some(vec![7; 16]),
    }
    Command::Control(control)
}

/// A command that belongs to another partition.
fn elsewhere(rng: &mut Rng) -> Command {
    let mut command = send(rng);
    if let Command::Send(send) = &mut command {
        send.srcid = user(send.srcid.get() + 1);
    }
    if let (Command::ChangeGroup(change), true) = (group(rng), rng.chance(50)) {
        let gid = GroupId::try_from(change.gid.get() + 1).unwrap();
        return Command::ChangeGroup(ChangeGroup { gid, ..change });
    }
    if let (Command::SetProfile(mut profile), true) = (profile(rng), rng.chance(20)) {
        profile.uid = user(profile.uid.get() + 1);
        return Command::SetProfile(profile);
    }
    command
}

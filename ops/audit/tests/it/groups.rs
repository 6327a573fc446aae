//! Groups in the stores: what is no difference, and what is found.

use audit::{Area, Kind, Report, Scope};
use message_store::Month;
use schemas::{
    Change, ChangeGroup, ChangeMessage, ChangeSeq, CreateGroup, DeviceClass, GroupAction,
    GroupChange, GroupMember, GroupRole, GroupSettings, MessageChange, Mid, Ordinal, PartitionMap,
    Recipient, TableNumber, TimestampMs, UserId,
    command::{Command, ReadAck, SendMessage},
    event::{Body, Message, ReadPosition},
    topics::Topic,
};

use crate::{
    story::{now, user},
    test_env::{Harm, TestEnv},
};

/// A group in partition 8. The memberships of 1000 are in table 40, those of 1001 in 41, of 1002 in 42, of 7 in 7.
const GID: i64 = 5_000;

/// The events of a group; every event is right.
struct Group<'a> {
    env: &'a mut TestEnv,
    gid: i64,
    settings: GroupSettings,
    members: i64,
    sent: i64,
    change_seq: ChangeSeq,
}

impl<'a> Group<'a> {
    async fn begin(env: &'a mut TestEnv, gid: i64, others: &[i64]) -> Self {
        let settings = GroupSettings {
            name: "Lunch".to_owned(),
            owner: user(1_000),
            open: false,
            whole_history: false,
            muted: false,
            dissolved: false,
        };
        let asked = CreateGroup {
            name: "Lunch".to_owned(),
            members: users(others),
            open: false,
            whole_history: false,
            client_id: None,
        };
        let mut members = vec![member(1_000, Some(GroupRole::Owner), true)];
        let of_others = others
            .iter()
            .map(|uid| member(*uid, Some(GroupRole::Member), true));
        members.extend(of_others);
        let mut group = Self {
            env,
            gid,
            settings,
            members: 0,
            sent: 0,
            change_seq: ChangeSeq::ZERO,
        };
        group
            .change(1_000, GroupAction::Create(asked), |_| {}, &members)
            .await;
        group
    }

    async fn event(&mut self, asked: Command, body: Body) {
        self.env.story.in_group(asked, body).await;
    }

    async fn send(&mut self, by: i64, msg: &str) {
        self.sent += 1;
        let (asked, body) = sent(self.gid, by, &format!("g{}", self.sent), msg, self.sent);
        self.event(asked, body).await;
    }

    async fn read(&mut self, by: i64, device: DeviceClass, upto: i64) {
        let (uid, to, mid) = (user(by), to_group(self.gid), mid(upto));
        let asked = ReadAck {
            uid,
            to,
            device,
            mid: Some(mid),
        };
        let moved = ReadPosition {
            uid,
            to,
            device,
            mid,
            ordinal: None,
        };
        self.event(Command::ReadAck(asked), Body::ReadPosition(moved))
            .await;
    }

    async fn change_message(&mut self, by: i64, of: i64, change: Change) {
        self.change_seq = self.change_seq.next();
        let (by, to, mid, change_seq) = (user(by), to_group(self.gid), mid(of), self.change_seq);
        let asked = ChangeMessage {
            by,
            to,
            mid,
            change: change.clone(),
        };
        let made = MessageChange {
            by,
            to,
            mid,
            change,
            change_seq,
            ordinal: None,
        };
        self.event(Command::ChangeMessage(asked), Body::MessageChange(made))
            .await;
    }

    async fn change(
        &mut self,
        by: i64,
        action: GroupAction,
        set: impl FnOnce(&mut GroupSettings),
        members: &[GroupMember],
    ) {
        set(&mut self.settings);
        let joined = members.iter().filter(|one| one.joined).count() as i64;
        let left = members.iter().filter(|one| one.role.is_none()).count() as i64;
        self.members += joined - left;
        let (gid, by) = (self.gid.try_into().unwrap(), user(by));
        let change = GroupChange {
            gid,
            by,
            kind: action.change_kind(),
            settings: self.settings.clone(),
            member_count: if self.settings.dissolved {
                0
            } else {
                self.members
            },
            last_mid: self.sent.try_into().unwrap(),
            members: members.to_vec(),
        };
        let asked = ChangeGroup {
            gid,
            by,
            by_user: true,
            action,
        };
        let body = Body::GroupChange(Box::new(change));
        self.event(Command::ChangeGroup(asked), body).await;
    }
}

fn to_group(gid: i64) -> Recipient {
    Recipient::Group(gid.try_into().unwrap())
}

/// A send to a group, and its message.
fn sent(gid: i64, by: i64, id: &str, msg: &str, number: i64) -> (Command, Body) {
    let (srcid, to) = (user(by), to_group(gid));
    let client_msg_id: schemas::ClientMsgId = id.to_owned().try_into().unwrap();
    let send = SendMessage {
        srcid,
        to,
        client_msg_id: client_msg_id.clone(),
        msg: msg.to_owned(),
        by_user: true,
    };
    let message = Message {
        srcid,
        to,
        client_msg_id,
        msg: msg.to_owned(),
        mid: mid(number),
        ordinal: Ordinal::ZERO,
    };
    (Command::Send(send), Body::Message(message))
}

fn mid(mid: i64) -> Mid {
    mid.try_into().unwrap()
}

fn users(uids: &[i64]) -> Vec<UserId> {
    uids.iter().map(|uid| user(*uid)).collect()
}

fn member(uid: i64, role: Option<GroupRole>, joined: bool) -> GroupMember {
    GroupMember {
        uid: user(uid),
        role,
        muted: false,
        joined,
    }
}

fn compared(report: &Report, area: Area) -> u64 {
    report.check(area).unwrap().compared
}

async fn with_groups() -> TestEnv {
    add_groups(TestEnv::new().await).await
}

/// Adds a group in which everything happens, and one that was dissolved.
pub async fn add_groups(mut env: TestEnv) -> TestEnv {
    for partition in [8, 9] {
        let partition = partition.try_into().unwrap();
        env.story.begin_version_3(partition).await;
    }
    let mut group = Group::begin(&mut env, GID, &[7, 1_001]).await;
    group.send(1_000, "who is hungry?").await;
    group.send(1_001, "I am").await;
    group.send(7, "to be recalled").await;
    group.send(7, "so am I").await;
    group.env.catch_up().await;
    group.read(1_001, DeviceClass::Mobile, 3).await;
    let edit = |msg: &str| Change::Edit(msg.to_owned());
    group.change_message(1_001, 2, edit("I am, too")).await;
    group.change_message(1_000, 3, Change::Recall).await;
    group.change_message(7, 1, Change::Hide).await;
    group.change_message(7, 2, Change::Hide).await;
    group.change_message(1_001, 1, Change::Clear).await;
    let removed = [member(7, None, false)];
    let remove = GroupAction::Remove(users(&[7]));
    group.change(1_000, remove, |_| {}, &removed).await;
    let added = [
        member(7, Some(GroupRole::Member), true),
        member(1_002, Some(GroupRole::Member), true),
    ];
    let add = GroupAction::Add(users(&[7, 1_002]));
    group.change(1_000, add, |_| {}, &added).await;
    let muted = GroupMember {
        muted: true,
        ..member(1_001, Some(GroupRole::Member), false)
    };
    let mute = GroupAction::Mute(Some(user(1_001)));
    group.change(1_000, mute, |_| {}, &[muted]).await;
    group
        .change(
            1_002,
            GroupAction::Leave,
            |_| {},
            &[member(1_002, None, false)],
        )
        .await;
    group.env.catch_up().await;
    let rename = GroupAction::Rename("Dinner".to_owned());
    group
        .change(1_000, rename, |s| s.name = "Dinner".to_owned(), &[])
        .await;
    group.send(1_000, "at eight").await;
    group.change_message(1_000, 5, edit("at nine")).await;
    let mut ended = Group::begin(&mut env, GID + 1, &[1_001]).await;
    ended.send(1_001, "bye").await;
    ended
        .change(1_000, GroupAction::Dissolve, |s| s.dissolved = true, &[])
        .await;
    env.catch_up().await;
    env
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_none_and_were_compared() {
    let env = with_groups().await;
    let report = env.assert_sound().await;
    assert_eq!(compared(&report, Area::GroupMessages), 6);
    assert_eq!(compared(&report, Area::Changes), 6);
    assert_eq!(compared(&report, Area::Groups), 2);
    assert_eq!(compared(&report, Area::GroupMembers), 6);
    assert_eq!(compared(&report, Area::Memberships), 6);
    assert_eq!(compared(&report, Area::Hidden), 1);
    // 2 controls, 6 messages, 6 changes of them, a read position, and 8 changes of groups.
    assert_eq!(report.inbound.sequenced, 23);
    // For one user: in each group a row of the group and one of the user.
    let report = env.audit_of(Scope::User(user(1_001))).await;
    assert_eq!(report.differences(), 0, "{report}");
    assert_eq!(compared(&report, Area::GroupMembers), 2);
    assert_eq!(compared(&report, Area::Memberships), 2);
    assert_eq!(compared(&report, Area::GroupMessages), 0);
}

// The tables of the groups and of user 7 are in database 0, those of the other users in 1.
const HARMS: [Harm; 24] = [
    different(
        Area::GroupMessages,
        "group_msg_8: not as the change at",
        "UPDATE {p}0.group_msg_8 SET msg = 'I am' WHERE mid = 2",
        "UPDATE {p}0.group_msg_8 SET msg = 'I am, too' WHERE mid = 2",
    ),
    different(
        Area::GroupMessages,
        "group_msg_8: not as the change at",
        "UPDATE {p}0.group_msg_8 SET state = 0 WHERE mid = 3",
        "UPDATE {p}0.group_msg_8 SET state = 1 WHERE mid = 3",
    ),
    different(
        Area::GroupMessages,
        "group_msg_8: srcid",
        "UPDATE {p}0.group_msg_8 SET srcid = 8 WHERE mid = 4",
        "UPDATE {p}0.group_msg_8 SET srcid = 7 WHERE mid = 4",
    ),
    different(
        Area::GroupMessages,
        "group_msg_8: gid",
        "UPDATE {p}0.group_msg_8 SET gid = 5064 WHERE mid = 4",
        "UPDATE {p}0.group_msg_8 SET gid = 5000 WHERE mid = 4",
    ),
    Harm {
        kind: Kind::Missing,
        ..different(
            Area::GroupMessages,
            "group_msg_8: no row",
            "CREATE TABLE {p}0.kept_group_msg AS SELECT * FROM {p}0.group_msg_8 WHERE mid = 1; DELETE FROM {p}0.group_msg_8 WHERE mid = 1",
            "INSERT INTO {p}0.group_msg_8 SELECT * FROM {p}0.kept_group_msg; DROP TABLE {p}0.kept_group_msg",
        )
    },
    Harm {
        kind: Kind::Extra,
        ..different(
            Area::GroupMessages,
            "group_msg_8: no such message",
            "INSERT INTO {p}0.group_msg_8 (id, gid, mid, srcid, msg, ts, client_msg_id) SELECT id + 1000, gid, mid + 5, srcid, msg, ts, client_msg_id FROM {p}0.group_msg_8 LIMIT 1",
            "DELETE FROM {p}0.group_msg_8 WHERE id >= 1000",
        )
    },
    Harm {
        kind: Kind::Missing,
        ..different(
            Area::Changes,
            "msg_change_8: change 2 of g:5000: no row",
            "CREATE TABLE {p}0.kept_msg_change AS SELECT * FROM {p}0.msg_change_8 WHERE chg = 2; DELETE FROM {p}0.msg_change_8 WHERE chg = 2",
            "INSERT IGNORE INTO {p}0.msg_change_8 SELECT * FROM {p}0.kept_msg_change; DROP TABLE {p}0.kept_msg_change",
        )
    },
    different(
        Area::Changes,
        "msg_change_8: change 2 of g:5000: uid",
        "UPDATE {p}0.msg_change_8 SET uid = 7 WHERE chg = 2",
        "UPDATE {p}0.msg_change_8 SET uid = 1000 WHERE chg = 2",
    ),
    Harm {
        kind: Kind::Extra,
        ..different(
            Area::Changes,
            "msg_change_8: no change 9 of g:5000",
            "INSERT INTO {p}0.msg_change_8 (lo, hi, chg, mid, uid, change_kind, ts, id) SELECT lo, hi, 9, mid, uid, change_kind, ts, id + 1000 FROM {p}0.msg_change_8 WHERE chg = 2",
            "DELETE FROM {p}0.msg_change_8 WHERE chg = 9",
        )
    },
    different(
        Area::Groups,
        "group of g:5000: preview",
        "UPDATE {p}0.group_8 SET preview = 'at eight'",
        "UPDATE {p}0.group_8 SET preview = 'at nine'",
    ),
    different(
        Area::Groups,
        "group of g:5000: name",
        "UPDATE {p}0.group_8 SET name = 'Lunch'",
        "UPDATE {p}0.group_8 SET name = 'Dinner'",
    ),
    different(
        Area::Groups,
        "group of g:5001: dissolved",
        "UPDATE {p}0.group_9 SET dissolved = 0",
        "UPDATE {p}0.group_9 SET dissolved = 1",
    ),
    different(
        Area::Groups,
        "group of g:5000: pos",
        "UPDATE {p}0.group_8 SET pos = pos - 1",
        "UPDATE {p}0.group_8 SET pos = pos + 1",
    ),
    Harm {
        kind: Kind::Missing,
        ..different(
            Area::Groups,
            "group of g:5001: no row",
            "CREATE TABLE {p}0.kept_group AS SELECT * FROM {p}0.group_9; DELETE FROM {p}0.group_9",
            "INSERT INTO {p}0.group_9 SELECT * FROM {p}0.kept_group; DROP TABLE {p}0.kept_group",
        )
    },
    Harm {
        kind: Kind::Extra,
        ..different(
            Area::Groups,
            "group of g:5064: it is not in the log",
            "INSERT INTO {p}0.group_8 (gid, owner, name) VALUES (5064, 7, 'x')",
            "DELETE FROM {p}0.group_8 WHERE gid = 5064",
        )
    },
    Harm {
        kind: Kind::Extra,
        ..different(
            Area::Groups,
            "group of g:5001: in another table",
            "INSERT INTO {p}0.group_8 (gid, owner, name) VALUES (5001, 1000, 'Lunch')",
            "DELETE FROM {p}0.group_8 WHERE gid = 5001",
        )
    },
    different(
        Area::GroupMembers,
        "group_member of 1001 in g:5000: muted",
        "UPDATE {p}0.group_member_8 SET muted = 0 WHERE uid = 1001",
        "UPDATE {p}0.group_member_8 SET muted = 1 WHERE uid = 1001",
    ),
    different(
        Area::GroupMembers,
        "group_member of 1002 in g:5000: role",
        "UPDATE {p}0.group_member_8 SET role = 1 WHERE uid = 1002",
        "UPDATE {p}0.group_member_8 SET role = 0 WHERE uid = 1002",
    ),
    Harm {
        kind: Kind::Extra,
        ..different(
            Area::GroupMembers,
            "group_member of 9 in g:5000: it is not in the log",
            "INSERT INTO {p}0.group_member_8 (gid, uid, role, muted, join_mid, pos) VALUES (5000, 9, 1, 0, 0, 3)",
            "DELETE FROM {p}0.group_member_8 WHERE uid = 9",
        )
    },
    different(
        Area::Memberships,
        "membership of 1001 in g:5000: mobile_read_mid",
        "UPDATE {p}1.membership_41 SET mobile_read_mid = 4 WHERE gid = 5000",
        "UPDATE {p}1.membership_41 SET mobile_read_mid = 3 WHERE gid = 5000",
    ),
    different(
        Area::Memberships,
        "membership of 7 in g:5000: left_pos",
        "UPDATE {p}0.membership_7 SET left_pos = -2 - left_pos",
        "UPDATE {p}0.membership_7 SET left_pos = -2 - left_pos",
    ),
    Harm {
        kind: Kind::Missing,
        ..different(
            Area::Memberships,
            "membership of 1002 in g:5000: no row",
            "CREATE TABLE {p}1.kept_membership AS SELECT * FROM {p}1.membership_42; DELETE FROM {p}1.membership_42",
            "INSERT INTO {p}1.membership_42 SELECT * FROM {p}1.kept_membership; DROP TABLE {p}1.kept_membership",
        )
    },
    Harm {
        kind: Kind::Missing,
        ..different(
            Area::Hidden,
            "hidden of 7 in g:5000: mid 2",
            "DELETE FROM {p}0.hidden_7 WHERE mid = 2",
            "INSERT INTO {p}0.hidden_7 (uid, kind, peer, mid) VALUES (7, 1, 5000, 2)",
        )
    },
    Harm {
        kind: Kind::Extra,
        ..different(
            Area::Hidden,
            "hidden of 1001 in g:5000: mid 2",
            "INSERT INTO {p}1.hidden_41 (uid, kind, peer, mid) VALUES (1001, 1, 5000, 2)",
            "DELETE FROM {p}1.hidden_41",
        )
    },
];

const fn different(area: Area, what: &'static str, harm: &'static str, cure: &'static str) -> Harm {
    Harm {
        area,
        kind: Kind::Different,
        what,
        harm,
        cure,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_of_groups_is_found() {
    let env = with_groups().await;
    env.assert_sound().await;
    env.assert_finds_each(&HARMS).await;
    env.assert_sound().await;
    // A kind that no projection writes.
    env.sql("INSERT INTO {p}1.hidden_41 (uid, kind, peer, mid) VALUES (1001, 2, 5000, 2)")
        .await;
    env.assert_finds(
        Area::Contacts,
        Kind::Different,
        "kind, del_flag or pos of 1 rows",
    )
    .await;
}

/// Whole tables are compared first, then the rows that later events change.
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_groups_that_are_built_beside_the_live_ones_are_compared() {
    let mut env = with_groups().await;
    let mut audit = env.shadow_audit().await;
    let of_group = 8.try_into().unwrap();
    let of_user = TableNumber::of_user(user(1_000));
    // 5 messages, 6 changes, the group and its 4 members.
    let check = audit.messages(of_group).await.unwrap();
    assert_eq!((check.compared, check.differences()), (16, 0), "{check:?}");
    // The memberships in two groups.
    let check = audit.contacts(of_user).await.unwrap();
    assert_eq!((check.compared, check.differences()), (2, 0), "{check:?}");
    audit.begin_tail();

    // No event changed this row, so it is not compared again.
    env.sql("UPDATE {p}0.group_member_8 SET muted = 1 WHERE uid = 1002")
        .await;
    let (send, message) = sent(GID, 1_000, "later", "later", 6);
    env.story.in_group(send, message).await;
    env.catch_up().await;
    env.fold(&mut audit).await;
    // The message, the group, and the group's row of the sender.
    let check = audit.messages(of_group).await.unwrap();
    assert_eq!((check.compared, check.differences()), (3, 0), "{check:?}");
    env.sql("UPDATE {p}0.group_8 SET last_srcid = 7; UPDATE {p}1.membership_40 SET own_last_mid = 5 WHERE gid = 5000")
        .await;
    let check = audit.messages(of_group).await.unwrap();
    assert_eq!(check.differences(), 1, "{check:?}");
    assert!(check.examples[0].what.contains("last_srcid"), "{check:?}");
    let check = audit.contacts(of_user).await.unwrap();
    assert_eq!(check.differences(), 1, "{check:?}");
    assert!(check.examples[0].what.contains("own_last_mid"), "{check:?}");
}

/// 1001 and 7 leave a group; two days later 7 joins again, and 1002 leaves it.
#[tokio::test(flavor = "multi_thread")]
async fn who_left_long_ago_may_be_forgotten() {
    let mut env = TestEnv::new().await;
    env.story.begin_version_3(8.try_into().unwrap()).await;
    let mut group = Group::begin(&mut env, GID, &[7, 1_001, 1_002]).await;
    group.send(7, "hello").await;
    group.send(1_000, "hi").await;
    group.read(7, DeviceClass::Pc, 2).await;
    for uid in [7, 1_001] {
        let left = [member(uid, None, false)];
        group.change(uid, GroupAction::Leave, |_| {}, &left).await;
    }
    group.env.catch_up().await;
    let old = group.env.story.events.last().unwrap().offset + 1;
    let topic = group.env.sources.kafka.topic(Topic::Events);
    let store = group.env.sources.messages.clone();
    let forget = async |below: i64| {
        let below = PartitionMap::full(|_| below);
        store.forget_left(&topic, &below).await.unwrap()
    };
    assert_eq!(forget(old).await, 4);
    group.env.story.ahead_ms = 2 * 24 * 3_600_000;
    let added = [member(7, Some(GroupRole::Member), true)];
    let add = GroupAction::Add(users(&[7]));
    group.change(1_000, add, |_| {}, &added).await;
    group.send(1_000, "welcome back").await;
    let left = [member(1_002, None, false)];
    group.change(1_002, GroupAction::Leave, |_| {}, &left).await;
    env.catch_up().await;
    let report = env.assert_sound().await;
    let unchecked = "2 rows of who left groups, which were deleted";
    assert!(
        report.unchecked.iter().any(|one| one == unchecked),
        "{report}"
    );

    // A missing row of a member, or of a user who left just now, is found, and so is one above the offset.
    for (table, uid) in [("1.membership_42", 1_002), ("1.membership_40", 1_000)] {
        let keep = format!("CREATE TABLE {{p}}1.kept AS SELECT * FROM {{p}}{table}");
        env.sql(&keep).await;
        env.sql(&format!("DELETE FROM {{p}}{table} WHERE uid = {uid}"))
            .await;
        env.assert_finds(Area::Memberships, Kind::Missing, &uid.to_string())
            .await;
        env.sql(&format!(
            "INSERT INTO {{p}}{table} SELECT * FROM {{p}}1.kept"
        ))
        .await;
        env.sql("DROP TABLE {p}1.kept").await;
    }
    env.sql("UPDATE {p}1.resume_offset SET forgotten_below = 0 WHERE sink = 'contacts'")
        .await;
    env.assert_finds(Area::Memberships, Kind::Missing, "1001")
        .await;
    // A janitor never sets an offset that covers events of just now.
    let high = format!(
        "UPDATE {{p}}1.resume_offset SET forgotten_below = {} WHERE sink = 'contacts' AND partition_no = 8",
        old + 1
    );
    env.sql(&high).await;
    env.assert_finds(Area::ResumeOffsets, Kind::Different, "forgotten_below")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn months_of_groups_that_were_dropped_are_no_difference() {
    let mut env = TestEnv::with_story().await;
    env.story.begin_version_3(8.try_into().unwrap()).await;
    let mut group = Group::begin(&mut env, GID, &[1_001]).await;
    group.send(1_000, "hello").await;
    group.change_message(1_001, 1, Change::Hide).await;
    let later = TimestampMs(now().0 + 40 * 24 * 3_600_000);
    // A message in the newest month.
    let send = env.story.command(1_001, 1_000, "some weeks later");
    let cause = env.story.post(Command::Send(send.clone())).await;
    let message = env.story.number(&send);
    env.story
        .tell_at(cause, later, Body::Message(message))
        .await;
    let (send, message) = sent(GID, 1_000, "later", "some weeks later", 2);
    let cause = env.story.post(send).await;
    env.story.tell_at(cause, later, message).await;
    env.catch_up().await;
    let before = env.assert_sound().await;
    assert_eq!(compared(&before, Area::GroupMessages), 2);
    let month = Month::of(later).unwrap();
    let store = &env.sources.messages;
    assert!(store.drop_months(month, later).await.unwrap() > 0);
    let after = env.assert_sound().await;
    assert_eq!(compared(&after, Area::GroupMessages), 1);
    // A missing row of a later month is still found.
    let name = month.to_string().replace('-', "");
    env.sql(&format!(
        "ALTER TABLE {{p}}0.group_msg_8 TRUNCATE PARTITION p{name}"
    ))
    .await;
    env.assert_finds(Area::GroupMessages, Kind::Missing, "group_msg_8: no row")
        .await;
}

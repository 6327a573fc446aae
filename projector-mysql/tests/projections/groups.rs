//! Groups in MySQL: the same rows whether their events come one by one, in one batch, or once more.

use std::collections::{BTreeMap, BTreeSet};

use message_store::{GroupMemberRow, GroupRow, Membership, MessageRow, MessageState};
use schemas::{
    Change, DeviceClass, GroupChange, GroupChangeKind, GroupId, GroupMember, GroupRole,
    GroupSettings, MessageChange, Mid, Ordinal, PerDevice, Recipient, TableNumber, UserId,
    event::{Body, Message, ReadPosition},
    proto::ChangeKind,
};
use sqlx::AssertSqlSafe;

use crate::{log::user, test_env::TestEnv};

const GID: i64 = 5000;

/// All rows of the group, without the offsets that are other ones in each log.
#[derive(Debug, Default, PartialEq)]
struct Rows {
    group: Option<GroupRow>,
    messages: Vec<(i64, UserId, String, MessageState, bool)>,
    members: Vec<(UserId, Option<GroupRole>, bool, Mid)>,
    changes: Vec<(i64, i64, ChangeKind)>,
    memberships: BTreeMap<UserId, (bool, PerDevice<Mid>, Mid, bool)>,
    hidden: BTreeSet<(UserId, Mid)>,
}

fn gid() -> GroupId {
    GID.try_into().unwrap()
}

fn mid(mid: i64) -> Mid {
    mid.try_into().unwrap()
}

async fn rows(env: &TestEnv) -> Rows {
    let mut rows = Rows::default();
    let shard = env.store.layout().shard_of(gid().partition());
    let mut tx = env.store.snapshot(shard).await.unwrap();
    rows.group = tx.groups(&[gid()]).await.unwrap().pop();
    let messages = tx.page_after(gid(), Mid::ZERO, 100).await.unwrap();
    let message = |row: MessageRow| {
        let is_edited = row.edited_ts.is_some();
        (row.mid.get(), row.srcid, row.msg, row.state, is_edited)
    };
    rows.messages = messages.into_iter().map(message).collect();
    let number: TableNumber = gid().partition().into();
    let members = tx.scan_group_members(number, None, 100).await.unwrap();
    let member = |row: GroupMemberRow| (row.uid, row.role, row.muted, row.join_mid);
    rows.members = members.into_iter().map(member).collect();
    let changes = tx.changes_of_all(gid(), i64::MIN, 100).await.unwrap();
    let changes = changes.iter();
    rows.changes = changes
        .map(|row| (row.change_seq.get(), row.mid.get(), row.kind))
        .collect();
    for uid in 1..=4 {
        let shard = env.store.layout().shard_of_user(user(uid));
        let mut tx = env.store.snapshot(shard).await.unwrap();
        for row in tx.memberships(user(uid), None, 10).await.unwrap() {
            let of_row = |row: &Membership| {
                let has_own = row.own_pos > 0;
                (row.is_member(), row.read_mids(), row.clear_mid, has_own)
            };
            rows.memberships.insert(row.uid, of_row(&row));
        }
        let hidden = tx.hidden(user(uid), gid(), mid(1)..=mid(100));
        let hidden = hidden.await.unwrap();
        rows.hidden
            .extend(hidden.into_iter().map(|mid| (user(uid), mid)));
    }
    rows
}

fn settings(name: &str) -> GroupSettings {
    GroupSettings {
        name: name.to_owned(),
        owner: user(1),
        open: true,
        whole_history: false,
        muted: false,
        dissolved: false,
    }
}

type Concerned<'a> = &'a [(i64, Option<GroupRole>, bool)];

fn changed(
    by: i64,
    kind: GroupChangeKind,
    settings: GroupSettings,
    (count, last): (i64, i64),
    members: Concerned<'_>,
) -> Body {
    let members = members.iter().map(|(uid, role, joined)| GroupMember {
        uid: user(*uid),
        role: *role,
        muted: false,
        joined: *joined,
    });
    Body::GroupChange(Box::new(GroupChange {
        gid: gid(),
        by: user(by),
        kind,
        settings,
        member_count: count,
        last_mid: mid(last),
        members: members.collect(),
    }))
}

fn message(by: i64, number: i64, msg: &str) -> Body {
    Body::Message(Message {
        srcid: user(by),
        to: Recipient::Group(gid()),
        client_msg_id: format!("c{number}").try_into().unwrap(),
        msg: msg.to_owned(),
        mid: mid(number),
        ordinal: Ordinal::ZERO,
    })
}

fn change(by: i64, number: i64, of: i64, change: Change) -> Body {
    Body::MessageChange(MessageChange {
        by: user(by),
        to: Recipient::Group(gid()),
        mid: mid(of),
        change,
        change_seq: number.try_into().unwrap(),
        ordinal: None,
    })
}

/// 3 leaves and joins again, 4 leaves for good; 2 recalls a message, which is not the newest one.
fn story() -> Vec<Body> {
    use GroupChangeKind::{Add, Create, Join, Leave, Remove, Rename};
    let (owner, member) = (Some(GroupRole::Owner), Some(GroupRole::Member));
    let all = [(1, owner, true), (2, member, true), (3, member, true)];
    let lunch = || settings("Lunch");
    vec![
        changed(1, Create, lunch(), (3, 0), &all),
        message(1, 1, "Lunch at noon?"),
        changed(3, Leave, lunch(), (2, 1), &[(3, None, false)]),
        message(2, 2, "a secret"),
        changed(1, Add, lunch(), (3, 2), &[(4, member, true)]),
        changed(3, Join, lunch(), (4, 2), &[(3, member, true)]),
        change(2, 1, 2, Change::Recall),
        message(1, 3, "At one."),
        change(1, 2, 3, Change::Edit("At two.".to_owned())),
        changed(1, Rename, settings("Dinner"), (4, 3), &[]),
        Body::ReadPosition(ReadPosition {
            uid: user(3),
            to: Recipient::Group(gid()),
            device: DeviceClass::Pc,
            mid: mid(3),
            ordinal: None,
        }),
        change(3, 3, 1, Change::Hide),
        change(2, 4, 1, Change::Clear),
        change(1, 0, 3, Change::Hide),
        changed(1, Remove, settings("Dinner"), (3, 3), &[(4, None, false)]),
    ]
}

fn assert_right(rows: &Rows) {
    let group = rows.group.as_ref().unwrap();
    assert_eq!(group.settings, Some(settings("Dinner")));
    assert_eq!((group.member_count, group.change_seq.get()), (3, 4));
    let last = group.last.as_ref().unwrap();
    assert_eq!((last.mid, last.srcid), (mid(3), user(1)));
    assert_eq!(
        (last.preview.as_str(), last.change_seq.get()),
        ("At two.", 2)
    );
    let shown = MessageState::Shown;
    assert_eq!(
        rows.messages,
        [
            (1, user(1), "Lunch at noon?".to_owned(), shown, false),
            (2, user(2), String::new(), MessageState::Recalled, false),
            (3, user(1), "At two.".to_owned(), shown, true),
        ]
    );
    let (owner, member) = (Some(GroupRole::Owner), Some(GroupRole::Member));
    assert_eq!(
        rows.members,
        [
            (user(1), owner, false, Mid::ZERO),
            (user(2), member, false, Mid::ZERO),
            (user(3), member, false, mid(2)),
            (user(4), None, false, mid(2)),
        ]
    );
    let kinds = [
        ChangeKind::Hide,
        ChangeKind::Recall,
        ChangeKind::Edit,
        ChangeKind::Hide,
        ChangeKind::Clear,
    ];
    let changes = [(0, 3), (1, 2), (2, 3), (3, 1), (4, 1)]
        .into_iter()
        .zip(kinds);
    let changes: Vec<_> = changes
        .map(|((change_seq, mid), kind)| (change_seq, mid, kind))
        .collect();
    assert_eq!(rows.changes, changes);
    let read = |pc, mobile| PerDevice {
        pc: mid(pc),
        mobile: mid(mobile),
    };
    let memberships = [
        (user(1), (true, read(3, 3), Mid::ZERO, true)),
        (user(2), (true, read(2, 2), mid(1), false)),
        (user(3), (true, read(3, 2), Mid::ZERO, false)),
        (user(4), (false, read(2, 2), Mid::ZERO, false)),
    ];
    assert_eq!(rows.memberships, memberships.into());
    assert_eq!(rows.hidden, [(user(1), mid(3)), (user(3), mid(1))].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_the_same_one_by_one_in_one_batch_and_once_more() {
    for one_by_one in [true, false] {
        let mut env = TestEnv::new().await;
        let mut service = None;
        for body in story() {
            if one_by_one && service.is_none() {
                service = Some(env.start().await);
            }
            env.log.group(body).await;
            if one_by_one {
                env.caught_up().await;
            }
        }
        let service = match service {
            Some(service) => service,
            None => env.start().await,
        };
        env.caught_up().await;
        let once = rows(&env).await;
        assert_right(&once);
        service.stop().await;

        // Everything is read again: nobody who left is back, no text, and no former name.
        let mut admin = env.admin().await;
        for shard in env.store.layout().shards() {
            let prefix = &env.config.mysql.database_prefix;
            let sql = format!("DELETE FROM {prefix}{}.resume_offset", shard.get());
            let deleted = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await;
            deleted.unwrap();
        }
        let service = env.start().await;
        env.caught_up().await;
        assert_eq!(rows(&env).await, once);
        service.stop().await;
    }
}

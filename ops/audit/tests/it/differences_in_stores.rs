//! Breaks one thing by hand in a store; the audit finds it, and it is mended.

use std::time::Duration;

use audit::{Area, Kind, Scope};
use schemas::{Profile, StoredProfile, TimestampMs};
use unread_store::ProfileUpdate;

use crate::{
    story::user,
    test_env::{Harm, TestEnv},
};

// 1000 and 1001: messages and read positions in partition 17, contacts in tables 40 and 41. 7 and 40: partition 47; contacts in tables 7 and 40.
const IN_MYSQL: [Harm; 16] = [
    Harm {
        area: Area::Messages,
        kind: Kind::Different,
        what: "chat_msg_17: msg",
        harm: "UPDATE {p}0.chat_msg_17 SET msg = 'other' WHERE mid = 2",
        cure: "UPDATE {p}0.chat_msg_17 SET msg = 'an answer' WHERE mid = 2",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Missing,
        what: "chat_msg_47",
        harm: "CREATE TABLE {p}1.kept_chat_msg AS SELECT * FROM {p}1.chat_msg_47 WHERE mid = 2; DELETE FROM {p}1.chat_msg_47 WHERE mid = 2",
        cure: "INSERT INTO {p}1.chat_msg_47 SELECT * FROM {p}1.kept_chat_msg; DROP TABLE {p}1.kept_chat_msg",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Extra,
        what: "chat_msg_47",
        harm: "INSERT INTO {p}1.chat_msg_47 (id, srcid, destid, mid, msg, ts, hashvalue, client_msg_id, n) SELECT id + 1000, srcid, destid, mid + 5, msg, ts, hashvalue, client_msg_id, n FROM {p}1.chat_msg_47 LIMIT 1",
        cure: "DELETE FROM {p}1.chat_msg_47 WHERE id >= 1000",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Different,
        what: "cannot be read",
        harm: "UPDATE {p}0.chat_msg_17 SET mid = -2 WHERE mid = 2",
        cure: "UPDATE {p}0.chat_msg_17 SET mid = 2 WHERE mid = -2",
    },
    Harm {
        area: Area::ReadPositions,
        kind: Kind::Different,
        what: "mobileMid is 3, 4 is right",
        harm: "UPDATE {p}0.read_chat_mid_17 SET mobileMid = 3 WHERE uid = 1000",
        cure: "UPDATE {p}0.read_chat_mid_17 SET mobileMid = 4 WHERE uid = 1000",
    },
    Harm {
        area: Area::ReadPositions,
        kind: Kind::Missing,
        what: "read_chat_mid of 1001 with 1000",
        harm: "DELETE FROM {p}0.read_chat_mid_17 WHERE uid = 1001",
        cure: "INSERT INTO {p}0.read_chat_mid_17 (uid, sessionId, pcMid, hashvalue) VALUES (1001, '1000,1001', 6, 17)",
    },
    Harm {
        area: Area::ReadPositions,
        kind: Kind::Extra,
        what: "read_chat_mid of 40 with 7",
        harm: "INSERT INTO {p}1.read_chat_mid_47 (uid, sessionId, pcMid, hashvalue) VALUES (40, '7,40', 1, 47)",
        cure: "DELETE FROM {p}1.read_chat_mid_47 WHERE uid = 40",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Different,
        what: "chat_msg_17: hashvalue of 1 rows",
        harm: "UPDATE {p}0.chat_msg_17 SET hashvalue = 3 WHERE mid = 2",
        cure: "UPDATE {p}0.chat_msg_17 SET hashvalue = 17 WHERE mid = 2",
    },
    Harm {
        area: Area::ReadPositions,
        kind: Kind::Different,
        what: "read_chat_mid_17: hashvalue of 2 rows",
        harm: "UPDATE {p}0.read_chat_mid_17 SET hashvalue = 3",
        cure: "UPDATE {p}0.read_chat_mid_17 SET hashvalue = 17",
    },
    Harm {
        area: Area::ReadPositions,
        kind: Kind::Extra,
        what: "read_chat_mid_47: the row of 1000 in 7,40",
        harm: "INSERT INTO {p}1.read_chat_mid_47 (uid, sessionId, pcMid, hashvalue) VALUES (1000, '7,40', 1, 47)",
        cure: "DELETE FROM {p}1.read_chat_mid_47 WHERE uid = 1000",
    },
    Harm {
        area: Area::ReadPositions,
        kind: Kind::Extra,
        what: "read_chat_mid_47: the row of 1001 with 1000",
        harm: "INSERT INTO {p}1.read_chat_mid_47 (uid, sessionId, pcMid, hashvalue) VALUES (1001, '1000,1001', 6, 47)",
        cure: "DELETE FROM {p}1.read_chat_mid_47 WHERE uid = 1001",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact_40: kind, del_flag or pos of 1 rows",
        harm: "INSERT INTO {p}1.contact_40 (uid, kind, peer, pos) VALUES (1000, 1, 1001, 0)",
        cure: "DELETE FROM {p}1.contact_40 WHERE kind = 1",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact_40: kind, del_flag or pos of 1 rows",
        harm: "CREATE TABLE {p}1.kept_contact AS SELECT pos FROM {p}1.contact_40 WHERE peer = 1001; UPDATE {p}1.contact_40 SET pos = -1 WHERE peer = 1001",
        cure: "UPDATE {p}1.contact_40 SET pos = (SELECT pos FROM {p}1.kept_contact) WHERE peer = 1001; DROP TABLE {p}1.kept_contact",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact of 1000 with 1001: the last message",
        harm: "UPDATE {p}1.contact_40 SET preview = 'other' WHERE uid = 1000",
        cure: "UPDATE {p}1.contact_40 SET preview = 'said twice' WHERE uid = 1000",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact of 7 with 40: pc_read_n",
        harm: "UPDATE {p}0.contact_7 SET pc_read_n = NULL WHERE peer = 40",
        cure: "UPDATE {p}0.contact_7 SET pc_read_n = 1 WHERE peer = 40",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Extra,
        what: "contact of 1000 with 5",
        harm: "INSERT INTO {p}1.contact_40 (uid, peer, own_n, pos) VALUES (1000, 5, 1, 0)",
        cure: "DELETE FROM {p}1.contact_40 WHERE peer = 5",
    },
];

// The profiles of 1000, whose nick is Anne, and of 40 are both in user_40 of database 1.
const OF_PROFILES: [Harm; 7] = [
    Harm {
        area: Area::Profiles,
        kind: Kind::Different,
        what: "user of 1000: nick",
        harm: "UPDATE {p}1.user_40 SET nick = 'Ann' WHERE uid = 1000",
        cure: "UPDATE {p}1.user_40 SET nick = 'Anne' WHERE uid = 1000",
    },
    Harm {
        area: Area::Profiles,
        kind: Kind::Different,
        what: "user of 1000: extra",
        harm: "UPDATE {p}1.user_40 SET extra = '{\"a\":1}' WHERE uid = 1000",
        cure: "UPDATE {p}1.user_40 SET extra = '{ \"a\": 1 }' WHERE uid = 1000",
    },
    Harm {
        area: Area::Profiles,
        kind: Kind::Different,
        what: "user of 40: ts",
        harm: "UPDATE {p}1.user_40 SET ts = ts + INTERVAL 1 SECOND WHERE uid = 40",
        cure: "UPDATE {p}1.user_40 SET ts = ts - INTERVAL 1 SECOND WHERE uid = 40",
    },
    Harm {
        area: Area::Profiles,
        kind: Kind::Different,
        what: "user of 1000: pos",
        harm: "UPDATE {p}1.user_40 SET pos = pos + 1 WHERE uid = 1000",
        cure: "UPDATE {p}1.user_40 SET pos = pos - 1 WHERE uid = 1000",
    },
    Harm {
        area: Area::Profiles,
        kind: Kind::Missing,
        what: "user of 40: no profile",
        harm: "CREATE TABLE {p}1.kept_user AS SELECT * FROM {p}1.user_40 WHERE uid = 40; DELETE FROM {p}1.user_40 WHERE uid = 40",
        cure: "INSERT INTO {p}1.user_40 SELECT * FROM {p}1.kept_user; DROP TABLE {p}1.kept_user",
    },
    Harm {
        area: Area::Profiles,
        kind: Kind::Extra,
        what: "user of 104: it is not in the log",
        harm: "INSERT INTO {p}1.user_40 SELECT 104, nick, avatar, extra, ts, pos FROM {p}1.user_40 WHERE uid = 40",
        cure: "DELETE FROM {p}1.user_40 WHERE uid = 104",
    },
    Harm {
        area: Area::Profiles,
        kind: Kind::Extra,
        what: "user_41: the row of 40",
        harm: "INSERT INTO {p}1.user_41 SELECT * FROM {p}1.user_40 WHERE uid = 40",
        cure: "DELETE FROM {p}1.user_41",
    },
];

// Contacts of 1000 and of 1001 are in database 1; those of 7 are in database 0.
const OF_CHANGES: [Harm; 16] = [
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact_40: kind, del_flag or pos of 1 rows",
        harm: "UPDATE {p}1.contact_40 SET del_flag = 1 - del_flag WHERE uid = 1000 AND peer = 1001",
        cure: "UPDATE {p}1.contact_40 SET del_flag = 1 - del_flag WHERE uid = 1000 AND peer = 1001",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Different,
        what: "chat_msg_17: not as the change at",
        harm: "UPDATE {p}0.chat_msg_17 SET msg = 'to be recalled' WHERE mid = 3",
        cure: "UPDATE {p}0.chat_msg_17 SET msg = '' WHERE mid = 3",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Different,
        what: "chat_msg_17: not as the change at",
        harm: "UPDATE {p}0.chat_msg_17 SET state = 0 WHERE mid = 2",
        cure: "UPDATE {p}0.chat_msg_17 SET state = 2 WHERE mid = 2",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Different,
        what: "chat_msg_17: not as the change at",
        harm: "UPDATE {p}0.chat_msg_17 SET msg = 'question 0' WHERE mid = 1",
        cure: "UPDATE {p}0.chat_msg_17 SET msg = 'the best question' WHERE mid = 1",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Different,
        what: "chat_msg_17: not as the change at",
        harm: "UPDATE {p}0.chat_msg_17 SET edited_ts = edited_ts + INTERVAL 1 DAY WHERE mid = 1",
        cure: "UPDATE {p}0.chat_msg_17 SET edited_ts = edited_ts - INTERVAL 1 DAY WHERE mid = 1",
    },
    Harm {
        area: Area::Messages,
        kind: Kind::Different,
        what: "chat_msg_17: msg",
        harm: "UPDATE {p}0.chat_msg_17 SET state = 1 WHERE mid = 6",
        cure: "UPDATE {p}0.chat_msg_17 SET state = 0 WHERE mid = 6",
    },
    Harm {
        area: Area::Changes,
        kind: Kind::Missing,
        what: "msg_change_17: change 3 of 1000,1001: no row",
        harm: "CREATE TABLE {p}0.kept_msg_change AS SELECT * FROM {p}0.msg_change_17 WHERE chg = 3; DELETE FROM {p}0.msg_change_17 WHERE chg = 3",
        cure: "INSERT IGNORE INTO {p}0.msg_change_17 SELECT * FROM {p}0.kept_msg_change; DROP TABLE {p}0.kept_msg_change",
    },
    Harm {
        area: Area::Changes,
        kind: Kind::Different,
        what: "msg_change_17: change 5 of 1000,1001: mid, change_kind",
        harm: "UPDATE {p}0.msg_change_17 SET change_kind = 'hide', mid = 4 WHERE chg = 5",
        cure: "UPDATE {p}0.msg_change_17 SET change_kind = 'recall', mid = 3 WHERE chg = 5",
    },
    Harm {
        area: Area::Changes,
        kind: Kind::Extra,
        what: "msg_change_17: no change 10 of 1000,1001",
        harm: "INSERT INTO {p}0.msg_change_17 (lo, hi, chg, mid, uid, change_kind, ts, id) SELECT lo, hi, 10, mid, uid, change_kind, ts, id + 1000 FROM {p}0.msg_change_17 WHERE chg = 9",
        cure: "DELETE FROM {p}0.msg_change_17 WHERE chg = 10",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact of 1000 with 1001: muted",
        harm: "UPDATE {p}1.contact_40 SET muted = 0 WHERE peer = 1001",
        cure: "UPDATE {p}1.contact_40 SET muted = 1 WHERE peer = 1001",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact of 1000 with 937: blocked",
        harm: "UPDATE {p}1.contact_40 SET blocked = 0 WHERE peer = 937",
        cure: "UPDATE {p}1.contact_40 SET blocked = 1 WHERE peer = 937",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact of 7 with 40: deleted_mid",
        harm: "UPDATE {p}0.contact_7 SET deleted_mid = 3, del_flag = 0 WHERE peer = 40",
        cure: "UPDATE {p}0.contact_7 SET deleted_mid = 4, del_flag = 1 WHERE peer = 40",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact of 1001 with 1000: the last message",
        harm: "UPDATE {p}1.contact_41 SET preview = 'answer 3' WHERE peer = 1000",
        cure: "UPDATE {p}1.contact_41 SET preview = 'the last answer' WHERE peer = 1000",
    },
    Harm {
        area: Area::Contacts,
        kind: Kind::Different,
        what: "contact of 1001 with 1000: clear_mid",
        harm: "UPDATE {p}1.contact_41 SET clear_mid = 0 WHERE peer = 1000",
        cure: "UPDATE {p}1.contact_41 SET clear_mid = 4 WHERE peer = 1000",
    },
    Harm {
        area: Area::Hidden,
        kind: Kind::Missing,
        what: "hidden of 1000 with 1001: mid 5",
        harm: "DELETE FROM {p}1.hidden_40 WHERE mid = 5",
        cure: "INSERT INTO {p}1.hidden_40 (uid, peer, mid) VALUES (1000, 1001, 5)",
    },
    Harm {
        area: Area::Hidden,
        kind: Kind::Extra,
        what: "hidden of 40 with 7: mid 1",
        harm: "INSERT INTO {p}1.hidden_40 (uid, peer, mid) VALUES (40, 7, 1)",
        cure: "DELETE FROM {p}1.hidden_40 WHERE uid = 40",
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_after_changes_is_found() {
    let env = TestEnv::with_changes().await;
    env.assert_sound().await;
    env.assert_finds_each(&OF_CHANGES).await;
    env.assert_finds_each(&OF_PROFILES).await;
    env.assert_sound().await;
    // A user who clears a history or deletes a contact has read it.
    env.sql("UPDATE {p}0.read_chat_mid_17 SET pcMid = 3 WHERE uid = 1001")
        .await;
    env.assert_finds(
        Area::ReadPositions,
        Kind::Different,
        "pcMid is 3, 4 is right",
    )
    .await;
    env.sql("UPDATE {p}0.read_chat_mid_17 SET pcMid = 4 WHERE uid = 1001")
        .await;
    let report = env.assert_sound().await;
    assert_eq!(report.check(Area::Profiles).unwrap().compared, 2);
    assert_eq!(report.check(Area::CachedProfiles).unwrap().compared, 2);
    for (harm, what, cure) in [
        (
            ["HSET", "user-1000", "nick", "Ann"],
            "redis profiles of 1000: nick",
            ["HSET", "user-1000", "nick", "Anne"],
        ),
        (
            ["HSET", "user-1000", "pos", "0"],
            "redis profiles of 1000: pos",
            ["HSET", "user-1000", "pos", "x"],
        ),
    ] {
        env.redis(&harm).await;
        env.assert_finds(Area::CachedProfiles, Kind::Different, what)
            .await;
        env.redis(&cure).await;
    }
    env.assert_finds(Area::CachedProfiles, Kind::Different, "user-1000")
        .await;
    env.redis(&["DEL", "user-1000"]).await;
    let nobody = StoredProfile {
        profile: Profile {
            uid: user(104),
            nick: "Nobody".to_owned(),
            avatar: None,
            extra: None,
        },
        ts: TimestampMs(0),
        event_offset: 100,
    };
    let slot = env.sources.unread.slot_of(user(104));
    let nobody = [ProfileUpdate::of_event(nobody)];
    let connection = slot.connect().await.unwrap();
    connection.cache_profiles(&nobody).await.unwrap();
    let nobodys = "redis profiles of 104: it is not in the log";
    env.assert_finds(Area::CachedProfiles, Kind::Extra, nobodys)
        .await;
    env.redis(&["DEL", "user-104"]).await;
    env.redis(&["HSET", "state-7", "40", "4,3,4"]).await;
    env.redis(&["HSET", "pc-7", "40", "1"]).await;
    env.redis(&["PEXPIREAT", "pc-7", "9999999999999"]).await;
    env.assert_finds(
        Area::UnreadStates,
        Kind::Different,
        "pc_n: 4,3,4 is there, 4,4,4 is right",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_in_mysql_is_found() {
    let env = TestEnv::with_story().await;
    env.assert_finds_each(&IN_MYSQL).await;
    env.assert_sound().await;
    // In a database from before version 4 a contact has no pos until its next event.
    env.sql("UPDATE {p}1.schema_version SET applied_at = applied_at - INTERVAL 1 DAY WHERE version < 4; UPDATE {p}1.contact_40 SET pos = -1")
        .await;
    env.assert_sound().await;
    env.sql("DELETE FROM {p}1.contact_41 WHERE uid = 1001")
        .await;
    env.assert_finds(
        Area::Contacts,
        Kind::Missing,
        "contact of 1001 with 1000: no row",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_in_redis_is_found() {
    let env = TestEnv::with_story().await;
    let report = env.assert_sound().await;
    assert_eq!(report.check(Area::UnreadViews).unwrap().compared, 8);

    // 1001 sent three, and 1000 has read two of them on mobile.
    env.redis(&["HSET", "mobile-1000", "1001", "2"]).await;
    env.assert_finds(
        Area::UnreadViews,
        Kind::Different,
        "mobile-1000 of 1001: 2 unread, 1 is right",
    )
    .await;
    env.redis(&["HDEL", "mobile-1000", "1001"]).await;
    env.assert_finds(Area::UnreadViews, Kind::Missing, "mobile-1000 of 1001")
        .await;
    env.redis(&["HSET", "mobile-1000", "1001", "1"]).await;
    let state_at = "9999999999999";
    env.redis(&["PEXPIREAT", "mobile-1000", state_at]).await;

    env.redis(&["HSET", "pc-1000", "40", "1"]).await;
    env.assert_finds(Area::UnreadViews, Kind::Extra, "pc-1000 of 40")
        .await;
    env.redis(&["HDEL", "pc-1000", "40"]).await;

    // A wrong state, with the view that follows from it.
    env.redis(&["HSET", "state-7", "40", "4,1,0"]).await;
    env.redis(&["HSET", "pc-7", "40", "3"]).await;
    env.redis(&["HSET", "mobile-7", "40", "4"]).await;
    env.assert_finds(
        Area::UnreadStates,
        Kind::Different,
        "n: 4,1,0 is there, 3,1,0 is right",
    )
    .await;
    env.redis(&["HSET", "state-7", "40", "3,1,0"]).await;
    env.redis(&["HSET", "pc-7", "40", "2"]).await;
    env.redis(&["HSET", "mobile-7", "40", "3"]).await;
    env.assert_sound().await;

    env.redis(&["PERSIST", "state-7"]).await;
    env.assert_finds(Area::UnreadStates, Kind::Different, "never expires")
        .await;
    env.redis(&["PEXPIREAT", "state-7", state_at]).await;

    env.redis(&["DEL", "state-7"]).await;
    env.assert_finds(
        Area::UnreadViews,
        Kind::Extra,
        "a view of 7 without a valid state",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_that_cannot_be_compared_are_a_difference_where_they_are_shown() {
    let env = TestEnv::with_story().await;
    env.redis(&[
        "HSET",
        "state-7",
        "gen",
        "00000000-0000-0000-0000-000000000000",
    ])
    .await;
    env.assert_finds(
        Area::UnreadViews,
        Kind::Extra,
        "a view of 7 without a valid state",
    )
    .await;

    env.redis(&["DEL", "tidemark:mark:19"]).await;
    let what = "cannot be compared: Redis is without the watermark of partition 19";
    env.assert_finds(Area::UnreadViews, Kind::Missing, what)
        .await;
    // The result is the same for each of the two users.
    let of_one = env.audit_of(Scope::User(user(1000))).await;
    assert_eq!(of_one.differences(), 1, "{of_one}");
    // No user is shown any count.
    for uid in [1000, 1001, 7, 40] {
        for kind in ["state", "pc", "mobile"] {
            env.redis(&["DEL", &format!("{kind}-{uid}")]).await;
        }
    }
    let report = env.assert_sound().await;
    assert!(
        report.to_string().contains("not checked: unread counts"),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_sees_its_own_and_nothing_else() {
    let env = TestEnv::with_story().await;
    env.sql("UPDATE {p}0.chat_msg_17 SET msg = 'other' WHERE mid = 2")
        .await;
    env.sql("UPDATE {p}1.contact_40 SET own_n = 9 WHERE uid = 1000")
        .await;
    env.redis(&["HSET", "mobile-1000", "1001", "7"]).await;
    let differences = async |scope| env.audit_of(scope).await.differences();
    assert_eq!(
        differences(Scope::Conversation("1000,1001".parse().unwrap())).await,
        3
    );
    assert_eq!(
        differences(Scope::Conversation("7,40".parse().unwrap())).await,
        0
    );
    assert_eq!(differences(Scope::User(user(1000))).await, 3);
    // The message belongs to these users as well; the contact and the count do not.
    assert_eq!(differences(Scope::User(user(1001))).await, 1);
    assert_eq!(differences(Scope::User(user(40))).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_whose_ordinal_is_being_looked_up_is_no_difference() {
    let env = TestEnv::with_story().await;
    // The state after an ack that came while the audit ran.
    env.sql("INSERT INTO {p}0.unresolved_read SELECT 'contacts', uid, peer, 'pc', pc_read_mid, 47, 1000000 FROM {p}0.contact_7 WHERE peer = 40")
        .await;
    env.sql("UPDATE {p}0.contact_7 SET pc_read_n = NULL WHERE peer = 40")
        .await;
    let look_up = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        env.sql("UPDATE {p}0.contact_7 SET pc_read_n = 1 WHERE peer = 40; DELETE FROM {p}0.unresolved_read")
            .await;
    };
    tokio::join!(env.assert_sound(), look_up);
}

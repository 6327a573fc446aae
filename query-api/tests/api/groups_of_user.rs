//! The groups of a user.

use std::collections::BTreeMap;

use message_store::{ConversationRows, Membership, Shard, Sink};
use schemas::{Change, GroupId, GroupRole, UserId};
use serde_json::{Value, json};

use crate::{
    chat::{fresh_user, mid},
    deployment::{Deployment, partition},
    group::{Group, write_memberships},
    service::{Service, env},
};

fn list(uid: UserId) -> String {
    format!("/v1/users/{uid}/groups")
}

fn gids(body: &Value) -> Vec<GroupId> {
    let items = body["items"].as_array().unwrap();
    let gid = |item: &Value| item["gid"].as_str().unwrap().parse().unwrap();
    items.iter().map(gid).collect()
}

/// The only group of a user.
async fn only(service: &Service, uid: UserId) -> Value {
    let mut body = service.ok(&list(uid)).await;
    assert_eq!(gids(&body).len(), 1, "{body}");
    body["items"][0].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_a_user_shows_its_newest_message_and_the_users_place_in_it() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    let admin = fresh_user();
    group.join(admin, GroupRole::Admin);
    group.say(group.owner, "one");
    group.say(group.owner, &"\u{1f30a}".repeat(300));
    group.read(admin, 1, 0);
    group.write(deployment).await;
    let item = only(&service, admin).await;
    let expected = json!({
        "gid": group.gid, "name": "Lunch", "role": "admin", "muted": false, "dissolved": false, "member_count": 2,
        "whole_history": false, "join_mid": 0,
        "last": {
            "mid": 2, "srcid": group.owner, "gid": group.gid, "msg": "\u{1f30a}".repeat(200),
            "ts": item["last"]["ts"], "client_msg_id": null,
        },
        "last_mid": 2, "chg": 0, "unread": {"pc": 1, "mobile": 2}, "read_mid": {"pc": 1, "mobile": 0},
        "at": item["at"],
    });
    assert_eq!(item, expected);
    let of_group = format!("{}:", group.gid.partition());
    assert!(
        item["at"].as_str().unwrap().starts_with(&of_group),
        "{item}"
    );
    assert_eq!(
        service.ok(&list(fresh_user())).await,
        json!({"items": [], "next": null})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_is_what_came_after_reading_sending_joining_and_clearing() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    let sender = group.joined();
    for n in 1..=4 {
        group.say(group.owner, &format!("message {n}"));
    }
    let joined = group.joined();
    let cleared = group.joined();
    group.say(sender, "five");
    for n in 6..=10 {
        group.say(group.owner, &format!("message {n}"));
    }
    group.change(cleared, 8, Change::Clear);
    let reader = group.joined();
    group.join(reader, GroupRole::Member);
    let row = group.memberships.get_mut(&reader).unwrap();
    row.join_mid = mid(0);
    group.read(reader, 7, 10);
    // A read position may be ahead of a group that is not projected so far.
    let ahead = group.joined();
    group.read(ahead, 12, 3);
    // The newest message is the owner's, and the membership has not heard of it.
    group.membership(group.owner).own_last_mid = mid(6);
    group.write(deployment).await;
    for (uid, unread, read_mid) in [
        (sender, (5, 5), (5, 5)),
        (joined, (6, 6), (4, 4)),
        (cleared, (2, 2), (8, 8)),
        (reader, (3, 0), (7, 10)),
        (ahead, (0, 0), (12, 10)),
        (group.owner, (0, 0), (10, 10)),
    ] {
        let item = only(&service, uid).await;
        let of = |(pc, mobile): (i64, i64)| json!({"pc": pc, "mobile": mobile});
        assert_eq!(item["unread"], of(unread), "{uid}");
        assert_eq!(item["read_mid"], of(read_mid), "{uid}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_message_is_shown_as_the_member_sees_it() {
    let (deployment, service) = env().await;
    let shown = async |by_me: bool, change: Change| {
        let mut group = Group::new();
        let me = group.joined();
        group.say(group.owner, "hello");
        group.change(if by_me { me } else { group.owner }, 1, change);
        group.write(deployment).await;
        let item = only(&service, me).await;
        assert_eq!((&item["last_mid"], &item["chg"]), (&json!(1), &json!(1)));
        item["last"].clone()
    };
    for unseen in [Change::Hide, Change::Clear, Change::Delete] {
        assert_eq!(shown(true, unseen.clone()).await, json!(null), "{unseen:?}");
    }
    for only_theirs in [Change::Hide, Change::Clear] {
        assert_eq!(shown(false, only_theirs).await["msg"], "hello");
    }
    let last = shown(false, Change::Recall).await;
    assert_eq!(
        (&last["msg"], &last["recalled"]),
        (&json!(""), &json!(true))
    );
    assert_eq!(
        shown(false, Change::Edit("hallo".to_owned())).await["msg"],
        "hallo"
    );

    for whole_history in [false, true] {
        let mut group = Group::new();
        group.settings.whole_history = whole_history;
        group.say(group.owner, "before");
        let late = group.joined();
        group.write(deployment).await;
        let item = only(&service, late).await;
        assert_eq!(item["last"]["msg"] == "before", whole_history);
        assert_eq!(item["unread"], json!({"pc": 0, "mobile": 0}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_were_left_or_are_not_there_yet_are_left_out_and_dissolved_ones_stay() {
    let (deployment, service) = env().await;
    let me = fresh_user();
    let mut dissolved = Group::new();
    dissolved.join(me, GroupRole::Member);
    dissolved.say(dissolved.owner, "farewell");
    dissolved.dissolve();
    let mut left = Group::new();
    left.join(me, GroupRole::Member);
    left.leave(me);
    // One of the two sinks has heard that the user left.
    for memberships_first in [false, true] {
        let mut leaving = Group::new();
        leaving.join(me, GroupRole::Member);
        leaving.write(deployment).await;
        leaving.leave(me);
        if memberships_first {
            leaving.write_memberships(deployment).await;
        } else {
            leaving.write_group(deployment).await;
        }
    }
    let mut absent = Group::new();
    absent.join(me, GroupRole::Member);
    absent.write_memberships(deployment).await;
    for group in [&dissolved, &left] {
        group.write(deployment).await;
    }
    let item = only(&service, me).await;
    assert_eq!(item["gid"], json!(dissolved.gid));
    assert_eq!(
        (&item["dissolved"], &item["member_count"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(item["unread"], json!({"pc": 0, "mobile": 0}));
}

/// Many groups of one user, and what the others in them have is not written.
pub async fn many(deployment: &Deployment, me: UserId, count: usize) -> Vec<GroupId> {
    let mut by_shard: BTreeMap<Shard, ConversationRows> = BTreeMap::new();
    let mut memberships: Vec<Membership> = Vec::new();
    for _ in 0..count {
        let mut group = Group::new();
        group.join(me, GroupRole::Member);
        group.say(group.owner, "hello");
        let rows = by_shard.entry(deployment.shard_of(group.gid.partition()));
        let rows = rows.or_default();
        let of_group = group.rows();
        rows.messages.extend(of_group.messages);
        rows.groups.extend(of_group.groups);
        rows.members.extend(of_group.members);
        memberships.push(group.memberships[&me].clone());
    }
    for (shard, rows) in by_shard {
        deployment.write_rows(shard, &rows).await;
    }
    let rows: Vec<&Membership> = memberships.iter().collect();
    write_memberships(deployment, &rows).await;
    let mut gids: Vec<GroupId> = memberships.iter().map(|row| row.gid).collect();
    gids.sort();
    gids
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_groups_are_one_call_or_several() {
    let (deployment, service) = env().await;
    let me = fresh_user();
    let expected = many(deployment, me, 501).await;
    let body = service.ok(&format!("{}?limit=500", list(me))).await;
    assert_eq!(gids(&body), expected[..500]);
    for item in body["items"].as_array().unwrap() {
        assert_eq!(item["last"]["msg"], "hello");
        assert_eq!(item["unread"], json!({"pc": 1, "mobile": 1}));
    }
    assert_eq!(body["next"], json!(expected[499]));
    let body = service.ok(&list(me)).await;
    assert_eq!(gids(&body).len(), 100);
    for limit in [83, 167, 500] {
        let mut all = Vec::new();
        let mut page = service.ok(&format!("{}?limit={limit}", list(me))).await;
        all.extend(gids(&page));
        while let Some(cursor) = page["next"].as_str() {
            let path = format!("{}?limit={limit}&cursor={cursor}", list(me));
            page = service.ok(&path).await;
            assert!(!gids(&page).is_empty());
            all.extend(gids(&page));
        }
        assert_eq!(all, expected, "{limit} at a time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_groups_wait_for_the_memberships_and_for_the_groups_in_them() {
    let (deployment, service) = env().await;
    let p = partition(24);
    let group = Group::of(24.try_into().unwrap(), fresh_user());
    let own = deployment.shard_of_user(group.owner);
    let path = |query: &str| format!("{}?timeout_ms=300&{query}", list(group.owner));
    let late = service.get(&path("after=24:3")).await;
    let words = "MySQL (contacts) has not reached 24:3 within 300 ms";
    assert_eq!((late.status, late.detail()), (504, words));
    deployment.advance(Sink::Contacts, own, p, 3).await;
    // No group of the partition is listed.
    assert_eq!(
        service.ok(&path("after=24:3")).await["as_of"],
        json!(["24:3"])
    );
    group.write(deployment).await;
    let late = service.get(&path("after=24:3")).await;
    let words = "MySQL (messages) has not reached 24:3 within 300 ms";
    assert_eq!((late.status, late.detail()), (504, words));
    deployment
        .advance(Sink::Messages, deployment.shard_of(p), p, 3)
        .await;
    let body = service.ok(&path("after=24:3")).await;
    assert_eq!(
        (gids(&body), &body["as_of"]),
        (vec![group.gid], &json!(["24:3"]))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_a_list_of_groups_that_are_wrong_are_named() {
    let (_, service) = env().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("cursor=0", "cursor"),
        ("cursor=x", "cursor"),
        ("after=64:1", "after"),
        ("uid=1000", "uid"),
    ] {
        let answer = service
            .get(&format!("{}?{query}", list(fresh_user())))
            .await;
        assert_eq!(answer.field(), field, "{query}");
    }
    assert_eq!(service.get("/v1/users/0/groups").await.field(), "uid");
}

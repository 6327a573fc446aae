//! Groups in a user's list of conversations.

use message_store::{ContactDelta, FlagsAt, LastMessage, MessageState, Sink};
use schemas::{Change, ChangeSeq, ContactFlags, GroupId, GroupRole, TimestampMs, UserId};
use serde_json::{Value, json};

use crate::{
    chat::{Chat, fresh_user, mid, ordinal},
    deployment::{now, partition},
    group::Group,
    groups_of_user::many,
    service::{Service, env},
};

fn list(uid: UserId) -> String {
    format!("/v1/users/{uid}/conversations")
}

/// (number, is a user) of each item.
fn found(body: &Value) -> Vec<(i64, bool)> {
    let items = body["items"].as_array().unwrap();
    let of = |item: &Value| {
        let is_user = item.get("peer").is_some();
        assert_ne!(is_user, item.get("gid").is_some(), "{item}");
        let number = item.get("peer").or(item.get("gid")).unwrap();
        (number.as_str().unwrap().parse().unwrap(), is_user)
    };
    items.iter().map(of).collect()
}

async fn walk(service: &Service, uid: UserId, limit: usize) -> Vec<(i64, bool)> {
    let mut all = Vec::new();
    let mut page = service.ok(&format!("{}?limit={limit}", list(uid))).await;
    loop {
        assert!(found(&page).len() <= limit);
        all.extend(found(&page));
        let Some(cursor) = page["next"].as_str() else {
            return all;
        };
        let path = format!("{}?limit={limit}&cursor={cursor}", list(uid));
        page = service.ok(&path).await;
    }
}

fn contact(me: UserId, peer: UserId, ts: TimestampMs) -> ContactDelta {
    ContactDelta {
        last: Some(LastMessage {
            mid: mid(1),
            ts,
            srcid: peer,
            preview: "hello".to_owned(),
            change_seq: ChangeSeq::ZERO,
            state: MessageState::Shown,
        }),
        peer_ordinal: ordinal(1),
        event_offset: 1,
        ..ContactDelta::new(me, peer)
    }
}

/// Users and groups with the same numbers and times: each is there once, whatever the size of a page.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_users_and_groups_put_together_are_the_whole() {
    let (deployment, service) = env().await;
    let me = fresh_user();
    let first = fresh_user().get() / 2;
    let base = now().0 - 1_000;
    let pins = ContactFlags {
        pinned: true,
        ..ContactFlags::default()
    };
    let mut expected = Vec::new();
    let mut contacts = Vec::new();
    for i in 0..30_i64 {
        let (number, ts) = (first + i * 7 % 30, base - i / 6);
        if i % 4 != 3 {
            let mut contact = contact(me, number.try_into().unwrap(), TimestampMs(ts));
            let pinned = i % 5 == 2;
            contact.flags = pinned.then_some(FlagsAt {
                event_offset: 1,
                flags: pins,
            });
            contacts.push(contact);
            expected.push((pinned, ts, number, true));
        }
        if i % 3 != 2 {
            let gid: GroupId = number.try_into().unwrap();
            let mut group = Group::of(gid, fresh_user());
            group.join(me, GroupRole::Member);
            group.say_at(group.owner, "hello", TimestampMs(ts));
            group.write(deployment).await;
            expected.push((false, ts, number, false));
        }
    }
    // What is not shown takes its place on a page, or none.
    let mut deleted = contact(me, (first + 100).try_into().unwrap(), TimestampMs(base - 2));
    deleted.deleted_mid = mid(1);
    contacts.push(deleted);
    let mut late = Group::new();
    late.say(late.owner, "before");
    late.join(me, GroupRole::Member);
    late.write(deployment).await;
    deployment.write_contacts(&contacts).await;
    expected.sort_by(|a, b| b.cmp(a));
    let expected: Vec<(i64, bool)> = expected
        .into_iter()
        .map(|(.., number, is_user)| (number, is_user))
        .collect();
    for limit in [1, 2, 5, 9, 16, 42, 43, 44, 200] {
        assert_eq!(
            walk(&service, me, limit).await,
            expected,
            "{limit} at a time"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_in_the_list_has_its_name_and_what_is_unread() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    let me = group.joined();
    group.say(group.owner, "one");
    group.say(group.owner, "two");
    group.read(me, 1, 2);
    group.write(deployment).await;
    let mut chat = Chat::between(me, fresh_user());
    chat.say(chat.peer, "hello", 60_000);
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let body = service.ok(&list(me)).await;
    let item = &body["items"][0];
    let expected = json!({
        "gid": group.gid, "name": "Lunch",
        "last": {
            "mid": 2, "srcid": group.owner, "gid": group.gid, "msg": "two", "ts": item["last"]["ts"], "client_msg_id": null,
        },
        "last_mid": 2, "chg": 0, "favourite": false, "pinned": false, "muted": false, "blocked": false,
        "unread": {"pc": 1, "mobile": 0}, "read_mid": {"pc": 1, "mobile": 2},
    });
    assert_eq!(item, &expected);
    assert_eq!(body["items"][1]["peer"], json!(chat.peer));
    assert_eq!(body["items"][1]["last"]["destid"], json!(me));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_the_user_has_cleared_or_whose_newest_message_is_hidden_stays() {
    let (deployment, service) = env().await;
    for change in [Change::Hide, Change::Clear, Change::Delete] {
        let mut group = Group::new();
        let me = group.joined();
        group.say(me, "hello");
        group.change(me, 1, change.clone());
        group.write(deployment).await;
        let body = service.ok(&list(me)).await;
        assert_eq!(found(&body), [(group.gid.get(), false)], "{change:?}");
        assert_eq!(body["items"][0]["last"], json!(null), "{change:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_groups_than_one_statement_reads_are_all_in_the_list() {
    let (deployment, service) = env().await;
    let me = fresh_user();
    let mut expected = many(deployment, me, 1_003).await;
    let mut all: Vec<GroupId> = Vec::new();
    for (number, is_user) in walk(&service, me, 200).await {
        assert!(!is_user);
        all.push(number.try_into().unwrap());
    }
    all.sort();
    expected.sort();
    assert_eq!(all, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_waits_for_the_groups_in_it() {
    let (deployment, service) = env().await;
    let p = partition(25);
    let mut group = Group::of(25.try_into().unwrap(), fresh_user());
    group.say(group.owner, "hello");
    let own = deployment.shard_of_user(group.owner);
    let path = format!("{}?after=25:3&timeout_ms=300", list(group.owner));
    deployment.advance(Sink::Contacts, own, p, 3).await;
    assert_eq!(service.ok(&path).await["as_of"], json!(["25:3"]));
    group.write(deployment).await;
    let late = service.get(&path).await;
    let words = "MySQL (messages) has not reached 25:3 within 300 ms";
    assert_eq!((late.status, late.detail()), (504, words));
    deployment
        .advance(Sink::Messages, deployment.shard_of(p), p, 4)
        .await;
    let body = service.ok(&path).await;
    assert_eq!(found(&body), [(25, false)]);
    assert_eq!(body["as_of"], json!(["25:3"]));
}

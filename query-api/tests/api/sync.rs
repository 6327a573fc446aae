//! What is new for a device.

use std::{collections::BTreeSet, time::Instant};

use client::{Client, Retry};
use message_store::{DeviceRow, OffsetUpdate, Sink};
use schemas::{
    Change, ContactFlags, DeviceClass, DeviceId, DirectConversation, GroupId, GroupRole,
    LogPosition, NextOffset, Partition, PartitionMap, SyncPage, SyncToken, TimestampMs, UserId,
    event::SourceOffset,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    chat::fresh_user,
    deployment::{Deployment, now, user},
    service::Service,
    sync_device::{Device, count, rows},
    sync_log::SyncLog,
};

async fn env() -> (SyncLog, Service) {
    let log = SyncLog::open().await;
    let service = Service::start(&log.deployment.config).await;
    (log, service)
}

/// Users whose number has this rest of 64, so that the conversations of two of them are in one partition.
fn users(count: i64) -> Vec<UserId> {
    let first = fresh_user().get() / 64 / 1_000 * 64;
    (0..count).map(|n| user(first.max(64) + n * 64)).collect()
}

fn group_of(uid: UserId) -> GroupId {
    uid.get().try_into().unwrap()
}

/// The only row of an answer.
fn only<'a>(answer: &'a Value, name: &str) -> &'a Value {
    assert_eq!(
        (count(answer), rows(answer, name).len()),
        (1, 1),
        "{answer}"
    );
    &rows(answer, name)[0]
}

/// The pages that a device fetches are of another store than its sync.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_as_new_as_the_token_that_it_is_asked_for_with() {
    let (mut log, service) = env().await;
    let [me, peer] = users(2).try_into().unwrap();
    log.send(peer, me, "one");
    log.project_all().await;
    log.send(peer, me, "two");
    log.change(peer, me, 1, Change::Recall);
    log.project(Sink::Contacts).await;
    let mut device = Device::new(me);
    device.page(&service, 200).await;
    let token = device.token.unwrap();
    let conversation = format!("/v1/users/{me}/conversations/{peer}");
    for what in ["messages", "changes"] {
        let path = format!("{conversation}/{what}?after={token}&timeout_ms=100");
        let answer = service.get(&path).await;
        assert_eq!(answer.status, 504, "{}", answer.body);
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains("which the token covers"), "{detail}");
    }
    log.project(Sink::Messages).await;
    let page = service
        .ok(&format!("{conversation}/messages?after={token}"))
        .await;
    assert_eq!(rows(&page, "items").len(), 2);
    let page = service
        .ok(&format!("{conversation}/changes?after={token}"))
        .await;
    assert_eq!(rows(&page, "items").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_comes_once_with_every_change_that_a_device_must_learn_of() {
    let (mut log, service) = env().await;
    let [me, peer, other] = users(3).try_into().unwrap();
    log.send(other, me, "unchanged");
    log.send(peer, me, "one");
    log.send(me, peer, "two");
    log.send(peer, me, "three");
    log.project_all().await;
    let mut device = Device::new(me);
    let first = device.page(&service, 200).await;
    assert_eq!(
        (&first["full"], &first["more"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(count(&first), 2);
    let list = service.ok(&format!("/v1/users/{me}/conversations")).await;
    let of = |peer: UserId| {
        let mut items = rows(&list, "items").iter();
        items.find(|item| item["peer"] == json!(peer)).unwrap()
    };
    let mut listed = of(peer).clone();
    listed["last"]["client_msg_id"] = json!(null);
    // What lists do not have.
    listed["peer_n"] = json!(2);
    listed["at"] = device.conversations[&peer.to_string()]["at"].clone();
    assert_eq!(listed["at"], json!(log.last_at(me, peer)));
    assert_eq!(device.conversations[&peer.to_string()], listed);
    let pinned = ContactFlags {
        pinned: true,
        ..ContactFlags::default()
    };
    type Step = fn(&mut SyncLog, UserId, UserId);
    let steps: [(&str, Step, &str, Value); 11] = [
        (
            "sent",
            |l, me, peer| l.send(me, peer, "four"),
            "/last/msg",
            json!("four"),
        ),
        (
            "received",
            |l, me, peer| l.send(peer, me, "five"),
            "/unread/pc",
            json!(3),
        ),
        (
            "read on a pc",
            |l, me, peer| l.read(me, peer, DeviceClass::Pc, 4),
            "/read_mid/pc",
            json!(4),
        ),
        (
            "read on a phone",
            |l, me, peer| l.read(me, peer, DeviceClass::Mobile, 5),
            "/unread/mobile",
            json!(0),
        ),
        (
            "older recalled",
            |l, me, peer| l.change(peer, me, 1, Change::Recall),
            "/chg",
            json!(1),
        ),
        (
            "edited",
            |l, me, peer| l.change(peer, me, 5, Change::Edit("5".to_owned())),
            "/last/msg",
            json!("5"),
        ),
        (
            "recalled",
            |l, me, peer| l.change(peer, me, 5, Change::Recall),
            "/last/recalled",
            json!(true),
        ),
        (
            "hidden",
            |l, me, peer| l.change(me, peer, 5, Change::Hide),
            "/last",
            json!(null),
        ),
        (
            "cleared",
            |l, me, peer| l.change(me, peer, 5, Change::Clear),
            "/chg",
            json!(5),
        ),
        (
            "deleted",
            |l, me, peer| l.contact(me, peer, ContactFlags::default(), true),
            "/deleted",
            json!(true),
        ),
        (
            "back again",
            |l, me, peer| l.send(peer, me, "six"),
            "/last/msg",
            json!("six"),
        ),
    ];
    for (what, step, pointer, value) in steps {
        step(&mut log, me, peer);
        log.project_all().await;
        let answer = device.page(&service, 200).await;
        let item = only(&answer, "conversations");
        assert_eq!(item["peer"], json!(peer), "{what}");
        assert_eq!(item.pointer(pointer), Some(&value), "{what}: {item}");
        assert_eq!(
            (&answer["full"], count(&device.page(&service, 200).await)),
            (&json!(false), 0),
            "{what}"
        );
    }
    log.contact(me, peer, pinned, false);
    // What the peer reads concerns nobody else.
    log.read(peer, me, DeviceClass::Pc, 6);
    log.project_all().await;
    let answer = device.page(&service, 200).await;
    let item = only(&answer, "conversations");
    assert_eq!((&item["pinned"], item.get("deleted")), (&json!(true), None));
    log.read(peer, me, DeviceClass::Mobile, 6);
    log.project_all().await;
    assert_eq!(count(&device.page(&service, 200).await), 0);
}

/// From rule version 4 on.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_hides_or_clears_wakes_nobody_else() {
    let (mut log, service) = env().await;
    let [me, other] = users(2).try_into().unwrap();
    let gid = group_of(me);
    log.is_of_version_4 = true;
    log.create(gid, me, &[other]);
    log.send(other, me, "one");
    log.say(gid, other, "two");
    log.project_all().await;
    let [mut mine, mut theirs] = [me, other].map(Device::new);
    mine.page(&service, 200).await;
    theirs.page(&service, 200).await;
    type Step = fn(&mut SyncLog, UserId, UserId, GroupId, Change);
    let steps: [(&str, Step); 2] = [
        ("conversations", |l, me, other, _, change| {
            l.change(me, other, 1, change);
        }),
        ("groups", |l, me, _, gid, change| {
            l.change_in_group(gid, me, change);
        }),
    ];
    for (list, step) in steps {
        let mut last = 0;
        for change in [Change::Hide, Change::Clear] {
            step(&mut log, me, other, gid, change);
            log.project_all().await;
            assert_eq!(count(&theirs.page(&service, 200).await), 0, "{list}");
            let answer = mine.page(&service, 200).await;
            let row = only(&answer, list);
            let own_pos = row["own_pos"].as_i64().unwrap();
            assert!(own_pos > last, "{list}: {own_pos} behind {last}");
            assert_eq!((&row["chg"], &row["last"]), (&json!(0), &json!(null)));
            last = own_pos;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_contact_is_in_a_full_answer_with_what_the_user_has_set() {
    let (mut log, service) = env().await;
    let [me, peer] = users(2).try_into().unwrap();
    log.send(peer, me, "spam");
    let blocked = ContactFlags {
        blocked: true,
        ..ContactFlags::default()
    };
    log.contact(me, peer, blocked, true);
    log.project_all().await;
    let answer = Device::new(me).page(&service, 200).await;
    let item = only(&answer, "conversations");
    assert_eq!(
        (&item["deleted"], &item["blocked"]),
        (&json!(true), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_comes_once_with_every_change_of_it_or_of_the_users_place_in_it() {
    let (mut log, service) = env().await;
    let [me, owner, other] = users(3).try_into().unwrap();
    let (gid, unchanged) = (group_of(owner), group_of(other));
    log.create(gid, owner, &[me]);
    log.create(unchanged, owner, &[me]);
    log.project_all().await;
    let mut device = Device::new(me);
    device.page(&service, 200).await;
    let listed = service.ok(&format!("/v1/users/{me}/groups")).await;
    let of_device: Vec<Value> = device.groups.values().cloned().collect();
    let mut listed = rows(&listed, "items").to_vec();
    listed.sort_by_key(|item| item["gid"].as_str().unwrap().to_owned());
    assert_eq!(of_device, listed);
    type Step = fn(&mut SyncLog, GroupId, UserId, UserId);
    let steps: [(&str, Step, &str, Value); 10] = [
        (
            "received",
            |l, gid, _, owner| l.say(gid, owner, "one"),
            "/unread/pc",
            json!(1),
        ),
        (
            "read",
            |l, gid, me, _| l.read_group(gid, me, DeviceClass::Mobile),
            "/unread/mobile",
            json!(0),
        ),
        (
            "sent",
            |l, gid, me, _| l.say(gid, me, "two"),
            "/read_mid/pc",
            json!(2),
        ),
        (
            "edited",
            |l, gid, me, _| l.change_in_group(gid, me, Change::Edit("2".to_owned())),
            "/last/msg",
            json!("2"),
        ),
        (
            "hidden",
            |l, gid, me, _| l.change_in_group(gid, me, Change::Hide),
            "/last",
            json!(null),
        ),
        (
            "cleared",
            |l, gid, me, _| l.change_in_group(gid, me, Change::Clear),
            "/chg",
            json!(3),
        ),
        (
            "promoted",
            |l, gid, me, _| l.set_role(gid, me, GroupRole::Admin),
            "/role",
            json!("admin"),
        ),
        (
            "renamed",
            |l, gid, _, _| l.set(gid, |set| set.name = "Dinner".to_owned()),
            "/name",
            json!("Dinner"),
        ),
        (
            "somebody joined",
            |l, gid, _, owner| l.join(gid, user(owner.get() + 1)),
            "/member_count",
            json!(3),
        ),
        (
            "dissolved",
            |l, gid, _, _| l.set(gid, |set| set.dissolved = true),
            "/dissolved",
            json!(true),
        ),
    ];
    for (what, step, pointer, value) in steps {
        step(&mut log, gid, me, owner);
        log.project_all().await;
        let answer = device.page(&service, 200).await;
        let item = only(&answer, "groups");
        assert_eq!(item["gid"], json!(gid), "{what}");
        assert_eq!(item.pointer(pointer), Some(&value), "{what}: {item}");
        assert_eq!(count(&device.page(&service, 200).await), 0, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_and_joins_again_has_the_group_or_not_as_it_was_last() {
    let (mut log, service) = env().await;
    let [me, owner] = users(2).try_into().unwrap();
    let gid = group_of(owner);
    log.create(gid, owner, &[]);
    log.project_all().await;
    let mut device = Device::new(me);
    assert_eq!(count(&device.page(&service, 200).await), 0);
    let had_gid = |device: &Device| device.groups.contains_key(&gid.to_string());
    for round in 0..2 {
        log.join(gid, me);
        log.project_all().await;
        let answer = device.page(&service, 200).await;
        assert_eq!(only(&answer, "groups")["gid"], json!(gid), "{round}");
        log.leave(gid, me);
        log.project_all().await;
        let answer = device.page(&service, 200).await;
        assert_eq!(*only(&answer, "left"), json!(gid), "{round}");
        assert!(!had_gid(&device));
    }
    // Both within one answer; the group's own database lags, and then the user's.
    for first in [Sink::Contacts, Sink::Messages] {
        log.join(gid, me);
        log.leave(gid, me);
        log.join(gid, me);
        log.project(first).await;
        device.page(&service, 200).await;
        log.project_all().await;
        device.page(&service, 200).await;
        assert!(had_gid(&device), "{first:?}");
        log.leave(gid, me);
        log.project(first).await;
        device.page(&service, 200).await;
        log.project_all().await;
        device.page(&service, 200).await;
        assert!(!had_gid(&device), "{first:?}");
    }
    // Nobody has to be told of what a new device never had.
    assert_eq!(count(&Device::new(me).page(&service, 200).await), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_a_member_is_said_by_the_database_that_has_read_more() {
    let (mut log, service) = env().await;
    let [me, owner] = users(2).try_into().unwrap();
    let gid = group_of(owner);
    let calls = ["", "/members", "/messages", "/changes"];
    let calls = calls.map(|call| format!("/v1/groups/{gid}{call}?uid={me}"));
    let is_open_after = async |when: &str| {
        let mut found = Vec::new();
        for call in &calls {
            found.push(service.get(call).await.status);
        }
        assert!(found.iter().all(|status| *status == found[0]), "{when}");
        found[0] == 200
    };
    let begin = log.end(gid.partition());
    log.create(gid, owner, &[]);
    for (first, joined, left) in [
        (Sink::Messages, true, false),
        // The group does not know of him.
        (Sink::Contacts, false, false),
    ] {
        log.join(gid, me);
        log.project(first).await;
        assert_eq!(is_open_after("joining").await, joined, "{first:?}");
        log.project_all().await;
        assert!(is_open_after("joining").await, "{first:?}");
        log.leave(gid, me);
        log.project(first).await;
        assert_eq!(is_open_after("leaving").await, left, "{first:?}");
        log.project_all().await;
        assert!(!is_open_after("leaving").await, "{first:?}");
    }

    log.join(gid, me);
    let joined = log.end(gid.partition());
    log.leave(gid, me);
    log.say(gid, owner, "without him");
    log.project_all().await;
    log.forget_left().await;
    log.read_again(Sink::Messages, gid.partition(), [begin, joined])
        .await;
    assert!(!is_open_after("reading again").await);
    log.project_all().await;
    assert!(!is_open_after("reading again").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_from_before_what_is_forgotten_is_full() {
    let (mut log, service) = env().await;
    let [me, owner, other] = users(3).try_into().unwrap();
    let gid = group_of(owner);
    // What other tests left.
    log.forget_left().await;
    log.create(gid, owner, &[me]);
    log.create(group_of(other), other, &[me]);
    log.project_all().await;
    let mut before = Device::new(me);
    before.page(&service, 200).await;
    log.say(group_of(other), other, "hello");
    log.leave(gid, me);
    log.project_all().await;
    let mut between = before.clone();
    let answer = between.page(&service, 1).await;
    assert_eq!(
        (&answer["left"], &answer["full"], &answer["more"]),
        (&json!([gid]), &json!(false), &json!(true))
    );
    let mut behind = between.clone();
    behind.page(&service, 200).await;

    // His membership, and what the group has of him.
    assert_eq!(log.forget_left().await, 2);
    for device in [&mut before, &mut between] {
        let answer = device.page(&service, 200).await;
        assert_eq!(
            (&answer["left"], &answer["full"]),
            (&json!([]), &json!(true))
        );
    }
    let answer = behind.page(&service, 200).await;
    assert_eq!((count(&answer), &answer["full"]), (0, &json!(false)));
    for device in [&before, &between, &behind] {
        let groups: Vec<&String> = device.groups.keys().collect();
        assert_eq!(groups, [&group_of(other).to_string()]);
    }

    // Nothing else is forgotten, and nothing twice.
    assert_eq!(log.forget_left().await, 0);
    log.join(gid, me);
    log.project_all().await;
    assert_eq!(log.forget_left().await, 0);
    let answer = behind.page(&service, 200).await;
    assert_eq!(only(&answer, "groups")["gid"], json!(gid));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_have_every_row_once_in_the_order_of_partitions() {
    let (mut log, service) = env().await;
    let me = users(1)[0];
    // Three conversations and three groups in each of four partitions.
    for n in 0..12_i64 {
        let peer = user(me.get() + 64 * (1 + n) + n % 4);
        log.send(peer, me, "hello");
        log.create(group_of(peer), peer, &[me]);
        log.say(group_of(peer), peer, "hello");
    }
    log.project_all().await;
    let mut whole = Device::new(me);
    let all = whole.page(&service, 24).await;
    assert_eq!((count(&all), &all["more"]), (24, &json!(false)));
    for limit in [1, 2, 3, 7, 23] {
        let mut device = Device::new(me);
        let answers = device.sync(&service, limit).await;
        assert_eq!(answers.len(), 24_usize.div_ceil(limit), "{limit}");
        assert_eq!(answers.iter().map(count).sum::<usize>(), 24, "{limit}");
        assert!(answers.iter().all(|answer| answer["full"] == true));
        assert_eq!(device.conversations, whole.conversations);
        assert_eq!(device.groups, whole.groups);
        assert_eq!(device.token, whole.token);
        assert_eq!(count(&device.page(&service, limit).await), 0);
    }
}

/// The groups of who is in very many are found among those that have moved.
#[tokio::test(flavor = "multi_thread")]
async fn of_very_many_groups_those_come_that_have_moved() {
    let (mut log, service) = env().await;
    let [me, owner, other] = users(3).try_into().unwrap();
    let gids: Vec<GroupId> = (0..510_i64)
        .map(|n| (owner.get() + 1_000_000 + n).try_into().unwrap())
        .collect();
    for gid in &gids {
        log.create(*gid, owner, &[me, other]);
    }
    log.send(other, me, "hello");
    log.project_all().await;
    let mut device = Device::new(me);
    device.sync(&service, 1_000).await;
    assert_eq!(device.groups.len(), 510);
    assert_eq!(count(&device.page(&service, 200).await), 0);

    log.say(gids[7], owner, "hello");
    log.say(gids[300], other, "hello");
    log.leave(gids[8], me);
    log.leave(gids[9], other);
    log.read_group(gids[300], me, DeviceClass::Pc);
    log.send(other, me, "again");
    log.project_all().await;
    let mut paged = device.clone();
    let answer = device.page(&service, 200).await;
    assert_eq!(
        (&answer["full"], &answer["more"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(rows(&answer, "left"), [json!(gids[8])]);
    let found: BTreeSet<&str> = rows(&answer, "groups")
        .iter()
        .map(|row| row["gid"].as_str().unwrap())
        .collect();
    let moved = [gids[7], gids[9], gids[300]].map(|gid| gid.to_string());
    assert_eq!(found, moved.iter().map(String::as_str).collect());
    assert_eq!(rows(&answer, "conversations").len(), 1);
    assert_eq!(paged.sync(&service, 1).await.len(), 5);
    assert_eq!(
        (&paged.groups, &paged.token),
        (&device.groups, &device.token)
    );
    assert_eq!(count(&device.page(&service, 200).await), 0);
}

/// `cargo test --workspace --release --test api sync::measured -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn measured_a_sync_and_a_list_of_ten_thousand_groups() {
    let (mut log, service) = env().await;
    let [me, owner] = users(2).try_into().unwrap();
    let gids: Vec<GroupId> = (0..10_000_i64)
        .map(|n| (owner.get() + 1_000_000 + n).try_into().unwrap())
        .collect();
    for gid in &gids {
        log.create(*gid, owner, &[me]);
        log.say(*gid, owner, "hello");
    }
    log.project_all().await;
    let mut device = Device::new(me);
    device.sync(&service, 1_000).await;
    for gid in gids.iter().step_by(1_000) {
        log.say(*gid, owner, "hello");
    }
    log.project_all().await;
    let answer = service.ok(&device.path("limit=200")).await;
    assert_eq!(rows(&answer, "groups").len(), 10);
    let list = format!("/v1/users/{me}/conversations?limit=50");
    for path in [device.path("limit=200"), list] {
        let mut times = Vec::new();
        for _ in 0..300 {
            let began = Instant::now();
            service.ok(&path).await;
            times.push(began.elapsed());
        }
        times.sort();
        println!("{path:.40}: p50 {:?}, p99 {:?}", times[150], times[297]);
    }
}

/// It comes over the socket, too, so a device that slept has to be told what it missed.
#[tokio::test(flavor = "multi_thread")]
async fn a_users_own_profile_comes_once_it_was_set() {
    let (mut log, service) = env().await;
    let [me, peer, other] = users(3).try_into().unwrap();
    log.send(peer, me, "hello");
    log.send(other, me, "hello");
    log.project_all().await;
    let mut device = Device::new(me);
    let first = device.page(&service, 200).await;
    assert!(first.get("profile").is_none(), "{first}");

    log.set_profile(peer, "Bob");
    log.set_profile(me, "Ann");
    log.send(peer, me, "again");
    log.send(other, me, "again");
    log.project_all().await;
    let profile = |answer: &Value| answer["profile"]["nick"].as_str().map(str::to_owned);
    // The partition of both conversations is the profile's, too: its entry moves with the last page.
    let answers = device.sync(&service, 1).await;
    assert!(
        answers
            .iter()
            .all(|answer| profile(answer).as_deref() == Some("Ann"))
    );
    assert_eq!(answers.len(), 2);
    let at = log.last_profile_at(me);
    assert_eq!(answers[0]["profile"]["at"], json!(at));
    assert_eq!(profile(&device.page(&service, 200).await), None);
    let full = Device::new(me).page(&service, 200).await;
    assert_eq!(profile(&full).as_deref(), Some("Ann"));
}

/// A page that ends within a partition fixes the partition's entry: what is read of it later may be of any time after.
#[tokio::test(flavor = "multi_thread")]
async fn what_moves_between_two_pages_comes_at_the_next_sync() {
    let (mut log, service) = env().await;
    let [me, a, b, c] = users(4).try_into().unwrap();
    for peer in [a, b, c] {
        log.send(peer, me, "one");
    }
    log.project_all().await;
    let mut device = Device::new(me);
    let first = device.page(&service, 2).await;
    assert_eq!(first["more"], json!(true));
    log.send(a, me, "two");
    log.send(c, me, "two");
    log.project_all().await;
    let second = device.page(&service, 2).await;
    assert_eq!(only(&second, "conversations")["last"]["msg"], json!("two"));
    assert_eq!(
        (&second["more"], &second["full"]),
        (&json!(false), &json!(true))
    );
    let third = device.page(&service, 2).await;
    assert_eq!((count(&third), &third["full"]), (2, &json!(false)));
    assert_eq!(
        device.conversations[&a.to_string()]["last"]["msg"],
        json!("two")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_one_of_two_stores_has_is_not_taken_for_known() {
    let (mut log, service) = env().await;
    let [me, owner] = users(2).try_into().unwrap();
    let gid = group_of(owner);
    log.create(gid, owner, &[me]);
    log.project_all().await;
    let mut device = Device::new(me);
    device.page(&service, 200).await;
    let known = device.at().get(gid.partition());
    log.say(gid, owner, "hello");
    // The user's database has no row of it, and has passed it.
    log.project(Sink::Contacts).await;
    assert_eq!(count(&device.page(&service, 200).await), 0);
    assert_eq!(device.at().get(gid.partition()), known);
    log.project(Sink::Messages).await;
    let answer = device.page(&service, 200).await;
    assert_eq!(only(&answer, "groups")["last"]["msg"], json!("hello"));
    // A conversation of the same partition, and the group's database is ahead.
    log.send(owner, me, "direct");
    log.say(gid, owner, "hello again");
    log.project(Sink::Messages).await;
    let answer = device.page(&service, 200).await;
    assert_eq!(only(&answer, "groups")["last"]["msg"], json!("hello again"));
    log.project(Sink::Contacts).await;
    device.page(&service, 200).await;
    assert!(device.conversations.contains_key(&owner.to_string()));
}

/// The token covers what was said before the leave, and a gateway goes on with what comes after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_its_own_database_says_was_left_is_left() {
    let (mut log, service) = env().await;
    let [me, owner] = users(2).try_into().unwrap();
    let gid = group_of(owner);
    log.create(gid, owner, &[me]);
    log.project_all().await;
    let mut device = Device::new(me);
    device.page(&service, 200).await;
    log.say(gid, owner, "before");
    log.project(Sink::Contacts).await;
    log.leave(gid, me);
    log.project(Sink::Messages).await;
    let answer = device.page(&service, 200).await;
    assert_eq!(*only(&answer, "left"), json!(gid));
    // And joins again, of which the memberships have not heard.
    log.join(gid, me);
    log.say(gid, owner, "again");
    log.project(Sink::Messages).await;
    device.page(&service, 200).await;
    log.project_all().await;
    device.page(&service, 200).await;
    assert!(device.groups.contains_key(&gid.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lacks_what_the_token_covers_is_waited_for() {
    let (mut log, service) = env().await;
    let [me, owner] = users(2).try_into().unwrap();
    let gid = group_of(owner);
    let partition = gid.partition();
    log.create(gid, owner, &[me]);
    log.project_all().await;
    let mut device = Device::new(me);
    device.page(&service, 200).await;
    log.leave(gid, me);
    // A gateway has shown the device that it left.
    let mut token = device.at();
    token.advance(partition, log.end(partition).next);
    device.token = Some(token.to_string());
    for (projected, lagging) in [(Sink::Messages, "contacts"), (Sink::Contacts, "")] {
        log.project(projected).await;
        let answer = service.get(&device.path("timeout_ms=300")).await;
        if lagging.is_empty() {
            assert_eq!((answer.status, count(&answer.body)), (200, 0));
        } else {
            let next = log.end(partition).next;
            let words = format!(
                "since covers what is not stored yet: MySQL ({lagging}) has not reached offset {next} of partition {partition}, \
                which the token covers, within 300 ms; try again, or without since, which returns everything"
            );
            assert_eq!((answer.status, answer.detail()), (504, words.as_str()));
        }
    }
    // The other way round: the group's database is behind.
    log.join(gid, me);
    log.project(Sink::Contacts).await;
    token.advance(partition, log.end(partition).next);
    device.token = Some(token.to_string());
    let answer = service.get(&device.path("timeout_ms=300")).await;
    assert_eq!(answer.status, 504);
    assert!(answer.detail().contains("MySQL (messages)"), "{answer:?}");
    let waiting = device.path("timeout_ms=20000");
    let (answer, ()) = tokio::join!(service.get(&waiting), log.project(Sink::Messages));
    assert_eq!(answer.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_that_does_not_answer_is_named() {
    let mut config = Deployment::shared().await.config.clone();
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = &mut config.mysql.servers[0];
    server.host = "127.0.0.1".to_owned();
    server.port = silent.local_addr().unwrap().port();
    let service = Service::start(&config).await;
    let me = fresh_user();
    for of_user in ["sync", "devices"] {
        let path = format!("/v1/users/{me}/{of_user}?timeout_ms=100");
        let answer = service.get(&path).await;
        let words = "MySQL did not answer within 100 ms";
        assert_eq!((answer.status, answer.detail()), (504, words), "{of_user}");
    }
}

/// Of an installation before this one.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_ahead_of_the_log_is_full_and_not_waited_for() {
    let (mut log, service) = env().await;
    let [me, a, b] = users(3).try_into().unwrap();
    for peer in [a, b] {
        log.send(peer, me, "hello");
    }
    log.project_all().await;
    let mut device = Device::new(me);
    device.page(&service, 1).await;
    let page = device.at().page();
    device.page(&service, 1).await;
    let own = device.at();
    let ahead = |number: i64| {
        let (mut token, partition) = (own.clone(), number.try_into().unwrap());
        let end = log.end(partition).next.get();
        token.advance(partition, NextOffset::new(end + 1));
        token
    };
    let applied = NextOffset::new(1 << 40);
    let page = page.map(|page| SyncPage { applied, ..page });
    for token in [ahead(0), ahead(63), own.clone().with_page(page)] {
        device.token = Some(token.to_string());
        // It would be waited for until then.
        let answer = service.get(&device.path("timeout_ms=30000&limit=1")).await;
        let first = answer.body;
        assert_eq!((answer.status, count(&first)), (200, 1), "{first}");
        let (full, more) = (&first["full"], &first["more"]);
        assert_eq!((full, more), (&json!(true), &json!(true)));
        device.token = first["next"].as_str().map(str::to_owned);
        let second = device.page(&service, 1).await;
        assert_eq!((count(&second), &second["full"]), (1, &json!(true)));
        assert_eq!(device.at(), own);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_epoch_and_an_unknown_version_are_full_and_what_is_no_token_is_named() {
    let (mut log, service) = env().await;
    let [me, peer] = users(2).try_into().unwrap();
    log.send(peer, me, "hello");
    log.project_all().await;
    let mut device = Device::new(me);
    device.page(&service, 200).await;
    let own = device.token.clone().unwrap();
    let far = PartitionMap::full(|_| NextOffset::new(1 << 40));
    // The first byte is the version.
    let unknown = own.replacen("AQ", "Ag", 1);
    for token in [SyncToken::new(1, &far).to_string(), unknown] {
        device.token = Some(token);
        let answer = device.page(&service, 200).await;
        assert_eq!((count(&answer), &answer["full"]), (1, &json!(true)));
        assert_eq!(device.token.as_ref(), Some(&own));
    }
    for since in ["", "x", "garbage", &own[1..], &format!("{own}AAAA")] {
        let path = format!("/v1/users/{me}/sync?since={since}");
        let answer = service.get(&path).await;
        assert_eq!(answer.field(), "since", "{since}");
        assert!(answer.detail().contains("as it came"), "{answer:?}");
    }
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("timeout_ms=0", "timeout_ms"),
        ("after=1:1", "after"),
    ] {
        let answer = service.get(&format!("/v1/users/{me}/sync?{query}")).await;
        assert_eq!(answer.field(), field, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_kafka_the_epoch_is_that_of_the_rows() {
    let mut deployment = Deployment::new();
    deployment.apply_schema().await;
    deployment.config.kafka.brokers = "127.0.0.1:1".to_owned();
    let me = fresh_user();
    let (store, topic) = (deployment.store(), deployment.events());
    let to = LogPosition {
        next: NextOffset::new(7),
        watermark: SourceOffset {
            epoch: 1,
            offset: 6,
        },
    };
    let moves = [OffsetUpdate {
        partition: Partition::FIRST,
        from: LogPosition::default(),
        to,
    }];
    let shard = deployment.shard_of_user(me);
    let moved = store.update_resume_offsets(shard, Sink::Contacts, &topic, &moves);
    moved.await.unwrap();
    let service = Service::start(&deployment.config).await;
    let token = SyncToken::new(1, &PartitionMap::full(|_| NextOffset::START));
    let path = format!("/v1/users/{me}/sync?since={token}");
    let answer = service.ok(&path).await;
    assert_eq!(answer["full"], json!(false), "{answer}");
    let next: SyncToken = answer["next"].as_str().unwrap().parse().unwrap();
    assert_eq!(next.get(Partition::FIRST), to.next);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_uids_are_in_their_partitions() {
    let (mut log, service) = env().await;
    let me = user(i64::MAX - fresh_user().get() % 1_000_000);
    let peer = user(me.get() - 5);
    log.send(peer, me, "hello");
    log.project_all().await;
    let mut device = Device::new(me);
    assert_eq!(count(&device.page(&service, 1).await), 1);
    log.send(peer, me, "hello again");
    log.project_all().await;
    let answer = device.page(&service, 1).await;
    assert_eq!(
        only(&answer, "conversations")["last"]["msg"],
        json!("hello again")
    );
    let partition = DirectConversation::new(me, peer).partition();
    assert_eq!(device.at().get(partition), log.end(partition).next);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_follows_the_pages_of_a_sync() {
    let (mut log, service) = env().await;
    let [me, peer, owner] = users(3).try_into().unwrap();
    log.send(peer, me, "spam");
    log.contact(me, peer, ContactFlags::default(), true);
    log.create(group_of(owner), owner, &[me]);
    log.project_all().await;
    let client = client_of(&service);
    let first = client.sync(me, None, Some(1)).await.unwrap();
    let conversation = &first.conversations[0];
    assert_eq!(conversation.item.peer, Some(peer));
    assert!(conversation.deleted && first.full && first.more);
    let second = client.sync(me, Some(&first.next), Some(1)).await.unwrap();
    assert_eq!(second.groups[0].gid, group_of(owner));
    assert!(second.full && !second.more);
    log.leave(group_of(owner), me);
    log.project_all().await;
    let third = client.sync(me, Some(&second.next), None).await.unwrap();
    assert_eq!((third.left, third.full), (vec![group_of(owner)], false));
}

fn client_of(service: &Service) -> Client {
    let url = format!("http://{}", service.addr);
    let client = Client::builder(&url, &url).retry(Retry::NEVER);
    client.build().unwrap()
}

/// Random traffic, sinks that lag behind each other, and devices that sync now and then, a page or all of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_syncs_now_and_then_has_what_a_new_device_gets() {
    let (mut log, service) = env().await;
    for seed in 1..=3_u64 {
        let mut model = Model::new(&mut log, seed);
        for step in 0..50 {
            log.is_of_version_4 = step >= 20;
            model.step(&mut log);
            model.project(&log).await;
            model.sync(&service).await;
        }
        log.project_all().await;
        for device in &mut model.devices {
            // The first goes on with what is under way; what has moved meanwhile is in the second.
            device.sync(&service, 3).await;
            device.sync(&service, 3).await;
            let mut new = Device::new(device.uid);
            new.sync(&service, 200).await;
            assert_eq!(device.conversations, new.conversations, "seed {seed}");
            assert_eq!(device.groups, new.groups, "seed {seed}");
        }
    }
}

struct Model {
    users: Vec<UserId>,
    groups: Vec<GroupId>,
    devices: Vec<Device>,
    random: u64,
}

impl Model {
    fn new(log: &mut SyncLog, seed: u64) -> Self {
        // Two partitions, so that pages end within them.
        let users: Vec<UserId> = users(5)
            .into_iter()
            .enumerate()
            .map(|(n, uid)| user(uid.get() + n as i64 % 2))
            .collect();
        let groups: Vec<GroupId> = users[..3].iter().map(|uid| group_of(*uid)).collect();
        for gid in &groups {
            log.create(*gid, users[0], &users[1..3]);
        }
        let devices = users[1..4].iter().map(|uid| Device::new(*uid));
        Self {
            devices: devices.collect(),
            users,
            groups,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// 0 … `below` − 1: xorshift.
    fn draw(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as usize % below
    }

    fn user(&mut self) -> UserId {
        let at = self.draw(self.users.len());
        self.users[at]
    }

    fn change(&mut self) -> Change {
        match self.draw(5) {
            0 => Change::Recall,
            1 => Change::Delete,
            2 => Change::Hide,
            3 => Change::Clear,
            n => Change::Edit(format!("edit {n}")),
        }
    }

    fn step(&mut self, log: &mut SyncLog) {
        let (by, peer) = (self.user(), self.user());
        let last = log.last_mid(by, peer);
        let device = DeviceClass::ALL[self.draw(2)];
        match self.draw(9) {
            0..=2 => log.send(by, peer, "hello"),
            3 if last > 0 => log.read(by, peer, device, 1 + self.draw(last as usize) as i64),
            4 if last > 0 => {
                let (of, change) = (1 + self.draw(last as usize) as i64, self.change());
                log.change(by, peer, of, change);
            }
            5 => {
                let flags = ContactFlags {
                    pinned: self.draw(2) == 0,
                    muted: self.draw(2) == 0,
                    ..ContactFlags::default()
                };
                log.contact(by, peer, flags, self.draw(2) == 0);
            }
            _ => self.step_in_group(log, by, device),
        }
    }

    fn step_in_group(&mut self, log: &mut SyncLog, by: UserId, device: DeviceClass) {
        let at = self.draw(self.groups.len());
        let gid = self.groups[at];
        let owner = self.users[0];
        if !log.is_member(gid, by) {
            return log.join(gid, by);
        }
        match self.draw(8) {
            0..=1 => log.say(gid, by, "hello all"),
            2 => log.read_group(gid, by, device),
            3 => {
                let change = self.change();
                log.change_in_group(gid, by, change);
            }
            4 => {
                let name = format!("name {}", self.draw(1_000));
                log.set(gid, |set| set.name = name);
            }
            5 if by != owner => log.set_role(gid, by, GroupRole::Admin),
            _ if by != owner => log.leave(gid, by),
            _ => {}
        }
    }

    async fn project(&mut self, log: &SyncLog) {
        match self.draw(8) {
            0..=1 => log.project(Sink::Contacts).await,
            2..=3 => log.project(Sink::Messages).await,
            4 => drop(log.forget_left().await),
            _ => {}
        }
    }

    async fn sync(&mut self, service: &Service) {
        let (at, limit) = (self.draw(2 * self.devices.len()), 1 + self.draw(4));
        let all = self.draw(2) == 0;
        let Some(device) = self.devices.get_mut(at) else {
            return;
        };
        while device.try_page(service, limit).await && all {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_listed_for_their_user() {
    let (log, service) = env().await;
    let uid = fresh_user();
    let path = format!("/v1/users/{uid}/devices");
    assert_eq!(service.ok(&path).await, json!({"items": []}));
    let token = SyncToken::new(0, &PartitionMap::new()).to_string();
    let device = |id: &str, class, age_ms: i64| DeviceRow {
        uid,
        device: DeviceId::try_from(id.to_owned()).unwrap(),
        class,
        name: "Ann's".to_owned(),
        token: token.clone(),
        seen_at: TimestampMs(now().0 - age_ms),
    };
    let rows = [
        device("phone-1", DeviceClass::Mobile, 60_000),
        device("pc", DeviceClass::Pc, 0),
    ];
    let shard = log.deployment.shard_of_user(uid);
    let store = log.deployment.store();
    store.write_devices(shard, &rows).await.unwrap();
    let item = |row: &DeviceRow| json!({"device": row.device, "class": row.class, "name": "Ann's", "token": token, "seen_at": row.seen_at.rfc3339()});
    let expected = json!({"items": [item(&rows[1]), item(&rows[0])]});
    assert_eq!(service.ok(&path).await, expected);
    let read = client_of(&service).devices(uid).await.unwrap();
    let ids: Vec<&str> = read.iter().map(|one| one.device.as_str()).collect();
    assert_eq!((ids, &read[0].token), (vec!["pc", "phone-1"], &token));
}

//! Groups, as their members and others read them.

use message_store::Sink;
use schemas::{Change, GroupRole, UserId};
use serde_json::{Value, json};

use crate::{
    chat::{fresh_user, mids},
    deployment::partition,
    group::Group,
    service::{Service, env},
};

const CALLS: [&str; 4] = ["", "/members", "/messages", "/changes"];

fn edit(text: &str) -> Change {
    Change::Edit(text.to_owned())
}

fn uids(body: &Value) -> Vec<UserId> {
    let items = body["items"].as_array().unwrap();
    let uid = |item: &Value| item["uid"].as_str().unwrap().parse().unwrap();
    items.iter().map(uid).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_member_does_not_learn_whether_there_is_the_group() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    let left = group.joined();
    group.say(left, "hello");
    group.leave(left);
    group.write(deployment).await;
    let unknown = Group::new();
    for call in CALLS {
        assert_eq!(
            service.get(&group.path(call, group.owner)).await.status,
            200
        );
        for uid in [left, fresh_user()] {
            let hidden = service.get(&group.path(call, uid)).await;
            let absent = service.get(&unknown.path(call, uid)).await;
            assert_eq!((hidden.status, absent.status), (404, 404), "{call}");
            assert_eq!(
                hidden.detail().replace(&group.gid.to_string(), "it"),
                absent.detail().replace(&unknown.gid.to_string(), "it")
            );
            assert_eq!(
                hidden.detail(),
                format!(
                    "group {}, or the membership of {uid} in it, was not found",
                    group.gid
                )
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_shows_its_settings_and_what_it_has_of_the_user() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    group.settings.open = true;
    group.say(group.owner, "one");
    let member = group.joined();
    group.members.get_mut(&member).unwrap().muted = true;
    group.say(group.owner, "two");
    group.change(group.owner, 2, Change::Recall);
    group.write(deployment).await;
    let expected = |own: Value| {
        json!({
            "gid": group.gid, "name": "Lunch", "owner": group.owner, "open": true, "whole_history": false,
            "muted": false, "dissolved": false, "member_count": 2, "last_mid": 2, "chg": 1, "member": own,
        })
    };
    let body = service.ok(&group.path("", member)).await;
    let own = json!({"uid": member, "role": "member", "muted": true, "join_mid": 1});
    assert_eq!(body, expected(own));
    let body = service.ok(&group.path("", group.owner)).await;
    let own = json!({"uid": group.owner, "role": "owner", "muted": false, "join_mid": 0});
    assert_eq!(body, expected(own));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_listed_page_by_page_without_those_who_left() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    for _ in 0..6 {
        group.joined();
    }
    let admin = fresh_user();
    group.join(admin, GroupRole::Admin);
    let gone: Vec<UserId> = (0..2).map(|_| group.joined()).collect();
    for uid in &gone {
        group.leave(*uid);
    }
    group.write(deployment).await;
    let stayed = group.members.keys().filter(|uid| !gone.contains(uid));
    let stayed: Vec<UserId> = stayed.copied().collect();
    let path = group.path("/members", admin);
    let body = service.ok(&path).await;
    assert_eq!((uids(&body), &body["next"]), (stayed.clone(), &json!(null)));
    let own = stayed.iter().position(|uid| *uid == admin).unwrap();
    let item = json!({"uid": admin, "role": "admin", "muted": false, "join_mid": 0});
    assert_eq!(body["items"][own], item);
    for limit in [1, 3, 4, 8] {
        let mut all = Vec::new();
        let mut page = service.ok(&format!("{path}&limit={limit}")).await;
        all.extend(uids(&page));
        while let Some(cursor) = page["next"].as_str() {
            page = service
                .ok(&format!("{path}&limit={limit}&cursor={cursor}"))
                .await;
            assert!(!uids(&page).is_empty());
            all.extend(uids(&page));
        }
        assert_eq!(all, stayed, "{limit} at a time");
    }
}

/// Everything that `uid` reads from `from` on, put together from pages.
async fn walk(service: &Service, group: &Group, uid: UserId, from: &str, limit: i64) -> Vec<i64> {
    let mut all = Vec::new();
    let mut next = Some(from.to_owned());
    while let Some(from) = next {
        let path = format!("{}&limit={limit}&{from}", group.path("/messages", uid));
        let body = service.ok(&path).await;
        assert!(mids(&body).len() <= limit as usize);
        all.extend(mids(&body));
        next = body["next"].as_str().map(str::to_owned);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_reads_from_joining_on_or_all_of_it() {
    let (deployment, service) = env().await;
    for whole_history in [false, true] {
        let mut group = Group::new();
        group.settings.whole_history = whole_history;
        for n in 1..=5 {
            group.say(group.owner, &format!("message {n}"));
        }
        let member = group.joined();
        for n in 6..=9 {
            group.say(group.owner, &format!("message {n}"));
        }
        group.write(deployment).await;
        let first = if whole_history { 1 } else { 6 };
        let up: Vec<i64> = (first..=9).collect();
        let down: Vec<i64> = up.iter().rev().copied().collect();
        for limit in [1, 3, 4, 9, 50] {
            let newest = walk(&service, &group, member, "before_mid=10", limit).await;
            assert_eq!(newest, down, "{whole_history}, {limit} at a time");
            let oldest = walk(&service, &group, member, "after_mid=0", limit).await;
            assert_eq!(oldest, up, "{whole_history}, {limit} at a time");
        }
        let body = service.ok(&group.path("/messages", member)).await;
        assert_eq!(mids(&body), down);
        let newest = &group.messages[8];
        let expected = json!({
            "mid": 9, "srcid": group.owner, "gid": group.gid, "msg": "message 9",
            "ts": body["items"][0]["ts"], "client_msg_id": newest.client_msg_id.as_str(),
        });
        assert_eq!(body["items"][0], expected);
        assert_eq!((&body["next"], body.get("as_of")), (&json!(null), None));
        assert_eq!(body["begins_after_mid"], first - 1);
        // The owner was there from the beginning.
        let body = service.ok(&group.path("/messages", group.owner)).await;
        assert_eq!(mids(&body).len(), 9);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_what_the_member_sees() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    let (me, other) = (group.joined(), group.joined());
    for n in 1..=8 {
        group.say(group.owner, &format!("message {n}"));
    }
    group.change(group.owner, 8, Change::Recall);
    group.change(group.owner, 7, edit("seven"));
    group.change(group.owner, 6, Change::Delete);
    group.change(me, 5, Change::Hide);
    group.change(other, 7, Change::Hide);
    group.change(me, 2, Change::Clear);
    group.write(deployment).await;

    let body = service.ok(&group.path("/messages", me)).await;
    assert_eq!(mids(&body), [8, 7, 4, 3]);
    let [recalled, edited] = [&body["items"][0], &body["items"][1]];
    assert_eq!(
        (&recalled["msg"], &recalled["recalled"]),
        (&json!(""), &json!(true))
    );
    assert_eq!(
        (&edited["msg"], edited.get("recalled")),
        (&json!("seven"), None)
    );
    assert!(edited["edited_ts"].is_string());
    // Those that are not there still count as rows of a page.
    for limit in [1, 2, 3] {
        let down = walk(&service, &group, me, "before_mid=9", limit).await;
        assert_eq!(down, [8, 7, 4, 3]);
        let up = walk(&service, &group, me, "after_mid=0", limit).await;
        assert_eq!(up, [3, 4, 7, 8]);
    }
    let body = service.ok(&group.path("/messages", other)).await;
    assert_eq!(mids(&body), [8, 5, 4, 3, 2, 1]);

    let changes = service.ok(&group.path("/changes", me)).await;
    let of = |item: &Value| {
        let number = |name: &str| item[name].as_i64().unwrap();
        let msg = item.get("msg").map(|msg| msg.as_str().unwrap().to_owned());
        let kind = item["kind"].as_str().unwrap().to_owned();
        (number("chg"), number("mid"), kind, msg)
    };
    let items: Vec<_> = changes["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect();
    let row = |change_seq, mid, kind: &str, msg: Option<&str>| {
        (change_seq, mid, kind.to_owned(), msg.map(str::to_owned))
    };
    let expected = [
        row(1, 8, "recall", None),
        row(2, 7, "edit", Some("seven")),
        row(3, 6, "delete", None),
        row(4, 5, "hide", None),
        row(6, 2, "clear", None),
    ];
    assert_eq!(items, expected);
    assert_eq!(changes["next"], json!(null));
    // Who has hidden the message does not get its text.
    let changes = service.ok(&group.path("/changes", other)).await;
    let items: Vec<_> = changes["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect();
    assert_eq!(items[1], row(2, 7, "edit", None));
    assert_eq!(items[3], row(5, 7, "hide", None));
    let page = format!("{}&limit=2&after_chg=2", group.path("/changes", me));
    let page = service.ok(&page).await;
    assert_eq!(page["items"][0]["chg"], 3);
    assert_eq!(page["next"], "after_chg=4");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_what_was_there_before_are_of_no_concern() {
    let (deployment, service) = env().await;
    for whole_history in [false, true] {
        let mut group = Group::new();
        group.settings.whole_history = whole_history;
        group.say(group.owner, "before");
        let member = group.joined();
        group.say(group.owner, "after");
        group.change(group.owner, 1, edit("secret"));
        group.change(group.owner, 2, edit("public"));
        group.write(deployment).await;
        let body = service.ok(&group.path("/changes", member)).await;
        let expected: &[i64] = if whole_history { &[1, 2] } else { &[2] };
        assert_eq!(mids(&body), expected);
        assert_eq!(body["begins_after_mid"], expected[0] - 1);
        assert_eq!(body.to_string().contains("secret"), whole_history);
        assert!(body.to_string().contains("public"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_reads_from_then_on() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    let member = group.joined();
    group.say(member, "one");
    group.leave(member);
    group.say(group.owner, "two");
    group.join(member, GroupRole::Member);
    group.say(group.owner, "three");
    group.write(deployment).await;
    let body = service.ok(&group.path("/messages", member)).await;
    assert_eq!(mids(&body), [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dissolved_group_is_read_by_those_who_were_members_then() {
    let (deployment, service) = env().await;
    let mut group = Group::new();
    let (member, left) = (group.joined(), group.joined());
    group.say(member, "the end");
    group.leave(left);
    group.dissolve();
    group.write(deployment).await;
    let body = service.ok(&group.path("", member)).await;
    assert_eq!(
        (&body["dissolved"], &body["member_count"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(
        mids(&service.ok(&group.path("/messages", member)).await),
        [1]
    );
    assert_eq!(
        uids(&service.ok(&group.path("/members", member)).await).len(),
        2
    );
    assert_eq!(service.get(&group.path("", left)).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_groups_that_are_wrong_are_named() {
    let (_, service) = env().await;
    for call in CALLS {
        let missing = service.get(&format!("/v1/groups/5000{call}")).await;
        assert_eq!(missing.field(), "uid", "{call}");
        assert!(missing.detail().contains("uid"), "{}", missing.detail());
        for (path, field) in [
            ("0{}?uid=1000", "gid"),
            ("x{}?uid=1000", "gid"),
            ("9223372036854775808{}?uid=1000", "gid"),
            ("5000{}?uid=0", "uid"),
            ("5000{}?uid=1000&after=64:1", "after"),
            ("5000{}?uid=1000&timeout_ms=0", "timeout_ms"),
            ("5000{}?uid=1000&peer=1001", "peer"),
        ] {
            let path = format!("/v1/groups/{}", path.replace("{}", call));
            let answer = service.get(&path).await;
            assert_eq!(answer.field(), field, "{path}");
            assert!(answer.body["errors"][0].to_string().contains("must be") || field == "peer");
        }
    }
    for (path, field) in [
        ("/messages?uid=1&before_mid=2&after_mid=1", "after_mid"),
        ("/messages?uid=1&before_mid=-2", "before_mid"),
        ("/messages?uid=1&limit=201", "limit"),
        ("/messages?uid=1&device=pc", "device"),
        ("/members?uid=1&limit=0", "limit"),
        ("/members?uid=1&cursor=0", "cursor"),
        ("/changes?uid=1&after_chg=x", "after_chg"),
    ] {
        let answer = service.get(&format!("/v1/groups/5000{path}")).await;
        assert_eq!(answer.field(), field, "{path}");
    }
    let both = "/v1/groups/5000/messages?uid=1&before_mid=2&after_mid=1";
    assert_eq!(
        service.get(both).await.detail(),
        "after_mid is given beside before_mid; must be absent where before_mid is given"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_waits_for_its_messages_and_a_page_for_the_users_rows_too() {
    let (deployment, service) = env().await;
    let p = partition(22);
    let mut group = Group::of(22.try_into().unwrap(), fresh_user());
    group.say(group.owner, "hello");
    let shard = deployment.shard_of(p);
    let own = deployment.shard_of_user(group.owner);
    let after = |call: &str| {
        format!(
            "{}&after=22:7&timeout_ms=300",
            group.path(call, group.owner)
        )
    };
    for call in ["", "/members", "/changes"] {
        let late = service.get(&after(call)).await;
        let words = "MySQL (messages) has not reached 22:7 within 300 ms";
        assert_eq!((late.status, late.detail()), (504, words));
    }
    group.write(deployment).await;
    deployment.advance(Sink::Messages, shard, p, 8).await;
    for call in ["", "/members", "/changes"] {
        assert_eq!(service.ok(&after(call)).await["as_of"], json!(["22:8"]));
    }
    let late = service.get(&after("/messages")).await;
    let words = "MySQL (contacts) has not reached 22:7 within 300 ms";
    assert_eq!((late.status, late.detail()), (504, words));
    deployment.advance(Sink::Contacts, own, p, 7).await;
    let body = service.ok(&after("/messages")).await;
    assert_eq!((mids(&body), &body["as_of"]), (vec![1], &json!(["22:7"])));
    // Events of other partitions cannot change the answer.
    let elsewhere = format!(
        "{}&after=23:9&timeout_ms=300",
        group.path("/messages", group.owner)
    );
    service.ok(&elsewhere).await;
}

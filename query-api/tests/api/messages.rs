use std::time::Duration;

use futures::future::join_all;
use message_store::{ReadRow, Sink};
use schemas::{Change, DirectConversation, PerDevice};
use serde_json::json;

use crate::{
    chat::{Chat, fresh_user, mid, mids},
    deployment::{Deployment, partition},
    service::{Service, env},
};

const HOUR_MS: i64 = 3600 * 1000;
const DAY_MS: i64 = 24 * HOUR_MS;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_out_as_it_was_stored() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    let text = "it's \"\u{1f30a}\"\t\\n\n%_";
    let row = chat.say(chat.peer, text, 0).clone();
    deployment.write_messages(&chat.rows).await;

    let body = service.ok(&chat.path()).await;
    let ts = body["items"][0]["ts"].as_str().unwrap().to_owned();
    assert_eq!(
        body,
        json!({
            "items": [{
                "mid": 1,
                "srcid": chat.peer.to_string(),
                "destid": chat.me.to_string(),
                "msg": text,
                "ts": ts,
                "client_msg_id": row.client_msg_id.as_str(),
            }],
            "next": null,
        })
    );
    assert_eq!(ts.len(), "2025-11-21T08:00:00.123Z".len());
    assert!(ts.ends_with(&format!(".{:03}Z", row.ts.0 % 1000)), "{ts}");
    // The other side sees the same.
    let (me, peer) = (chat.me, chat.peer);
    let theirs = format!("/v1/users/{peer}/conversations/{me}/messages");
    assert_eq!(service.ok(&theirs).await, body);
}

/// Follows `next` to the end.
async fn walk(service: &Service, path: &str, first: &str, limit: usize) -> Vec<i64> {
    let mut all = Vec::new();
    let mut next = Some(first.to_owned());
    while let Some(from) = next {
        let body = service.ok(&format!("{path}?limit={limit}&{from}")).await;
        let page = mids(&body);
        assert!(page.len() <= limit);
        all.extend(page);
        next = body["next"].as_str().map(str::to_owned);
        assert!(all.len() <= 1_000, "the pages do not end");
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_put_together_are_the_whole() {
    let (deployment, service) = env().await;
    let total = 203;
    let mut chat = Chat::new();
    chat.talk(total as usize);
    deployment.write_messages(&chat.rows).await;

    let upwards: Vec<i64> = (1..=total).collect();
    let downwards: Vec<i64> = (1..=total).rev().collect();
    for limit in [7, 29, 50, 101, 200] {
        let newest = format!("before_mid={}", i64::MAX);
        assert_eq!(
            walk(&service, &chat.path(), &newest, limit).await,
            downwards
        );
        let oldest = "after_mid=0";
        assert_eq!(walk(&service, &chat.path(), oldest, limit).await, upwards);
    }
    assert_eq!(
        walk(&service, &chat.path(), "before_mid=4", 1).await,
        [3, 2, 1]
    );
    assert_eq!(
        walk(&service, &chat.path(), "after_mid=200", 1).await,
        [201, 202, 203]
    );
    // 203 = 7 · 29: a page that ends with the last message says so.
    let last = service
        .ok(&format!("{}?limit=29&before_mid=30", chat.path()))
        .await;
    assert_eq!((mids(&last).len(), &last["next"]), (29, &json!(null)));
    // Without parameters: the newest fifty.
    let newest = service.ok(&chat.path()).await;
    assert_eq!(mids(&newest), downwards[..50]);
    assert_eq!(newest["next"], "before_mid=154");
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_is_above_the_larger_position_of_that_class() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    chat.talk(6);
    deployment.write_messages(&chat.rows).await;
    let unread = async |device: &str| {
        let path = format!("{}?device={device}", chat.path());
        mids(&service.ok(&path).await)
    };
    assert_eq!(unread("pc").await, [6, 5, 4, 3, 2, 1]);

    deployment.write_contacts(&[chat.contact(2, 4)]).await;
    assert_eq!(unread("pc").await, [6, 5, 4, 3]);
    assert_eq!(unread("mobile").await, [6, 5]);

    // Either table may be ahead of the other.
    let row = ReadRow {
        uid: chat.me,
        conversation: DirectConversation::new(chat.me, chat.peer),
        mids: PerDevice {
            pc: mid(5),
            mobile: mid(1),
        },
    };
    deployment.write_read(row).await;
    assert_eq!(unread("pc").await, [6]);
    assert_eq!(unread("mobile").await, [6, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_goes_back_a_month_and_200_rows() {
    let (deployment, service) = env().await;
    let mut old = Chat::new();
    old.say(old.peer, "too old", 32 * DAY_MS);
    old.say(old.peer, "old", 27 * DAY_MS);
    old.say(old.me, "new", 0);
    deployment.write_messages(&old.rows).await;
    let path = format!("{}?device=pc", old.path());
    assert_eq!(mids(&service.ok(&path).await), [3, 2]);
    assert_eq!(
        service.ok(&format!("{path}&limit=2")).await["next"],
        json!(null)
    );

    let mut long = Chat::new();
    long.talk(201);
    deployment.write_messages(&long.rows).await;
    let body = service.ok(&format!("{}?device=pc", long.path())).await;
    assert_eq!(mids(&body), (2..=201).rev().collect::<Vec<_>>());
    assert_eq!(body["next"], "before_mid=2");
    let body = service
        .ok(&format!("{}?device=pc&limit=3", long.path()))
        .await;
    assert_eq!(
        (mids(&body), &body["next"]),
        (vec![201, 200, 199], &json!("before_mid=199"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_to_oneself_and_strangers() {
    let (deployment, service) = env().await;
    let me = fresh_user();
    let mut notes = Chat::between(me, me);
    notes.say(me, "one", 0);
    notes.say(me, "two", 0);
    deployment.write_messages(&notes.rows).await;
    assert_eq!(mids(&service.ok(&notes.path()).await), [2, 1]);

    let nothing = service.ok(&Chat::new().path()).await;
    assert_eq!(nothing, json!({"items": [], "next": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_see_what_became_of_a_message() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    for text in ["one", "two", "three", "four"] {
        chat.say(chat.me, text, 1_000);
    }
    chat.change(chat.me, 1, Change::Edit("secret".to_owned()));
    chat.change(chat.me, 1, Change::Recall);
    chat.change(chat.me, 2, Change::Edit("zwei".to_owned()));
    chat.change(chat.me, 3, Change::Delete);
    deployment.write_messages(&chat.rows).await;
    deployment.write_changes(&chat.changes).await;

    let item = |number: usize, msg: &str| {
        let message = &chat.rows[number - 1];
        json!({
            "mid": number,
            "srcid": chat.me.to_string(),
            "destid": chat.peer.to_string(),
            "msg": msg,
            "client_msg_id": message.client_msg_id.as_str(),
        })
    };
    let mut recalled = item(1, "");
    recalled["recalled"] = json!(true);
    let mut edited = item(2, "zwei");
    edited["edited_ts"] = json!(true);
    let expected = json!([item(4, "four"), edited, recalled]);
    for path in [chat.path(), chat.peers_path() + "?device=pc"] {
        let mut items = service.ok(&path).await["items"].take();
        for item in items.as_array_mut().unwrap() {
            let item = item.as_object_mut().unwrap();
            assert!(item.remove("ts").is_some());
            if let Some(ts) = item.get_mut("edited_ts") {
                assert_eq!(ts.as_str().unwrap().len(), "2025-11-21T08:00:00.123Z".len());
                *ts = json!(true);
            }
        }
        assert_eq!(items, expected, "{path}");
    }
}

/// Seven messages, of which I hide 4 and 6 and clear the first two.
fn partly_unseen(mut chat: Chat) -> Chat {
    chat.talk(7);
    chat.change(chat.me, 6, Change::Hide);
    chat.change(chat.me, 2, Change::Clear);
    chat.change(chat.peer, 7, Change::Hide);
    chat.change(chat.me, 4, Change::Hide);
    chat
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_hides_or_clears_is_gone_for_that_user() {
    let (deployment, service) = env().await;
    let chat = partly_unseen(Chat::new());
    deployment.write_messages(&chat.rows).await;
    deployment.write_changes(&chat.changes).await;
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let path = chat.path();
    let page = async |query: &str| {
        let body = service.ok(&format!("{path}?{query}")).await;
        (mids(&body), body["next"].clone())
    };
    for limit in [1, 2, 3, 7, 50] {
        let newest = format!("before_mid={}", i64::MAX);
        assert_eq!(walk(&service, &path, &newest, limit).await, [7, 5, 3]);
        let oldest = walk(&service, &path, "after_mid=0", limit).await;
        assert_eq!(oldest, [3, 5, 7]);
    }
    // A page goes on by number, and what is cleared is not gone through.
    assert_eq!(page("limit=2").await, (vec![7], json!("before_mid=6")));
    assert_eq!(page("limit=2&before_mid=4").await, (vec![3], json!(null)));
    assert_eq!(page("limit=5").await, (vec![7, 5, 3], json!(null)));
    assert_eq!(
        page("limit=2&after_mid=1").await,
        (vec![3], json!("after_mid=4"))
    );
    // The clear was a read position, too.
    assert_eq!(page("device=pc").await, (vec![7, 5, 3], json!(null)));
    // The other side has no contact row yet.
    let theirs = service.ok(&chat.peers_path()).await;
    assert_eq!(mids(&theirs), [6, 5, 4, 3, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_hidden_is_gone_before_the_contact_row_is_there() {
    let (deployment, service) = env().await;
    let p = partition(18);
    let chat = partly_unseen(Chat::in_partition(p));
    let (shard, own) = (deployment.shard_of(p), deployment.shard_of_user(chat.me));
    deployment.write_messages(&chat.rows).await;
    deployment.write_changes(&chat.changes).await;
    let unasked = service.ok(&chat.path()).await;
    assert_eq!(
        (mids(&unasked), unasked.get("as_of")),
        (vec![7, 5, 3], None)
    );
    deployment.advance(Sink::Messages, shard, p, 9).await;
    let expect = async |query: &str, as_of: &str| {
        let answer = service.ok(&format!("{}?{query}", chat.path())).await;
        assert_eq!(mids(&answer), [7, 5, 3], "{query}");
        assert_eq!(answer["as_of"], json!([as_of]), "{query}");
    };
    expect("after=18:8", "18:9").await;
    deployment.advance(Sink::Reads, shard, p, 9).await;
    expect("device=pc&after=18:8", "18:9").await;

    // Once the contact row is there, the answer is as old as that.
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    deployment.advance(Sink::Contacts, own, p, 8).await;
    for query in ["after=18:8", "device=pc&after=18:8"] {
        expect(query, "18:8").await;
    }
    expect("after=18:9", "18:9").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_changes_are_waited_for_in_the_contact_row() {
    let (deployment, service) = env().await;
    let p = partition(19);
    let mut chat = Chat::in_partition(p);
    chat.talk(200);
    for number in 1..=200 {
        chat.change(chat.me, number, Change::Hide);
    }
    deployment.write_messages(&chat.rows).await;
    deployment.write_changes(&chat.changes).await;
    deployment
        .advance(Sink::Messages, deployment.shard_of(p), p, 9)
        .await;
    let path = format!("{}?after=19:9&timeout_ms=300", chat.path());
    let late = service.get(&path).await;
    assert_eq!(
        late.detail(),
        "MySQL (contacts) has not reached 19:9 within 300 ms"
    );
    // Who asks for nothing does not wait.
    assert!(mids(&service.ok(&chat.path()).await).is_empty());
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let own = deployment.shard_of_user(chat.me);
    deployment.advance(Sink::Contacts, own, p, 9).await;
    assert!(mids(&service.ok(&path).await).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_do_not_go_together_are_refused() {
    let (_, service) = env().await;
    let path = Chat::new().path();
    for (query, field) in [
        ("before_mid=3&after_mid=1", "after_mid"),
        ("device=pc&before_mid=3", "before_mid"),
        ("device=pc&after_mid=3", "after_mid"),
        ("device=tv", "device"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=1&limit=2", "limit"),
        ("before_mid=-1", "before_mid"),
        ("before_mid=9223372036854775808", "before_mid"),
        ("after_mid=%00", "after_mid"),
        ("timeout_ms=0", "timeout_ms"),
        ("timeout_ms=30001", "timeout_ms"),
        ("after=17", "after"),
        ("after=64:1", "after"),
        ("after=1:9223372036854775808", "after"),
        ("befor_mid=3", "befor_mid"),
    ] {
        let answer = service.get(&format!("{path}?{query}")).await;
        assert_eq!(answer.field(), field, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_waits_for_the_messages_of_its_partition() {
    let (deployment, service) = env().await;
    let p = partition(11);
    let shard = deployment.shard_of(p);
    let mut chat = Chat::in_partition(p);
    deployment.advance(Sink::Messages, shard, p, 7).await;

    let early = service
        .ok(&format!(
            "{}?after=11:5&after=11:7&after=12:99",
            chat.path()
        ))
        .await;
    assert_eq!(early["as_of"], json!(["11:7"]));
    assert_eq!(service.ok(&chat.path()).await.get("as_of"), None);

    let late = service
        .get(&format!("{}?after=11:8&timeout_ms=300", chat.path()))
        .await;
    assert_eq!(late.status, 504);
    assert_eq!(
        late.detail(),
        "MySQL (messages) has not reached 11:8 within 300 ms"
    );

    chat.say(chat.peer, "just in time", 0);
    let path = format!("{}?after=11:8", chat.path());
    let (answer, ()) = tokio::join!(service.ok(&path), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        deployment.write_messages(&chat.rows).await;
        deployment.advance(Sink::Messages, shard, p, 9).await;
    });
    assert_eq!(
        (mids(&answer), &answer["as_of"]),
        (vec![1], &json!(["11:9"]))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_for_all_that_wait_may_leave() {
    let (deployment, service) = env().await;
    let p = partition(17);
    let shard = deployment.shard_of(p);
    let chat = Chat::in_partition(p);
    let path = |offset: i64| format!("{}?after=17:{offset}", chat.path());

    let impatient: Vec<String> = (0..20).map(|at| path(at) + "&timeout_ms=200").collect();
    let patient: Vec<String> = (1..=50).map(path).collect();
    let late = join_all(impatient.iter().map(|path| service.get(path)));
    let answers = join_all(patient.iter().map(|path| service.ok(path)));
    let late = async {
        assert!(late.await.iter().all(|answer| answer.status == 504));
        for offset in [10, 49, 50] {
            deployment.advance(Sink::Messages, shard, p, offset).await;
        }
    };
    let ((), answers) = tokio::join!(late, answers);
    assert_eq!(answers.len(), 50);
    assert_eq!(answers[49]["as_of"], json!(["17:50"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_waits_for_a_position_too_whichever_table_has_it_first() {
    let (deployment, service) = env().await;
    let p = partition(13);
    let mut chat = Chat::in_partition(p);
    chat.talk(3);
    deployment.write_messages(&chat.rows).await;
    let shard = deployment.shard_of(p);
    deployment.advance(Sink::Messages, shard, p, 5).await;

    let path = |after: i64| format!("{}?device=pc&timeout_ms=300&after=13:{after}", chat.path());
    let late = service.get(&path(5)).await;
    assert_eq!(late.status, 504);
    assert!(
        late.detail().starts_with("MySQL (read positions)"),
        "{}",
        late.detail()
    );

    let own = deployment.shard_of_user(chat.me);
    deployment.advance(Sink::Contacts, own, p, 5).await;
    assert_eq!(service.ok(&path(5)).await["as_of"], json!(["13:5"]));

    deployment.advance(Sink::Messages, shard, p, 6).await;
    assert_eq!(service.get(&path(6)).await.status, 504);
    deployment.advance(Sink::Reads, shard, p, 6).await;
    assert_eq!(service.ok(&path(6)).await["as_of"], json!(["13:6"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mysql_the_answer_is_503() {
    let deployment = Deployment::shared().await;
    let mut config = deployment.config.clone();
    // Nobody listens there.
    config.mysql.servers[0].port = 1;
    config.mysql.connect_timeout_ms = 500;
    let service = Service::start(&config).await;
    let answer = service.get(&Chat::new().path()).await;
    assert_eq!(
        (answer.status, answer.retry_after.as_deref()),
        (503, Some("1"))
    );
    assert!(
        !answer.detail().contains("127.0.0.1"),
        "{}",
        answer.detail()
    );
}

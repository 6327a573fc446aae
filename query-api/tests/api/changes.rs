use message_store::Sink;
use schemas::Change;
use serde_json::{Value, json};

use crate::{
    chat::{Chat, mids},
    deployment::partition,
    service::env,
};

/// (chg, mid, kind, msg) of an answer's items.
fn items(body: &Value) -> Vec<(i64, i64, &str, Option<&str>)> {
    let items = body["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| {
            assert_eq!(
                item["ts"].as_str().unwrap().len(),
                "2025-11-21T08:00:00.123Z".len()
            );
            (
                item["chg"].as_i64().unwrap(),
                item["mid"].as_i64().unwrap(),
                item["kind"].as_str().unwrap(),
                item.get("msg").map(|msg| msg.as_str().unwrap()),
            )
        })
        .collect()
}

fn edit(text: &str) -> Change {
    Change::Edit(text.to_owned())
}

/// Changes of all kinds, by both sides.
fn changed(mut chat: Chat) -> Chat {
    for text in ["one", "two", "three", "four", "five"] {
        chat.say(chat.peer, text, 1_000);
    }
    chat.change(chat.peer, 1, edit("eins"));
    chat.change(chat.peer, 1, Change::Recall);
    chat.change(chat.peer, 2, edit("zwei"));
    chat.change(chat.me, 5, Change::Hide);
    chat.change(chat.peer, 4, Change::Hide);
    chat.change(chat.peer, 2, edit("deux"));
    chat.change(chat.peer, 5, edit("cinq"));
    chat.change(chat.peer, 3, Change::Delete);
    chat.change(chat.peer, 5, Change::Clear);
    chat
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_listed_as_far_as_they_concern_the_user() {
    let (deployment, service) = env().await;
    let chat = changed(Chat::new());
    deployment.write_messages(&chat.rows).await;
    deployment.write_changes(&chat.changes).await;
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let all = [
        (1, 1, "edit", None),
        (2, 1, "recall", None),
        (3, 2, "edit", Some("deux")),
        (4, 5, "hide", None),
        (6, 2, "edit", Some("deux")),
        // I have hidden it.
        (7, 5, "edit", None),
        (8, 3, "delete", None),
    ];
    let body = service.ok(&chat.changes_path()).await;
    assert_eq!(items(&body), all);
    assert_eq!((&body["next"], body.get("as_of")), (&json!(null), None));

    for limit in [1, 2, 4, 9] {
        let mut found = Vec::new();
        let mut next = Some("after_chg=0".to_owned());
        while let Some(from) = next {
            let path = format!("{}?limit={limit}&{from}", chat.changes_path());
            let body = service.ok(&path).await;
            next = body["next"].as_str().map(str::to_owned);
            let page = items(&body).len();
            // What the other side hides and clears takes no place.
            assert!(page == limit || body["next"].is_null());
            found.extend(body["items"].as_array().unwrap().clone());
        }
        assert_eq!(items(&json!({ "items": found })), all, "{limit} at a time");
    }
    let newest = format!("{}?after_chg=7", chat.changes_path());
    assert_eq!(items(&service.ok(&newest).await), all[6..]);

    // The other side has cleared what it edited, as far as its contact row goes.
    let theirs = Chat::between(chat.peer, chat.me).changes_path();
    let kinds = [
        "edit", "recall", "edit", "hide", "edit", "edit", "delete", "clear",
    ];
    let body = service.ok(&theirs).await;
    let found: Vec<&str> = items(&body).into_iter().map(|item| item.2).collect();
    assert_eq!(found, kinds);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_reaction_to_a_message_that_is_seen_has_all() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    for text in ["one", "two", "three"] {
        chat.say(chat.peer, text, 1_000);
    }
    let react = |emoji: &str| Change::React(emoji.to_owned());
    chat.change(chat.me, 1, react("👍"));
    chat.change(chat.peer, 1, react("🎉"));
    chat.change(chat.me, 2, react("👍"));
    chat.change(chat.peer, 2, Change::Recall);
    chat.change(chat.me, 3, react("👍"));
    chat.change(chat.me, 3, Change::Hide);
    deployment.write_messages(&chat.rows).await;
    deployment.write_changes(&chat.changes).await;
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let reactions = |body: &Value| -> Vec<Option<Value>> {
        let items = body["items"].as_array().unwrap().iter();
        items.map(|item| item.get("reactions").cloned()).collect()
    };
    let (me, peer) = (chat.me.to_string(), chat.peer.to_string());
    let all = json!({ me: "👍", peer: "🎉" });
    let body = service.ok(&chat.changes_path()).await;
    let expected = [None, Some(all.clone()), None, None, None, None];
    assert_eq!(reactions(&body), expected);
    let body = service.ok(&chat.path()).await;
    assert_eq!(reactions(&body), [None, Some(all)]);
}

/// From rule version 4 on; there may be numbers from before.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_hides_and_clears_without_a_number_is_no_business_of_the_other() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    for text in ["one", "two", "three", "four", "five"] {
        chat.say(chat.peer, text, 1_000);
    }
    chat.change(chat.me, 1, Change::Hide);
    chat.change(chat.peer, 5, edit("cinq"));
    let first = chat.change_alone(chat.me, 5, Change::Hide);
    chat.change_alone(chat.peer, 4, Change::Hide);
    let last = chat.change_alone(chat.me, 2, Change::Clear);
    chat.change(chat.peer, 3, Change::Recall);
    deployment.write_messages(&chat.rows).await;
    deployment.write_changes(&chat.changes).await;
    // The contact row is behind what was hidden last.
    let late = chat.changes.split_off(3);
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let shown = service.ok(&format!("{}?before_mid=9", chat.path())).await;
    assert_eq!(mids(&shown), [4, 3]);
    chat.changes.extend(late);
    deployment.write_contacts(&[chat.contact(0, 0)]).await;

    let own_pos = |body: &Value| -> Vec<Option<i64>> {
        let items = body["items"].as_array().unwrap();
        items.iter().map(|item| item["own_pos"].as_i64()).collect()
    };
    let all = [
        (1, 1, "hide", None),
        (2, 5, "edit", None),
        (3, 3, "recall", None),
        (0, 5, "hide", None),
        (0, 2, "clear", None),
    ];
    let event_offset = [None, None, None, Some(first), Some(last)];
    for limit in [1, 2, 3, 4, 5, 9] {
        let mut found = Vec::new();
        let mut next = Some(String::new());
        while let Some(from) = next {
            let path = format!("{}?limit={limit}&{from}", chat.changes_path());
            let body = service.ok(path.trim_end_matches('&')).await;
            next = body["next"].as_str().map(str::to_owned);
            found.extend(body["items"].as_array().unwrap().clone());
        }
        let found = json!({ "items": found });
        assert_eq!(items(&found), all, "{limit} at a time");
        assert_eq!(own_pos(&found), event_offset);
    }
    let newest = format!("{}?after_chg=3&after_own_pos={first}", chat.changes_path());
    assert_eq!(items(&service.ok(&newest).await), all[4..]);

    let list = |uid| format!("/v1/users/{uid}/conversations");
    let mine = &service.ok(&list(chat.me)).await["items"][0];
    assert_eq!((&mine["chg"], &mine["own_pos"]), (&json!(3), &json!(last)));
    let theirs = Chat::between(chat.peer, chat.me).changes_path();
    let theirs = service.ok(&format!("{theirs}?after_chg=3")).await;
    let kinds: Vec<&str> = items(&theirs).into_iter().map(|item| item.2).collect();
    assert_eq!(kinds, ["hide"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changed_and_parameters_that_are_wrong() {
    let (_, service) = env().await;
    let path = Chat::new().changes_path();
    let body = service.ok(&path).await;
    assert_eq!(body, json!({"items": [], "next": null}));
    for (query, field) in [
        ("after_chg=-1", "after_chg"),
        ("after_chg=01", "after_chg"),
        ("after_chg=9223372036854775808", "after_chg"),
        ("after_own_pos=-1", "after_own_pos"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("after=64:1", "after"),
        ("after_mid=1", "after_mid"),
    ] {
        let answer = service.get(&format!("{path}?{query}")).await;
        assert_eq!(answer.field(), field, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_wait_for_the_messages_and_their_texts_for_the_contact_row_too() {
    let (deployment, service) = env().await;
    let p = partition(20);
    let chat = changed(Chat::in_partition(p));
    let shard = deployment.shard_of(p);
    let path = |query: &str| format!("{}?timeout_ms=300&{query}", chat.changes_path());
    let late = service.get(&path("after=20:7")).await;
    assert_eq!(
        (late.status, late.detail()),
        (504, "MySQL (messages) has not reached 20:7 within 300 ms")
    );

    deployment.write_messages(&chat.rows).await;
    deployment.write_changes(&chat.changes).await;
    deployment.advance(Sink::Messages, shard, p, 8).await;
    // No edit is on this page.
    let body = service.ok(&path("after=20:7&after_chg=7")).await;
    assert_eq!(body["as_of"], json!(["20:8"]));
    let late = service.get(&path("after=20:7")).await;
    assert_eq!(
        (late.status, late.detail()),
        (504, "MySQL (contacts) has not reached 20:7 within 300 ms")
    );

    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let own = deployment.shard_of_user(chat.me);
    deployment.advance(Sink::Contacts, own, p, 7).await;
    let body = service.ok(&path("after=20:7")).await;
    assert_eq!(body["as_of"], json!(["20:7"]));
    assert_eq!(items(&body)[5], (7, 5, "edit", None));
}

use std::time::Duration;

use message_store::{FlagsAt, LastMessage, MessageState, ReadUpTo, Sink};
use schemas::{Change, ChangeSeq, ContactFlags, TimestampMs, UserId};
use serde_json::{Value, json};

use crate::{
    chat::{Chat, fresh_user, mid, ordinal},
    deployment::{now, partition, user},
    service::env,
};

fn list(uid: UserId) -> String {
    format!("/v1/users/{uid}/conversations")
}

fn peers(body: &Value) -> Vec<i64> {
    let items = body["items"].as_array().unwrap();
    let peer = |item: &Value| item["peer"].as_str().unwrap().parse().unwrap();
    items.iter().map(peer).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_shows_its_last_message_and_what_is_unread() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    let long = "\u{1f30a}".repeat(300);
    chat.say(chat.peer, "one", 0);
    chat.say(chat.me, "two", 0);
    chat.say(chat.peer, "three", 0);
    chat.say(chat.peer, &long, 0);
    deployment.write_messages(&chat.rows).await;
    deployment.write_contacts(&[chat.contact(1, 4)]).await;

    let body = service.ok(&list(chat.me)).await;
    let item = &body["items"][0];
    assert_eq!(item["peer"], chat.peer.to_string());
    assert_eq!(item["last_mid"], 4);
    assert_eq!(item["unread"], json!({"pc": 2, "mobile": 0}));
    assert_eq!(item["read_mid"], json!({"pc": 1, "mobile": 4}));
    let last = &item["last"];
    let client_msg_id = chat.rows[3].client_msg_id.as_str();
    assert_eq!(last["msg"], long);
    assert_eq!(last["mid"], 4);
    assert_eq!(last["srcid"], chat.peer.to_string());
    assert_eq!(last["destid"], chat.me.to_string());
    assert_eq!(last["client_msg_id"], client_msg_id);
    assert_eq!((&body["next"], body.get("as_of")), (&json!(null), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_preview_serves_where_the_row_is_gone() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    chat.say(chat.me, &"x".repeat(300), 0);
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let last = service.ok(&list(chat.me)).await["items"][0]["last"].clone();
    assert_eq!(last["msg"], "x".repeat(200));
    assert_eq!(last["client_msg_id"], json!(null));
    assert_eq!(
        (&last["srcid"], &last["destid"]),
        (&json!(chat.me), &json!(chat.peer))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_that_cannot_be_told_are_null() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    chat.talk(5);
    let mut contact = chat.contact(0, 2);
    contact.read.pc = ReadUpTo {
        mid: mid(3),
        ordinal: None,
    };
    let mut notes = Chat::between(chat.me, chat.me);
    notes.say(notes.me, "note", 60_000);
    deployment
        .write_contacts(&[contact, notes.contact(0, 0)])
        .await;

    let body = service.ok(&list(chat.me)).await;
    assert_eq!(body["items"][0]["unread"], json!({"pc": null, "mobile": 2}));
    assert_eq!(body["items"][0]["read_mid"], json!({"pc": 3, "mobile": 2}));
    // A note to oneself is never unread.
    assert_eq!(body["items"][1]["unread"], json!({"pc": 0, "mobile": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_put_together_are_the_whole() {
    let (deployment, service) = env().await;
    let me = fresh_user();
    // Groups of equal times, so that the peer decides within them.
    let base = now().0;
    let mut expected = Vec::new();
    let mut contacts = Vec::new();
    let pins = ContactFlags {
        pinned: true,
        ..ContactFlags::default()
    };
    for i in 0..57_i64 {
        let chat = Chat::between(me, user(1_000 + i * 7 % 57));
        let ts = base - i / 5;
        let pinned = i % 11 == 3;
        expected.push((pinned, ts, chat.peer.get()));
        let mut contact = chat.contact(0, 0);
        contact.last = Some(LastMessage {
            mid: mid(1),
            ts: TimestampMs(ts),
            srcid: chat.peer,
            preview: "hello".to_owned(),
            change_seq: ChangeSeq::ZERO,
            state: MessageState::Shown,
        });
        contact.peer_ordinal = ordinal(1);
        contact.event_offset = 1;
        contact.flags = pinned.then_some(FlagsAt {
            event_offset: 1,
            flags: pins,
        });
        contacts.push(contact);
    }
    deployment.write_contacts(&contacts).await;
    expected.sort_by(|a, b| b.cmp(a));
    let expected: Vec<i64> = expected.into_iter().map(|(.., peer)| peer).collect();

    for limit in [3, 19, 28, 50, 57, 58] {
        let mut all = Vec::new();
        let mut page = service.ok(&format!("{}?limit={limit}", list(me))).await;
        all.extend(peers(&page));
        while let Some(cursor) = page["next"].as_str() {
            let path = format!("{}?limit={limit}&cursor={cursor}", list(me));
            page = service.ok(&path).await;
            assert!(!peers(&page).is_empty());
            all.extend(peers(&page));
        }
        assert_eq!(all, expected, "{limit} at a time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_are_shown_and_a_deleted_contact_comes_back_with_its_next_message() {
    let (deployment, service) = env().await;
    let mut chat = Chat::new();
    chat.talk(2);
    let mut contact = chat.contact(0, 0);
    contact.event_offset = 5;
    contact.flags = Some(FlagsAt {
        event_offset: 5,
        flags: ContactFlags {
            favourite: true,
            muted: true,
            ..ContactFlags::default()
        },
    });
    let mut never_written_to = Chat::between(chat.me, fresh_user()).contact(0, 0);
    never_written_to.event_offset = 4;
    never_written_to.flags = contact.flags.map(|set| FlagsAt {
        event_offset: 4,
        ..set
    });
    deployment
        .write_contacts(&[contact.clone(), never_written_to])
        .await;

    let body = service.ok(&list(chat.me)).await;
    assert_eq!(peers(&body), [chat.peer.get()]);
    let item = &body["items"][0];
    for (flag, is_set) in [
        ("favourite", true),
        ("pinned", false),
        ("muted", true),
        ("blocked", false),
    ] {
        assert_eq!(item[flag], is_set, "{flag}");
    }
    assert_eq!(item["chg"], 0);

    contact.deleted_mid = mid(2);
    deployment.write_contacts(&[contact]).await;
    assert!(peers(&service.ok(&list(chat.me)).await).is_empty());
    chat.talk(1);
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let body = service.ok(&list(chat.me)).await;
    assert_eq!(body["items"][0]["last_mid"], 3);
    assert_eq!(body["items"][0]["favourite"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_message_is_shown_as_the_user_sees_it() {
    let (deployment, service) = env().await;
    let shown = async |by_me: bool, change: Change, has_row: bool| {
        let mut chat = Chat::new();
        chat.say(chat.me, "hello", 1_000);
        let by = if by_me { chat.me } else { chat.peer };
        chat.change(by, 1, change);
        if has_row {
            deployment.write_messages(&chat.rows).await;
            deployment.write_changes(&chat.changes).await;
        }
        deployment.write_contacts(&[chat.contact(0, 0)]).await;
        let mut body = service.ok(&list(chat.me)).await;
        let item = body["items"][0].take();
        assert_eq!((&item["last_mid"], &item["chg"]), (&json!(1), &json!(1)));
        item["last"].clone()
    };
    let edit = || Change::Edit("hallo".to_owned());
    for has_row in [true, false] {
        for unseen in [Change::Hide, Change::Clear, Change::Delete] {
            let last = shown(true, unseen.clone(), has_row).await;
            assert_eq!(last, json!(null), "{unseen:?} {has_row}");
        }
        for only_theirs in [Change::Hide, Change::Clear] {
            let last = shown(false, only_theirs, has_row).await;
            assert_eq!(last["msg"], "hello");
        }
        let last = shown(true, Change::Recall, has_row).await;
        assert_eq!(
            (&last["msg"], &last["recalled"]),
            (&json!(""), &json!(true))
        );
        assert_eq!(last["client_msg_id"].is_string(), has_row);
        let last = shown(true, edit(), has_row).await;
        assert_eq!(
            (&last["msg"], last.get("recalled")),
            (&json!("hallo"), None)
        );
        assert_eq!(last.get("edited_ts").is_some(), has_row);
    }
}

/// The contact row and the message are in two databases, and either may be behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_recall_that_only_one_of_the_stores_has_is_shown() {
    let (deployment, service) = env().await;
    for change in [Change::Recall, Change::Delete] {
        for in_contact in [true, false] {
            let mut chat = Chat::new();
            chat.say(chat.me, "hello", 1_000);
            let before = chat.contact(0, 0);
            chat.change(chat.me, 1, change.clone());
            deployment.write_messages(&chat.rows).await;
            if in_contact {
                deployment.write_contacts(&[chat.contact(0, 0)]).await;
            } else {
                deployment.write_contacts(&[before]).await;
                deployment.write_changes(&chat.changes).await;
            }
            let body = service.ok(&list(chat.me)).await;
            let last = &body["items"][0]["last"];
            if change == Change::Recall {
                assert_eq!(
                    (&last["msg"], &last["recalled"]),
                    (&json!(""), &json!(true))
                );
            } else {
                assert_eq!(last, &json!(null));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_was_changed_or_is_anothers_is_refused() {
    let (deployment, service) = env().await;
    let me = fresh_user();
    let contacts: Vec<_> = (1..=3)
        .map(|peer| {
            let mut chat = Chat::between(me, user(peer));
            chat.say(chat.peer, "hello", peer);
            chat.contact(0, 0)
        })
        .collect();
    deployment.write_contacts(&contacts).await;
    let page = service.ok(&format!("{}?limit=1", list(me))).await;
    let good = page["next"].as_str().unwrap().to_owned();
    let of_another = format!("{}?cursor={good}", list(fresh_user()));
    assert_eq!(service.get(&of_another).await.field(), "cursor");
    let flipped = good.replace(&good[5..6], if &good[5..6] == "A" { "B" } else { "A" });
    let long = "A".repeat(3_000);
    for bad in [
        "x",
        "AQ",
        &good[1..],
        &flipped,
        &long,
        "%F0%9F%8C%8A",
        "%00",
    ] {
        let path = format!("{}?cursor={bad}", list(me));
        assert_eq!(service.get(&path).await.field(), "cursor", "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_waits_for_contacts_and_for_the_messages_it_shows() {
    let (deployment, service) = env().await;
    let p = partition(21);
    let mut chat = Chat::in_partition(p);
    chat.say(chat.peer, "hello", 0);
    let own = deployment.shard_of_user(chat.me);
    let path = |query: &str| format!("{}?{query}", list(chat.me));

    let late = service.get(&path("after=21:3&timeout_ms=200")).await;
    assert_eq!(
        late.detail(),
        "MySQL (contacts) has not reached 21:3 within 200 ms"
    );

    deployment.advance(Sink::Contacts, own, p, 3).await;
    assert_eq!(
        service.ok(&path("after=21:3")).await["as_of"],
        json!(["21:3"])
    );

    // From now on a message of the partition is shown.
    deployment.write_contacts(&[chat.contact(0, 0)]).await;
    let late = service.get(&path("after=21:3&timeout_ms=200")).await;
    assert_eq!(
        late.detail(),
        "MySQL (messages) has not reached 21:3 within 200 ms"
    );

    let waiting = path("after=21:3");
    let (answer, ()) = tokio::join!(service.ok(&waiting), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        deployment.write_messages(&chat.rows).await;
        let shard = deployment.shard_of(chat.rows[0].conversation().partition());
        deployment.advance(Sink::Messages, shard, p, 3).await;
    });
    assert!(answer["items"][0]["last"]["client_msg_id"].is_string());
    assert_eq!(answer["as_of"], json!(["21:3"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_conversations_has_an_empty_list() {
    let (_, service) = env().await;
    let body = service.ok(&list(fresh_user())).await;
    assert_eq!(body, json!({"items": [], "next": null}));
}

//! A device with a gateway and a query API that do what real ones do at the wrong moment only.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scripted;

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use client::{
    ClientError,
    device::{Device, DeviceState, Outbox, Update},
    new_client_msg_id,
};
use futures::future::{Either, select};
use schemas::{Mid, Recipient};
use scripted::{Connection, Scripted, message, nothing_new, soon};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

fn peer() -> Recipient {
    Recipient::User(2.try_into().unwrap())
}

fn mid(mid: i64) -> Mid {
    mid.try_into().unwrap()
}

fn send(device: &mut Device, msg: &str) {
    send_to(peer(), device, msg);
}

fn send_to(to: Recipient, device: &mut Device, msg: &str) {
    let id = new_client_msg_id();
    device.send(to, id, msg.to_owned()).unwrap();
}

/// Calls of `next` that are dropped, while the gateway does something.
async fn meanwhile<T>(device: &mut Device, gateway: impl Future<Output = T>) -> T {
    let mut gateway = pin!(gateway);
    loop {
        let next = pin!(device.next());
        match select(gateway, next).await {
            Either::Left((done, _)) => return done,
            Either::Right((update, still)) => {
                update.unwrap();
                gateway = still;
            }
        }
    }
}

async fn until(device: &mut Device, expected: Update) {
    while soon(device.next()).await.unwrap() != expected {}
}

/// Connected, with an empty outbox.
async fn connect(scripted: &Scripted) -> (Device, Connection) {
    let mut device = scripted.device();
    let connection = meanwhile(&mut device, scripted.welcome()).await;
    until(&mut device, Update::Connected).await;
    (device, connection)
}

#[tokio::test]
async fn a_call_that_is_dropped_goes_on_with_the_same_handshake() {
    let scripted = Scripted::start().await;
    let mut device = scripted.device();
    let stream = meanwhile(&mut device, scripted.attempt()).await;
    // A second attempt would be the one that says hello.
    let _connection = meanwhile(&mut device, async {
        let mut connection = Connection::shake_hands(stream).await;
        assert_eq!(connection.receive().await["type"], "hello");
        connection
            .send(json!({"type": "welcome", "resumed": true}))
            .await;
        connection
    })
    .await;
    until(&mut device, Update::Connected).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_goes_on_with_the_same_sync() {
    let mut scripted = Scripted::start().await;
    let mut device = scripted.device();
    let (mut connection, _) = meanwhile(&mut device, scripted.accept()).await;
    connection
        .send(json!({"type": "sync_required", "after_ms": 0}))
        .await;
    let (path, answer) = meanwhile(&mut device, scripted.asked()).await;
    assert!(path.starts_with("/v1/users/1/sync?since="), "{path}");
    // Pings are answered while it goes on.
    for _ in 0..3 {
        assert_eq!(
            meanwhile(&mut device, connection.receive_all()).await,
            [] as [Value; 0]
        );
    }
    answer.send(nothing_new()).unwrap();
    until(&mut device, Update::Synced).await;
    assert!(!scripted.is_asked());
    let resume = meanwhile(&mut device, connection.receive()).await;
    assert_eq!(resume["type"], "resume");
}

#[tokio::test]
async fn no_more_than_a_window_is_under_way() {
    let scripted = Scripted::start().await;
    let (mut device, mut connection) = connect(&scripted).await;
    for number in 1..=40 {
        let to = Recipient::Group(number.try_into().unwrap());
        send_to(to, &mut device, &number.to_string());
    }
    let frames = meanwhile(&mut device, connection.receive_all()).await;
    let texts: Vec<&str> = frames
        .iter()
        .filter_map(|one| one["msg"].as_str())
        .collect();
    let expected: Vec<String> = (1..=32).map(|number: i32| number.to_string()).collect();
    assert_eq!(texts, expected);
    for frame in &frames[..2] {
        let sent = json!({"type": "sent", "ref": frame["ref"], "mid": 1});
        connection.send(sent).await;
    }
    let frames = meanwhile(&mut device, connection.receive_all()).await;
    let texts: Vec<&str> = frames
        .iter()
        .filter_map(|one| one["msg"].as_str())
        .collect();
    assert_eq!(texts, ["33", "34"]);
    assert_eq!(device.outbox().items().len(), 38);
}

#[tokio::test]
async fn a_message_that_would_be_refused_takes_no_place_in_the_queue() {
    let scripted = Scripted::start().await;
    let (mut device, mut connection) = connect(&scripted).await;
    for wrong in ["", "a\0b", &"x".repeat(16_385)] {
        let refused = device.send(peer(), new_client_msg_id(), wrong.to_owned());
        let Err(ClientError::InvalidField(field)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(field.field, "msg");
    }
    let longest = "\u{1}".repeat(16_384);
    send(&mut device, &longest);
    send_to(group(), &mut device, "last");
    let frames = meanwhile(&mut device, connection.receive_all()).await;
    let texts: Vec<&str> = frames
        .iter()
        .filter_map(|one| one["msg"].as_str())
        .collect();
    assert_eq!(texts, [&longest, "last"]);
}

#[tokio::test]
async fn what_is_read_offline_is_said_once_there_is_a_connection() {
    let scripted = Scripted::start().await;
    let mut device = scripted.device();
    let group = Recipient::Group(5.try_into().unwrap());
    device.read(peer(), mid(3));
    device.read(group, mid(1));
    device.read(peer(), mid(5));
    // Back to what was read before.
    device.read(peer(), mid(4));
    let mut connection = meanwhile(&mut device, scripted.welcome()).await;
    let frames = meanwhile(&mut device, connection.receive_all()).await;
    let said: Vec<_> = frames
        .iter()
        .map(|one| (&one["gid"], &one["peer"], &one["mid"]))
        .collect();
    let (none, two, five) = (json!(null), json!("2"), json!("5"));
    assert_eq!(said, [(&five, &none, &json!(1)), (&none, &two, &json!(5))]);
    for frame in &frames {
        let accepted = json!({"type": "accepted", "ref": frame["ref"], "at": "17:1"});
        connection.send(accepted).await;
    }
    meanwhile(&mut device, connection.receive_all()).await;
    assert_eq!(device.outbox().items().len(), 0);
}

/// As a gateway without Kafka, which comes back: `first` is refused for the moment, and `second` would not be.
#[tokio::test]
async fn what_is_refused_for_the_moment_goes_out_again_before_what_is_behind_it() {
    let scripted = Scripted::start().await;
    let (mut device, mut connection) = connect(&scripted).await;
    send(&mut device, "first");
    send(&mut device, "second");
    send_to(group(), &mut device, "elsewhere");
    let frames = meanwhile(&mut device, connection.receive_all()).await;
    let texts: Vec<_> = frames.iter().map(|one| one["msg"].clone()).collect();
    assert_eq!(texts, ["first", "elsewhere"]);
    let reference = &frames[0]["ref"];
    let refused = json!({"type": "refused", "ref": reference, "reason": "unavailable", "detail": "later", "retry": true});
    connection.send(refused).await;
    assert_eq!(
        meanwhile(&mut device, connection.receive()).await,
        frames[0]
    );
    assert!(
        meanwhile(&mut device, connection.receive_all())
            .await
            .is_empty()
    );
    let accepted = json!({"type": "accepted", "ref": reference, "at": "17:1"});
    connection.send(accepted).await;
    let next = meanwhile(&mut device, connection.receive()).await;
    assert_eq!(next["msg"], "second");
}

#[tokio::test]
async fn a_read_that_is_refused_is_told() {
    let scripted = Scripted::start().await;
    let (mut device, mut connection) = connect(&scripted).await;
    device.read(peer(), mid(3));
    let read = meanwhile(&mut device, connection.receive()).await;
    let (reason, detail) = ("forbidden".to_owned(), "the caller may not".to_owned());
    let refused =
        json!({"type": "refused", "ref": read["ref"], "reason": reason, "detail": detail});
    connection.send(refused).await;
    let (of, mid) = (peer(), mid(3));
    let expected = Update::ReadRefused {
        of,
        mid,
        reason,
        detail,
    };
    assert_eq!(soon(device.next()).await.unwrap(), expected);
    assert_eq!(device.outbox().items().len(), 0);
}

/// A gateway takes neither before its welcome, and passes on one `typing` a second.
#[tokio::test]
async fn typing_waits_for_nothing_and_focus_for_the_stream() {
    let scripted = Scripted::start().await;
    let mut device = scripted.device();
    let (mut connection, _) = meanwhile(&mut device, scripted.accept()).await;
    device.typing(peer());
    device.focus(Some(peer()));
    let before = meanwhile(&mut device, connection.receive_all()).await;
    assert!(before.is_empty(), "{before:?}");
    connection
        .send(json!({"type": "welcome", "resumed": true}))
        .await;
    let focus = meanwhile(&mut device, connection.receive()).await;
    assert_eq!(focus, json!({"type": "focus", "peer": "2"}));
    for _ in 0..3 {
        device.typing(peer());
    }
    let typing = meanwhile(&mut device, connection.receive_all()).await;
    assert_eq!(typing, [json!({"type": "typing", "to": "2"})]);
}

#[tokio::test]
async fn a_device_that_is_not_to_come_back_does_not() {
    let scripted = Scripted::start().await;
    let (mut device, connection) = connect(&scripted).await;
    send(&mut device, "kept");
    let closed = tokio::spawn(connection.close(4101));
    for _ in 0..2 {
        // A connection would be answered by nobody.
        let ended = soon(device.next()).await.unwrap_err();
        assert!(
            matches!(ended, ClientError::Closed { code: 4101, .. }),
            "{ended}"
        );
    }
    closed.await.unwrap();
    let (_, outbox) = device.into_parts();
    assert_eq!(outbox.items().len(), 1);
}

/// It would be asked five times a second, by every device and for ever.
#[tokio::test]
async fn a_gateway_that_welcomes_pings_and_closes_is_not_hurried() {
    let scripted = Scripted::start().await;
    let mut device = scripted.device();
    let begun = Instant::now();
    for _ in 0..5 {
        let mut connection = meanwhile(&mut device, scripted.welcome()).await;
        meanwhile(&mut device, connection.receive_all()).await;
        meanwhile(&mut device, connection.close(1001)).await;
    }
    meanwhile(&mut device, scripted.welcome()).await;
    // Half of 0.1, 0.2, 0.4, 0.8 and 1.6 s at least.
    assert!(begun.elapsed() >= Duration::from_millis(1_550));
}

#[tokio::test]
async fn neither_is_one_that_ends_and_asks_to_come_back_at_once() {
    let scripted = Scripted::start().await;
    let mut device = scripted.device();
    let begun = Instant::now();
    for _ in 0..5 {
        let mut connection = meanwhile(&mut device, scripted.welcome()).await;
        let reconnect = json!({"type": "reconnect", "after_ms": 0});
        meanwhile(&mut device, connection.send(reconnect)).await;
    }
    meanwhile(&mut device, scripted.welcome()).await;
    assert!(begun.elapsed() >= Duration::from_millis(1_550));
}

/// Ten seconds' worth at once would be too much for it.
#[tokio::test]
async fn a_long_queue_goes_out_as_fast_as_the_gateway_says_and_no_faster() {
    let scripted = Scripted::start().await;
    let mut device = scripted.device();
    for number in 1..=20 {
        let to = Recipient::Group(number.try_into().unwrap());
        send_to(to, &mut device, "text");
    }
    device.focus(Some(peer()));
    let welcome =
        json!({"type": "welcome", "resumed": true, "frames_per_s": 2, "bytes_per_s": 100_000});
    let (mut connection, _) = meanwhile(&mut device, scripted.accept()).await;
    connection.send(welcome.clone()).await;
    let begun = Instant::now();
    for number in 0..12 {
        let frame = meanwhile(&mut device, connection.receive()).await;
        if number == 0 {
            assert_eq!(frame["type"], "focus", "it waits for nothing");
        } else {
            let sent = json!({"type": "sent", "ref": frame["ref"], "mid": 1});
            connection.send(sent).await;
        }
    }
    // Five seconds' worth, which are ten frames, are written at once.
    assert!(begun.elapsed() > Duration::from_millis(900));
    // A new connection is no new budget.
    let begun = Instant::now();
    meanwhile(&mut device, connection.close(4003)).await;
    let (mut connection, _) = meanwhile(&mut device, scripted.accept()).await;
    connection.send(welcome).await;
    meanwhile(&mut device, connection.receive()).await;
    assert!(begun.elapsed() > Duration::from_millis(400));
}

/// As a balancer answers while gateways change.
#[tokio::test]
async fn a_server_that_fails_does_not_end_the_device() {
    let scripted = Scripted::start().await;
    let mut device = scripted.device();
    let refused = async {
        let mut attempt = scripted.attempt().await;
        let answer = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
        attempt.write_all(answer).await.unwrap();
        scripted.welcome().await
    };
    let mut connection = meanwhile(&mut device, refused).await;
    let error = json!({"type": "error", "detail": "no frame of this version"});
    connection.send(error).await;
    let detail = "no frame of this version".to_owned();
    until(&mut device, Update::Error(detail)).await;
    connection
        .send(json!({"type": "event", "at": "3:12", "message": message(1, "hello")}))
        .await;
    until(&mut device, Update::Chat(peer())).await;
}

#[tokio::test]
async fn a_device_that_was_stored_goes_on() {
    let scripted = Scripted::start().await;
    let (mut device, mut connection) = connect(&scripted).await;
    connection
        .send(json!({"type": "event", "at": "3:12", "message": message(1, "hello")}))
        .await;
    until(&mut device, Update::Chat(peer())).await;
    send(&mut device, "unanswered");
    let written = meanwhile(&mut device, connection.receive()).await;
    let known = device.state().token().unwrap().to_string();
    let stored = serde_json::to_string(&device.into_parts()).unwrap();
    let (state, outbox) = serde_json::from_str(&stored).unwrap();
    let mut device = scripted.device_of(state, outbox);
    assert_eq!(device.state().chats()[&peer()].messages.len(), 1);
    let (mut connection, hello) = meanwhile(&mut device, scripted.accept()).await;
    assert_eq!(hello["since"], known);
    connection
        .send(json!({"type": "welcome", "resumed": true}))
        .await;
    assert_eq!(meanwhile(&mut device, connection.receive()).await, written);
}

/// Stored, and of four days before now.
fn of_long_ago(device: Device) -> (DeviceState, Outbox) {
    let mut stored = serde_json::to_value(device.into_parts()).unwrap();
    let origins = stored[1]["origins"].as_object_mut().unwrap();
    for origin in origins.values_mut() {
        let at = &mut origin["sent_at"]["secs_since_epoch"];
        *at = json!(at.as_u64().unwrap() - 4 * 24 * 60 * 60);
    }
    serde_json::from_value(stored).unwrap()
}

fn own_message(mid: i64, client_msg_id: &str) -> Value {
    let mut own = message(mid, "text");
    own["srcid"] = json!("1");
    own["destid"] = json!("2");
    own["client_msg_id"] = json!(client_msg_id);
    own
}

/// The log does not know a repeat after three days.
#[tokio::test]
async fn a_send_of_long_ago_is_looked_for_before_it_goes_out_again() {
    let mut scripted = Scripted::start().await;
    let (mut device, mut connection) = connect_missing(&scripted).await;
    for msg in ["one", "two"] {
        send(&mut device, msg);
    }
    let first = meanwhile(&mut device, connection.receive()).await;
    let id = first["client_msg_id"].as_str().unwrap();
    let (state, outbox) = of_long_ago(device);
    let mut device = scripted.device_of(state, outbox);
    let mut connection = meanwhile(&mut device, scripted.welcome()).await;
    let pages = async {
        for (expected, own, next) in [
            ("after_mid=2", own_message(3, "other"), json!("after_mid=3")),
            ("after_mid=3", own_message(4, id), json!(null)),
        ] {
            let (path, answer) = scripted.asked().await;
            assert!(path.contains(expected), "{path}");
            answer.send(json!({"items": [own], "next": next})).unwrap();
        }
    };
    meanwhile(&mut device, pages).await;
    let sent = Update::Sent(id.to_owned().try_into().unwrap(), Some(mid(4)));
    until(&mut device, sent).await;
    let frame = meanwhile(&mut device, connection.receive()).await;
    assert_eq!(frame["msg"], "two", "it was not there");
    assert!(!scripted.is_asked());
}

#[tokio::test]
async fn a_send_that_the_device_has_itself_does_not_go_out_again() {
    let scripted = Scripted::start().await;
    let (mut device, mut connection) = connect(&scripted).await;
    send(&mut device, "one");
    let frame = meanwhile(&mut device, connection.receive()).await;
    let id = frame["client_msg_id"].as_str().unwrap();
    let event = json!({"type": "event", "at": "3:12", "message": own_message(1, id)});
    connection.send(event).await;
    until(&mut device, Update::Chat(peer())).await;
    let (state, outbox) = device.into_parts();
    let mut device = scripted.device_of(state, outbox);
    let mut connection = meanwhile(&mut device, scripted.welcome()).await;
    let sent = Update::Sent(id.to_owned().try_into().unwrap(), Some(mid(1)));
    until(&mut device, sent).await;
    let written = meanwhile(&mut device, connection.receive_all()).await;
    assert_eq!(written, [] as [Value; 0]);
}

/// Knows that there is a message, and does not have it.
async fn connect_missing(scripted: &Scripted) -> (Device, Connection) {
    let (mut device, mut connection) = connect(scripted).await;
    connection
        .send(json!({"type": "event", "at": "3:12", "message": message(2, "second")}))
        .await;
    until(&mut device, Update::Chat(peer())).await;
    (device, connection)
}

#[tokio::test]
async fn pings_are_answered_while_a_page_is_fetched() {
    let mut scripted = Scripted::start().await;
    let (mut device, mut connection) = connect_missing(&scripted).await;
    let gateway = async {
        let (path, answer) = scripted.asked().await;
        assert!(
            path.contains("/conversations/2/messages?after_mid=0"),
            "{path}"
        );
        connection.receive_all().await;
        let items = json!([message(1, "first"), message(2, "second")]);
        answer.send(json!({"items": items, "next": null})).unwrap();
    };
    let (fetched, ()) = soon(futures::future::join(device.fetch(peer()), gateway)).await;
    fetched.unwrap();
    let messages = &device.state().chats()[&peer()].messages;
    assert_eq!(messages.len(), 2);
    assert!(!scripted.is_asked());
}

#[tokio::test]
async fn a_page_that_is_older_than_what_was_handled_is_asked_for_again() {
    let mut scripted = Scripted::start().await;
    let (mut device, mut connection) = connect_missing(&scripted).await;
    let gateway = async {
        let (first, _answer) = scripted.asked().await;
        let edit = json!({"by": "2", "peer": "1", "mid": 1, "kind": "edit", "chg": 1, "ts": "2026-11-26T00:00:01Z", "msg": "edited"});
        connection
            .send(json!({"type": "event", "at": "3:13", "message_change": edit}))
            .await;
        connection.receive_all().await;
        let (again, answer) = scripted.asked().await;
        assert_ne!(first, again, "it has to reflect the edit");
        let items = json!([message(1, "edited"), message(2, "second")]);
        answer.send(json!({"items": items, "next": null})).unwrap();
    };
    let (fetched, ()) = soon(futures::future::join(device.fetch(peer()), gateway)).await;
    fetched.unwrap();
    assert_eq!(
        device.state().chats()[&peer()].messages[&mid(1)].msg,
        "edited"
    );
    assert_eq!(device.next().await.unwrap(), Update::Chat(peer()));
}

fn group() -> Recipient {
    Recipient::Group(5.try_into().unwrap())
}

fn group_message(mid: i64) -> Value {
    let mut message = message(mid, "text");
    message["destid"] = json!(null);
    message["gid"] = json!("5");
    message
}

fn membership(at: &str, role: Option<&str>, last_mid: i64) -> Value {
    json!({"type": "event", "at": at, "group_change": {
        "gid": "5", "by": "2", "kind": "add", "owner": "2", "open": true, "muted": false, "name": "Lunch", "whole_history": true,
        "dissolved": false, "member_count": 3, "last_mid": last_mid,
        "members": [{"uid": "1", "role": role, "muted": false, "joined": role.is_some()}],
    }})
}

/// In a group that has these messages.
async fn connect_joined(scripted: &Scripted, mids: &[i64]) -> (Device, Connection) {
    let (mut device, mut connection) = connect(scripted).await;
    connection.send(membership("5:12", Some("member"), 0)).await;
    until(&mut device, Update::Chat(group())).await;
    for (at, mid) in (13..).zip(mids) {
        let message = group_message(*mid);
        let event = json!({"type": "event", "at": format!("5:{at}"), "message": message});
        connection.send(event).await;
        until(&mut device, Update::Chat(group())).await;
    }
    (device, connection)
}

/// The user leaves and joins again: then the group is another chat, of which the device has nothing.
async fn join_again(connection: &mut Connection) {
    connection.send(membership("5:15", None, 3)).await;
    connection.send(membership("5:16", Some("member"), 3)).await;
    connection.receive_all().await;
}

/// All three messages of the group.
async fn answer_from_the_start(scripted: &mut Scripted) {
    let (path, answer) = scripted.asked().await;
    assert!(path.contains("after_mid=0"), "{path}");
    let items: Vec<Value> = (1..=3).map(group_message).collect();
    answer.send(json!({"items": items, "next": null})).unwrap();
}

/// The device has these three, and lacks nothing, when its fetch has ended.
async fn fetches_all(device: &mut Device, gateway: impl Future<Output = ()>) {
    let (fetched, ()) = soon(futures::future::join(device.fetch(group()), gateway)).await;
    fetched.unwrap();
    let chat = &device.state().chats()[&group()];
    assert_eq!((chat.messages.len(), chat.missing()), (3, None));
}

#[tokio::test]
async fn who_joins_again_while_a_page_is_fetched_gets_it_from_the_start() {
    let mut scripted = Scripted::start().await;
    let (mut device, mut connection) = connect_joined(&scripted, &[1, 3]).await;
    let gateway = async {
        let (path, _answer) = scripted.asked().await;
        assert!(path.contains("after_mid=1"), "{path}");
        join_again(&mut connection).await;
        answer_from_the_start(&mut scripted).await;
    };
    fetches_all(&mut device, gateway).await;
    assert!(!scripted.is_asked());
}

#[tokio::test]
async fn who_joins_again_while_changes_are_fetched_gets_the_messages_too() {
    let mut scripted = Scripted::start().await;
    let (mut device, mut connection) = connect_joined(&scripted, &[1, 2]).await;
    let head = json!({"type": "head", "at": "5:14", "until": "5:14", "gid": "5", "mid": 2, "chg": 1, "own_mid": 0});
    connection.send(head).await;
    until(&mut device, Update::Chat(group())).await;
    let gateway = async {
        let nothing = json!({"items": [], "next": null});
        let (_, answer) = scripted.asked().await;
        answer.send(nothing.clone()).unwrap();
        let (path, _answer) = scripted.asked().await;
        assert!(path.contains("after_chg=0"), "{path}");
        join_again(&mut connection).await;
        let (_, answer) = scripted.asked().await;
        answer.send(nothing).unwrap();
        answer_from_the_start(&mut scripted).await;
    };
    fetches_all(&mut device, gateway).await;
}

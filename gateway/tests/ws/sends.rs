//! What devices send, and what they are told of it.

use std::time::Duration;

use event_log::Admin;
use schemas::{InboundPosition, dead_letter::Reason, topics::Topic};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    deployment::{Deployment, PATIENCE, group_message, message, token},
    device::Device,
    gateway::Gateway,
    proxy::Proxy,
};

async fn accepted(device: &mut Device, reference: &str) -> InboundPosition {
    let frame = device.content().await;
    assert_eq!(
        (&frame["type"], &frame["ref"]),
        (&json!("accepted"), &json!(reference)),
        "{frame}"
    );
    frame["at"].as_str().unwrap().parse().unwrap()
}

fn send(reference: &str, to: &Value, id: &str) -> Value {
    json!({"type": "send", "ref": reference, "to": to, "client_msg_id": id, "msg": "hello"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_accepted_and_then_has_its_number() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(10);
    let mut device = gateway.stream(me, "a", &token(10, 0)).await;
    device.send(&send("1", &json!(peer), "x")).await;
    let at = accepted(&mut device, "1").await;
    log.emit_for(at.offset, message([me, peer], "x", 3)).await;
    // The author's devices get the event like everybody's.
    device.event("message").await;
    let sent = device.content().await;
    assert_eq!(
        (&sent["type"], &sent["ref"], &sent["mid"]),
        (&json!("sent"), &json!("1"), &json!(3))
    );
    assert!(sent["ts"].as_str().unwrap().ends_with('Z'), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_is_refused_has_the_reason_and_a_repeat_the_first_number() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(11);
    let mut device = gateway.stream(me, "a", &token(11, 0)).await;
    device.send(&send("1", &json!(peer), "x")).await;
    let first = accepted(&mut device, "1").await;
    log.emit_for(first.offset, message([me, peer], "x", 3))
        .await;
    device.event("message").await;
    assert_eq!(device.content().await["type"], "sent");

    device.send(&send("2", &json!(peer), "y")).await;
    let refused = accepted(&mut device, "2").await;
    device.send(&send("3", &json!(peer), "x")).await;
    accepted(&mut device, "3").await;
    log.refuse(refused, Reason::Blocked).await;
    let answer = device.content().await;
    assert_eq!(
        answer,
        json!({"type": "refused", "ref": "2", "reason": "blocked", "detail": "in a test"})
    );
    // Something behind both: the third has neither an event nor a dead letter.
    log.emit(message([peer, me], "z", 4)).await;
    device.event("message").await;
    let answer = device.content().await;
    assert_eq!(
        (&answer["type"], &answer["ref"], &answer["mid"]),
        (&json!("sent"), &json!("3"), &json!(3)),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_what_is_no_longer_in_memory_is_sent_without_its_number() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(12);
    let mut device = gateway.stream(me, "a", &token(12, 0)).await;
    device.send(&send("1", &json!(peer), "x")).await;
    accepted(&mut device, "1").await;
    log.emit(message([peer, me], "z", 4)).await;
    device.event("message").await;
    assert_eq!(device.content().await, json!({"type": "sent", "ref": "1"}));
}

/// What is next was deleted before it was read: the gateway goes on with what comes then.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_that_are_gone_end_no_gateway() {
    let log: &Deployment = Box::leak(Box::new(Deployment::new().await));
    let kafka = &log.config.kafka;
    let [me, peer] = Deployment::users(17);
    // It knows where to read dead letters from, and waits for what MySQL says of events.
    let proxy = Proxy::start(log.config.mysql.servers[0].port, Duration::ZERO).await;
    proxy.hold(true);
    let change = |config: &mut gateway::Config| config.mysql.servers[0].port = proxy.port;
    let (gateway, health) = Gateway::begin_on(log, change).await;
    let deadline = Instant::now() + PATIENCE;
    let waits = || format!("{:?}", health.readiness()).contains("where to begin is not known");
    while !waits() {
        assert!(Instant::now() < deadline, "{:?}", health.readiness());
        sleep(Duration::from_millis(10)).await;
    }
    let partition = 17.try_into().unwrap();
    let gone = InboundPosition {
        partition,
        offset: 0,
    };
    log.refuse(gone, Reason::Blocked).await;
    let admin = Admin::new(kafka).unwrap();
    let deleted = admin.delete_before(Topic::DeadLetters, partition, 1);
    deleted.await.unwrap();
    proxy.hold(false);
    while !health.readiness().ready {
        assert!(Instant::now() < deadline, "{:?}", health.readiness());
        sleep(Duration::from_millis(10)).await;
    }
    let mut device = gateway.stream(me, "a", &token(17, 0)).await;
    let mut answers = Vec::new();
    for reference in ["1", "2"] {
        device.send(&send(reference, &json!(peer), "x")).await;
        let at = accepted(&mut device, reference).await;
        log.refuse(at, Reason::Blocked).await;
        let answer = device.content().await;
        assert_eq!(answer["ref"], reference, "{answer}");
        answers.push(answer["reason"].clone());
    }
    // What has become of the first is not known, if it was sent before the gateway has noticed.
    assert!(answers[0] == "blocked" || answers[0] == "unknown-outcome");
    assert_eq!(answers[1], "blocked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_has_sends_too_and_reads_are_accepted() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(13);
    let gid = 13 + 64 * me.get();
    // Also before it has a stream.
    let mut device = gateway.connect(me).await;
    device.hello("a", Some(None)).await;
    assert_eq!(device.frame().await["type"], "sync_required");
    let frame = json!({"type": "send", "ref": "1", "gid": gid.to_string(), "client_msg_id": "5", "msg": "hello"});
    device.send(&frame).await;
    let at = accepted(&mut device, "1").await;
    log.emit_for(at.offset, group_message(gid, me, "hello", 5))
        .await;
    let sent = device.content().await;
    assert_eq!((&sent["type"], &sent["mid"]), (&json!("sent"), &json!(5)));
    let read = json!({"type": "read", "ref": "2", "peer": peer, "mid": 1});
    device.send(&read).await;
    accepted(&mut device, "2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_connection_so_many_sends_are_under_way_and_no_more() {
    let gateway = Gateway::start().await;
    let [me, peer] = Deployment::users(15);
    let mut device = gateway.stream(me, "a", &token(15, 0)).await;
    for n in 0..128 {
        device.send(&send("1", &json!(peer), &format!("{n}"))).await;
        accepted(&mut device, "1").await;
    }
    device.send(&send("2", &json!(peer), "128")).await;
    let answer = device.content().await;
    assert_eq!(
        (&answer["ref"], &answer["reason"], &answer["retry"]),
        (&json!("2"), &json!("too-many-under-way"), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_or_read_with_a_wrong_member_is_refused_by_its_ref() {
    let gateway = Gateway::start().await;
    let [me, peer] = Deployment::users(14);
    let mut device = gateway.stream(me, "a", &token(14, 0)).await;
    let send = |to: Value| {
        let mut frame = json!({"type": "send", "ref": "1", "client_msg_id": "a", "msg": "b"});
        frame
            .as_object_mut()
            .unwrap()
            .extend(to.as_object().unwrap().clone());
        frame
    };
    let read = |mid: i64| json!({"type": "read", "ref": "1", "peer": peer, "mid": mid});
    let to_peer = json!({"to": peer});
    let cases = [
        (
            send(json!({"to": peer, "client_msg_id": ""})),
            "client_msg_id is empty; must be 1 to 64",
        ),
        (
            send(json!({"to": peer, "msg": ""})),
            "msg is empty; must be at least one byte",
        ),
        (
            send(json!({"to": peer, "msg": "x".repeat(20_000)})),
            "msg has 20000 bytes; must be 1 to",
        ),
        (
            send(json!({})),
            "to is missing; must be a user, or gid in its place a group",
        ),
        (
            send(json!({"to": peer, "gid": "5"})),
            "gid is given beside to; must be absent",
        ),
        (send(json!({"gid": "-5"})), "gid is "),
        (read(-1), "mid is -1; must be a message's number, 1 or more"),
        (read(0), "mid is 0; must be a message's number, 1 or more"),
    ];
    // More than errors that end a connection.
    for (frame, detail) in [&cases[..], &cases[..]].concat() {
        device.send_as_it_is(&frame).await;
        refused(&mut device, detail).await;
    }
    let half = send(to_peer.clone())
        .to_string()
        .replace("\"b\"", r#""\ud83d""#);
    device.send_raw(Message::text(half)).await.unwrap();
    refused(
        &mut device,
        "msg has half of a surrogate pair; must be whole characters",
    )
    .await;
    device.send(&send(to_peer)).await;
    accepted(&mut device, "1").await;
}

async fn refused(device: &mut Device, detail: &str) {
    let answer = device.content().await;
    let is_as_expected = answer["detail"]
        .as_str()
        .is_some_and(|given| given.starts_with(detail));
    assert!(is_as_expected, "{answer} in place of {detail}");
    assert_eq!(
        (
            &answer["type"],
            &answer["ref"],
            &answer["reason"],
            &answer["retry"]
        ),
        (
            &json!("refused"),
            &json!("1"),
            &json!("invalid-field"),
            &Value::Null
        )
    );
}

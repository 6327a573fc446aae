//! What arrives at devices, and what they get when they come back.

use std::time::Duration;

use event_log::Admin;
use schemas::topics::Topic;
use serde_json::json;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    deployment::{Deployment, PATIENCE, group_message, member, message, token},
    gateway::Gateway,
    proxy::Proxy,
    upgrade::refused,
};

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_connected_before_it_is_known_where_to_read_from() {
    let gateway = Gateway::start_without_mysql().await;
    let [me, _] = Deployment::users(1);
    assert_eq!(refused(gateway.request(me)).await.0.status, 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_arrives_at_all_devices_of_its_users_and_at_nobody_else() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(1);
    let [other, _] = Deployment::users(1);
    let mut devices = Vec::new();
    for (uid, id) in [(me, "a"), (me, "b"), (peer, "a")] {
        devices.push(gateway.stream(uid, id, &token(1, 0)).await);
    }
    let mut stranger = gateway.stream(other, "a", &token(1, 0)).await;
    let offset = log.emit(message([me, peer], "x", 7)).await;
    for device in &mut devices {
        let (at, event) = device.event("message").await;
        assert_eq!(at, format!("1:{offset}"));
        assert_eq!(
            (
                &event["mid"],
                &event["srcid"],
                &event["destid"],
                &event["msg"]
            ),
            (&json!(7), &json!(me), &json!(peer), &json!("text 7")),
        );
        assert_eq!(event["client_msg_id"], "x");
    }
    log.emit(message([other, other], "y", 1)).await;
    let (_, event) = stranger.event("message").await;
    assert_eq!(event["client_msg_id"], "y");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_comes_back_gets_what_it_missed_and_no_more() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(2);
    let mut device = gateway.stream(me, "a", &token(2, 0)).await;
    let first = log.emit(message([peer, me], "1", 1)).await;
    device.event("message").await;
    drop(device);
    for mid in 2..=4 {
        log.emit(message([peer, me], &format!("{mid}"), mid)).await;
    }
    // The gateway has read them: another device has them.
    let mut other = gateway.stream(me, "b", &token(2, first + 1)).await;
    for mid in 2..=4 {
        assert_eq!(other.event("message").await.1["mid"], mid);
    }
    let mut device = gateway.stream(me, "a", &token(2, first + 1)).await;
    for mid in 2..=4 {
        assert_eq!(device.event("message").await.1["mid"], mid);
    }
    log.emit(message([me, peer], "5", 5)).await;
    assert_eq!(device.event("message").await.1["mid"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn below_the_ring_a_sync_is_required_and_then_a_resume() {
    let gateway = Gateway::start_alone(|config| config.gateway.ring_seconds = 1).await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(3);
    let gone = log.emit(message([peer, me], "1", 1)).await;
    let since = token(3, gone);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut device = gateway.connect(peer).await;
        device.hello("a", Some(Some(&since))).await;
        if device.frame().await["type"] == "sync_required" {
            break;
        }
        assert!(Instant::now() < deadline, "it stays in the ring");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut device = gateway.connect(me).await;
    device.hello("a", Some(Some(&since))).await;
    device.must_sync().await;
    // MySQL is behind the ring: nobody knows in which groups the user is (W3).
    let resume = json!({"type": "resume", "since": token(3, gone + 1)});
    device.send(&resume).await;
    let answer = device.frame().await;
    let after_ms = answer["after_ms"].as_u64().unwrap();
    assert!(after_ms >= 500, "{answer}");
    log.store_contacts_up_to(3, gone + 1).await;
    // A gateway keeps to the pause.
    tokio::time::sleep(Duration::from_millis(after_ms)).await;
    device.send(&resume).await;
    assert_eq!(device.frame().await["type"], "welcome");
    log.emit(message([peer, me], "2", 2)).await;
    assert_eq!(device.event("message").await.1["mid"], 2);
}

/// Of an installation before this one: the device would miss everything until the log is as long as that was.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_that_is_ahead_of_the_log_a_sync_is_required() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(6);
    let next = log.emit(message([peer, me], "1", 1)).await + 1;
    for since in [token(6, next + 1), token(61, 1 << 40)] {
        let mut device = gateway.connect(me).await;
        device.hello("a", Some(Some(&since))).await;
        device.must_sync().await;
        let resume = json!({"type": "resume", "since": token(6, next)});
        device.send(&resume).await;
        assert_eq!(device.frame().await["type"], "welcome");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_ahead_of_the_gateway_is_taken_where_the_log_has_it() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(7);
    let mut next = 0;
    for mid in 1..=3 {
        next = log.emit(message([peer, me], &format!("{mid}"), mid)).await + 1;
    }
    let answers = [(next, "welcome"), (next + 1, "sync_required")];
    // Whether the gateway has read so far or not.
    for (next, answer) in answers {
        let mut device = gateway.connect(me).await;
        device.hello("a", Some(Some(&token(7, next)))).await;
        assert_eq!(device.frame().await["type"], answer);
    }
}

/// Its rings begin before MySQL's positions.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_start_a_device_gets_what_it_missed_without_a_sync() {
    let log = Deployment::shared().await;
    let [me, peer] = Deployment::users(8);
    let first = log.emit(message([peer, me], "1", 1)).await;
    for mid in 2..=3 {
        log.emit(message([peer, me], &format!("{mid}"), mid)).await;
    }
    log.store_contacts_up_to(8, first + 3).await;
    let gateway = Gateway::start().await;
    let mut device = gateway.stream(me, "a", &token(8, first)).await;
    for mid in 1..=3 {
        assert_eq!(device.event("message").await.1["mid"], mid);
    }
}

/// And goes on where MySQL's projection does; devices that were connected then come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_cannot_be_read_stops_alone() {
    let log: &Deployment = Box::leak(Box::new(Deployment::new().await));
    let [me, peer] = Deployment::users(16);
    for mid in 1..=2 {
        log.emit(message(
            [9_i64, 64].map(|uid| uid.try_into().unwrap()),
            "gone",
            mid,
        ))
        .await;
    }
    let partition = 9.try_into().unwrap();
    let admin = Admin::new(&log.config.kafka).unwrap();
    admin
        .delete_before(Topic::Events, partition, 2)
        .await
        .unwrap();
    let (gateway, health) = Gateway::begin_on(log, |_| ()).await;
    let deadline = Instant::now() + PATIENCE;
    let is_named = || format!("{:?}", health.readiness().checks).contains("partition 9 is halted");
    while !is_named() {
        assert!(Instant::now() < deadline, "{:?}", health.readiness());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut device = gateway.stream(me, "a", &token(16, 0)).await;
    log.emit(message([peer, me], "goes on", 1)).await;
    assert_eq!(device.event("message").await.1["client_msg_id"], "goes on");
    log.store_contacts_up_to(9, 2).await;
    assert_eq!(device.closed().await.0, 4006);
    while !health.readiness().ready {
        assert!(Instant::now() < deadline, "{:?}", health.readiness());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_gets_what_happens_in_a_group_between_joining_and_leaving() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, other] = Deployment::users(4);
    let gid = 4 + 64 * me.get();
    let mut device = gateway.stream(me, "a", &token(4, 0)).await;
    log.emit(group_message(gid, other, "before", 1)).await;
    log.emit(member(gid, me, true)).await;
    log.emit(group_message(gid, other, "within", 2)).await;
    log.emit(member(gid, me, false)).await;
    log.emit(group_message(gid, other, "after", 3)).await;
    log.emit(message([other, me], "end", 1)).await;
    let (joined, event) = device.event("group_change").await;
    assert_eq!(
        (&event["gid"], &event["kind"]),
        (&json!(gid.to_string()), &json!("join"))
    );
    assert_eq!(device.event("message").await.1["msg"], "within");
    assert_eq!(device.event("group_change").await.1["kind"], "leave");
    assert_eq!(device.event("message").await.1["client_msg_id"], "end");
    // The same from the ring, though no row of MySQL says anything.
    let fresh = Gateway::start().await;
    let since: i64 = joined.split_once(':').unwrap().1.parse().unwrap();
    let mut again = fresh.stream(me, "b", &token(4, since)).await;
    assert_eq!(again.event("group_change").await.1["kind"], "join");
    assert_eq!(again.event("message").await.1["msg"], "within");
    assert_eq!(again.event("group_change").await.1["kind"], "leave");
    assert_eq!(again.event("message").await.1["client_msg_id"], "end");
}

#[tokio::test(flavor = "multi_thread")]
async fn for_a_device_that_reads_slowly_messages_of_groups_collapse() {
    // On logs of its own: in the rings of other tests' gateways 30 MB of texts would leave no room.
    let gateway = Gateway::start_alone(|config| config.gateway.queue_bytes = 1 << 18).await;
    let log = gateway.deployment;
    let [me, other] = Deployment::users(5);
    let gid = 5 + 64 * me.get();
    let mut slow = gateway.stream(me, "slow", &token(5, 0)).await;
    let mut quick = gateway.stream(me, "quick", &token(5, 0)).await;
    log.emit(member(gid, me, true)).await;
    quick.event("group_change").await;
    // More than the kernel keeps for a socket.
    let text = "x".repeat(60_000);
    let last = 250;
    for mid in 1..=last {
        log.emit(group_message(gid, other, &text, mid)).await;
        // W7: nobody waits for the slow one.
        assert_eq!(quick.event("message").await.1["mid"], mid);
    }
    log.emit(message([other, me], "end", 1)).await;
    quick.event("message").await;
    slow.event("group_change").await;
    let (mut newest, mut heads) = (0, 0);
    loop {
        let frame = slow.content().await;
        if frame["type"] == "head" {
            assert_eq!(frame["gid"], gid.to_string());
            newest = frame["mid"].as_i64().unwrap();
            heads += 1;
        } else if frame["message"]["client_msg_id"] == "end" {
            break;
        } else {
            newest = frame["message"]["mid"].as_i64().unwrap();
        }
    }
    assert!(heads > 0, "everything fitted");
    assert_eq!(newest, last);
}

/// MySQL takes connections and says nothing. Nobody waits for longer than W3 says, the socket is read, and a gateway that ends says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_hello_does_not_wait_for_a_mysql_that_is_silent() {
    let mysql = Deployment::shared().await.config.mysql.servers[0].port;
    let proxy = Proxy::start(mysql, Duration::ZERO).await;
    let change = |config: &mut gateway::Config| config.mysql.servers[0].port = proxy.port;
    let gateway = Gateway::start_with(change).await;
    proxy.hold(true);
    let mut devices = Vec::new();
    for since in [None, Some(Some(token(7, 0)))] {
        let [me, _] = Deployment::users(7);
        let mut device = gateway.connect(me).await;
        let begun = Instant::now();
        let since = since.as_ref().map(|since| since.as_deref());
        device.hello("a", since).await;
        device.send_raw(Message::Ping("x".into())).await.unwrap();
        let first = device.next().await.unwrap();
        assert!(first.is_pong(), "it is not read: {first:?}");
        let answer = device.frame().await;
        assert_eq!(answer["type"], "sync_required", "{answer}");
        // A statement may take thirty seconds.
        assert!(begun.elapsed() < Duration::from_secs(15));
        devices.push(device);
    }
    let [me, _] = Deployment::users(7);
    let mut waits = gateway.connect(me).await;
    waits.hello("a", Some(Some(&token(7, 0)))).await;
    waits.send_raw(Message::Ping("x".into())).await.unwrap();
    assert!(waits.next().await.unwrap().is_pong());
    let before_hello = gateway.connect(me).await;
    gateway.supervisor.shutdown().begin();
    for mut device in [waits, before_hello] {
        let (code, frames) = device.closed().await;
        assert_eq!((code, &frames[0]["type"]), (4000, &json!("reconnect")));
    }
}

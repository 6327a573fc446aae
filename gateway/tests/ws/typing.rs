//! Who types, over two gateways.

use std::time::Duration;

use schemas::{UserId, event::Body};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::{
    deployment::{Deployment, PATIENCE, block, dissolve, member, token},
    device::Device,
    gateway::Gateway,
};

/// What is told at most once is said again after this.
const AGAIN: Duration = Duration::from_millis(200);

/// Types until another device is told of somebody who types; of what happened before it may hear in between.
async fn typed(by: &mut Device, at: &Value, told: &mut Device) -> Value {
    let mut frame = at.clone();
    frame["type"] = json!("typing");
    let deadline = Instant::now() + PATIENCE;
    loop {
        by.send(&frame).await;
        while let Ok(told) = timeout(AGAIN, told.content()).await {
            if told["type"] == "typing" {
                return told;
            }
        }
        assert!(Instant::now() < deadline, "nobody is told");
    }
}

fn to(peer: UserId) -> Value {
    json!({ "to": peer })
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_reaches_the_peers_devices_at_any_gateway_unless_he_blocks() {
    let (here, there) = (Gateway::start().await, Gateway::start().await);
    let log = here.deployment;
    let [me, peer] = Deployment::users(40);
    let [other, _] = Deployment::users(40);
    let mut mine = here.stream(me, "a", &token(40, 0)).await;
    let mut near = here.stream(peer, "a", &token(40, 0)).await;
    let mut far = there.stream(peer, "b", &token(40, 0)).await;
    let told = json!({"type": "typing", "from": me, "to": peer});
    assert_eq!(typed(&mut mine, &to(peer), &mut far).await, told);
    assert_eq!(near.content().await, told);

    log.emit(block([peer, me], true)).await;
    while near.content().await["type"] != "event" {}
    while far.content().await["type"] != "event" {}
    for wrong in [json!({}), json!({"to": peer, "gid": "1"})] {
        let mut frame = wrong.clone();
        frame["type"] = json!("typing");
        mine.send(&frame).await;
        assert_eq!(mine.content().await["type"], "error", "{wrong}");
    }
    let mut third = here.stream(other, "a", &token(40, 0)).await;
    // By a device that has not typed yet: of each one a second is passed on.
    let mut mine = here.stream(me, "b", &token(40, 0)).await;
    let mut frame = to(peer);
    frame["type"] = json!("typing");
    mine.send(&frame).await;
    // So that the frame is handled.
    typed(&mut mine, &to(other), &mut third).await;
    let told = json!({"type": "typing", "from": other, "to": peer});
    assert_eq!(typed(&mut third, &to(peer), &mut far).await, told);
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_in_a_group_reaches_the_members_who_look_at_it() {
    let (here, there) = (Gateway::start().await, Gateway::start().await);
    let log = here.deployment;
    let [me, looking] = Deployment::users(41);
    let [away, stranger] = Deployment::users(41);
    let gid = 41 + 64 * me.get();
    for uid in [me, looking, away] {
        log.emit(member(gid, uid, true)).await;
    }
    let since = token(41, 0);
    let mut mine = here.stream(me, "a", &since).await;
    let mut looks = there.stream(looking, "a", &since).await;
    let mut does_not = there.stream(away, "a", &since).await;
    let mut outside = there.stream(stranger, "a", &since).await;
    let group = json!({ "gid": gid.to_string() });
    for device in [&mut looks, &mut outside] {
        let mut focus = group.clone();
        focus["type"] = json!("focus");
        device.send(&focus).await;
    }
    // Members have the events of their joining.
    for (device, events) in [(&mut mine, 3), (&mut looks, 2), (&mut does_not, 1)] {
        for _ in 0..events {
            device.event("group_change").await;
        }
    }
    let told = json!({"type": "typing", "from": me, "gid": gid.to_string()});
    assert_eq!(typed(&mut mine, &group, &mut looks).await, told);
    for (uid, device) in [(away, &mut does_not), (stranger, &mut outside)] {
        let told = typed(&mut mine, &to(uid), device).await;
        assert_eq!(told["to"], json!(uid), "{told}");
    }
    // Who is no member says nothing there.
    let mut frame = group.clone();
    frame["type"] = json!("typing");
    outside.send(&frame).await;
    let mut told = typed(&mut outside, &to(looking), &mut looks).await;
    while told["from"] == json!(me) {
        told = looks.content().await;
    }
    assert_eq!(told["to"], json!(looking), "{told}");
}

/// Its dissolution is on no ring any more, and the rows of memberships do not say so.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_types_in_a_group_that_was_dissolved_long_ago() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, looking] = Deployment::users(43);
    let [gone, stays] = [1, 2].map(|n| 43 + 64 * (me.get() + n));
    log.store_dissolved(gone, me).await;
    for (gid, uid) in [(gone, me), (gone, looking), (stays, me), (stays, looking)] {
        log.emit(member(gid, uid, true)).await;
    }
    let since = token(43, 0);
    let mut mine = [
        gateway.stream(me, "a", &since).await,
        gateway.stream(me, "b", &since).await,
    ];
    let mut looks = gateway.stream(looking, "a", &since).await;
    let at = |gid: i64, kind: &str| json!({"type": kind, "gid": gid.to_string()});
    looks.send(&at(gone, "focus")).await;
    // So that the focus is handled.
    looks.send(&json!({"type": "typing"})).await;
    while looks.content().await["type"] != "error" {}
    mine[0].send(&at(gone, "typing")).await;
    // MySQL is asked for the one before the other.
    let told = typed(&mut mine[1], &to(looking), &mut looks).await;
    assert_eq!(told["to"], json!(looking), "{told}");
    looks.send(&at(stays, "focus")).await;
    let group = json!({ "gid": stays.to_string() });
    loop {
        let told = typed(&mut mine[1], &group, &mut looks).await;
        assert_ne!(told["gid"], json!(gone.to_string()), "{told}");
        if told["gid"] == json!(stays.to_string()) {
            break;
        }
    }
}

/// MySQL's row, which was read just before, does not say so yet.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_types_in_a_group_from_its_dissolution_on() {
    let gateway = Gateway::start().await;
    let log = gateway.deployment;
    let [me, looking] = Deployment::users(44);
    let gid = 44 + 64 * me.get();
    for uid in [me, looking] {
        log.emit(member(gid, uid, true)).await;
    }
    let since = token(44, 0);
    let mut mine = gateway.stream(me, "a", &since).await;
    let mut looks = gateway.stream(looking, "a", &since).await;
    let group = json!({ "gid": gid.to_string() });
    let mut focus = group.clone();
    focus["type"] = json!("focus");
    looks.send(&focus).await;
    looks.event("group_change").await;
    let told = json!({"type": "typing", "from": me, "gid": gid.to_string()});
    assert_eq!(typed(&mut mine, &group, &mut looks).await, told);

    log.emit(dissolve(gid, me)).await;
    while looks.content().await["type"] != "event" {}
    // By devices that have not typed yet: of each one a second is passed on.
    let mut mine = gateway.stream(me, "b", &since).await;
    let mut third = gateway.stream(me, "c", &since).await;
    let mut frame = group.clone();
    frame["type"] = json!("typing");
    mine.send(&frame).await;
    // So that the frame is handled.
    mine.send(&json!({"type": "typing"})).await;
    while mine.content().await["type"] != "error" {}
    let told = typed(&mut third, &to(looking), &mut looks).await;
    assert_eq!(told["to"], json!(looking), "{told}");

    // Its members stay members, and hear of who leaves.
    let mut leave = member(gid, me, false);
    if let Body::GroupChange(change) = &mut leave {
        change.settings.dissolved = true;
    }
    log.emit(leave).await;
    let mut told = looks.content().await;
    while told["type"] == "typing" {
        told = looks.content().await;
    }
    assert_eq!(told["group_change"]["kind"], "leave", "{told}");
}

//! Devices that come back, take each other's places, and go with their gateway.

use std::time::Duration;

use access::{
    Scope,
    test_issuer::{Parties, SigningKey, claims, jwks},
};
use futures::future::join_all;
use schemas::UserId;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_tungstenite::tungstenite::{
    Error,
    http::{HeaderValue, Request},
};

use crate::{
    deployment::{Deployment, PATIENCE, message, token},
    device::Device,
    gateway::Gateway,
    proxy::Proxy,
    upgrade::refused,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_device_without_its_token_goes_on_from_the_one_that_was_kept() {
    let change = |config: &mut gateway::Config| config.gateway.ping_seconds = 1;
    let gateway = Gateway::start_with(change).await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(20);
    let mut device = gateway.connect(me).await;
    device.hello("a", None).await;
    assert_eq!(
        device.frame().await["type"],
        "sync_required",
        "nothing is kept"
    );
    device
        .send(&json!({"type": "resume", "since": token(20, 0)}))
        .await;
    assert_eq!(device.frame().await["type"], "welcome");
    log.emit(message([peer, me], "1", 1)).await;
    device.event("message").await;
    let ping = device.frame().await;
    assert_eq!(ping["type"], "ping");
    device.send(&json!({"type": "pong"})).await;
    // So that the pong is read.
    device
        .send(&json!({"type": "read", "ref": "1", "peer": peer, "mid": 1}))
        .await;
    assert_eq!(device.content().await["type"], "accepted");
    drop(device);
    log.keep_others(me, 101).await;
    log.emit(message([peer, me], "2", 2)).await;
    // From another gateway, which reads it from MySQL.
    let other = Gateway::start().await;
    let deadline = Instant::now() + PATIENCE;
    let mut device = loop {
        let mut device = other.connect(me).await;
        device.hello("a", None).await;
        let welcome = device.frame().await;
        if welcome["token"] == ping["token"] {
            break device;
        }
        assert!(Instant::now() < deadline, "not kept: {welcome}");
        // A hello is a frame, of which a user may send so many.
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(device.event("message").await.1["mid"], 2);
    // Null: the device knows nothing, whatever is kept.
    device = other.connect(me).await;
    device.hello("a", Some(None)).await;
    device.must_sync().await;
}

/// A gateway that was paused, or a connection that broke and was not noticed, ends long after the device has gone on elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_late_does_not_take_back_the_token_that_is_kept() {
    let (old, new) = (Gateway::start().await, Gateway::start().await);
    let log = old.deployment;
    let [me, peer] = Deployment::users(24);
    let first = old.stream(me, "a", &token(24, 0)).await;
    let next = log.emit(message([peer, me], "1", 1)).await + 1;
    let second = new.stream(me, "a", &token(24, next)).await;
    drop(second);
    new.stop().await;
    drop(first);
    old.stop().await;
    let kept: Vec<String> = log
        .devices(me)
        .await
        .into_iter()
        .map(|row| row.token)
        .collect();
    assert_eq!(kept, [token(24, next)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_connection_of_a_device_and_one_too_many_of_a_class_take_places() {
    let gateway = Gateway::start_with(|config| config.gateway.max_devices = 2).await;
    let [me, _] = Deployment::users(21);
    let mut first = gateway.stream(me, "a", &token(21, 0)).await;
    let _second = gateway.stream(me, "b", &token(21, 0)).await;
    let mut again = gateway.stream(me, "a", &token(21, 0)).await;
    let (code, frames) = first.closed().await;
    assert_eq!((code, frames), (4101, vec![json!({"type": "replaced"})]));
    let mut pc = gateway.connect(me).await;
    pc.hello_as("c", "pc", Some(Some(&token(21, 0)))).await;
    assert_eq!(pc.frame().await["type"], "welcome");
    let _third = gateway.stream(me, "d", &token(21, 0)).await;
    let log = gateway.deployment;
    log.emit(message([me, me], "x", 1)).await;
    // The second was the oldest of its class.
    again.event("message").await;
    pc.event("message").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_stop_all_devices_are_told_when_to_come_back() {
    let gateway = Gateway::start_with(|config| config.gateway.drain_ms = 700).await;
    let mut devices = Vec::new();
    for _ in 0..20 {
        let [me, _] = Deployment::users(22);
        devices.push(gateway.stream(me, "a", &token(22, 0)).await);
    }
    gateway.supervisor.shutdown().begin();
    let mut pauses = Vec::new();
    for device in &mut devices {
        let (code, frames) = device.closed().await;
        assert_eq!((code, frames.len()), (4000, 1));
        assert_eq!(frames[0]["type"], "reconnect");
        pauses.push(frames[0]["after_ms"].as_u64().unwrap());
    }
    assert!(pauses.iter().all(|pause| *pause <= 700), "{pauses:?}");
    pauses.sort_unstable();
    pauses.dedup();
    assert!(pauses.len() > 10, "not spread: {pauses:?}");
    let [me, _] = Deployment::users(22);
    let refused = Device::connect(gateway.request(me)).await;
    assert!(matches!(refused, Err(Error::Http(response)) if response.status() == 503));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let (parties, key) = (Parties::new(dir.path()), SigningKey::rsa("r2"));
    let mut auth = parties.config();
    let keys = dir.path().join("keys.json");
    std::fs::write(&keys, jwks(&[&key]).to_string()).unwrap();
    auth.issuers[0].jwks_file = Some(keys);
    auth.leeway_s = 0;
    let gateway = Gateway::start_with(|config| config.auth = auth).await;
    let [me, other] = Deployment::users(23);
    let mut claims = claims(me);
    claims["exp"] = json!(claims["iat"].as_i64().unwrap() + 3);
    let token_of_me = key.token(&claims);
    // From a browser.
    let mut request = gateway.request(me);
    let protocols = format!("tidemark.v1.json, bearer.{token_of_me}");
    let protocols = HeaderValue::try_from(protocols).unwrap();
    request
        .headers_mut()
        .insert("sec-websocket-protocol", protocols);
    let mut device = Device::connect(request).await.unwrap();
    device.hello("a", Some(Some(&token(23, 0)))).await;
    let (code, frames) = device.closed().await;
    assert_eq!((code, &frames[0]["type"]), (4005, &json!("welcome")));
    // Nobody is somebody else, or nobody.
    let request = request_with(&gateway, other, &key.token(&claims));
    assert!(Device::connect(request).await.is_err());
    let (problem, headers) = refused(gateway.request(me)).await;
    assert_eq!(problem.status, 401);
    assert_eq!(headers["www-authenticate"], "Bearer realm=\"tidemark\"");
    for way in ["Authorization: Bearer <token", "subprotocol bearer.<token>"] {
        assert!(problem.detail.contains(way), "{problem}");
    }
}

fn request_with(gateway: &Gateway, uid: UserId, credential: &str) -> Request<()> {
    let mut request = gateway.request(uid);
    let bearer = HeaderValue::try_from(format!("Bearer {credential}")).unwrap();
    request.headers_mut().insert("authorization", bearer);
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_read_is_none_of_the_users_devices() {
    let dir = tempfile::tempdir().unwrap();
    let parties = Parties::new(dir.path());
    let key = parties.service(&[Scope::ReadAny]);
    let gateway = Gateway::start_with(|config| {
        config.auth = parties.config();
        config.gateway.max_devices = 1;
    })
    .await;
    let log = gateway.deployment;
    let [me, peer] = Deployment::users(25);
    let own = Device::connect(request_with(&gateway, me, &parties.token(me))).await;
    let mut own = own.unwrap();
    own.hello("a", Some(Some(&token(25, 0)))).await;
    assert_eq!(own.frame().await["type"], "welcome");
    let next = log.emit(message([peer, me], "1", 1)).await + 1;
    own.event("message").await;
    let mut readers = Vec::new();
    for id in ["a", "b"] {
        let reader = Device::connect(request_with(&gateway, me, &key)).await;
        let mut reader = reader.unwrap();
        // The token that is kept is not for it.
        reader.hello(id, None).await;
        reader.must_sync().await;
        let resume = json!({"type": "resume", "since": token(25, next)});
        reader.send(&resume).await;
        assert_eq!(reader.frame().await["type"], "welcome");
        let typing = json!({"type": "typing", "to": peer});
        reader.send(&typing).await;
        assert_eq!(reader.content().await["type"], "error");
        readers.push(reader);
    }
    log.emit(message([peer, me], "2", 2)).await;
    for device in readers.iter_mut().chain([&mut own]) {
        device.event("message").await;
    }
    drop(own);
    let presence = format!("http://{}/v1/presence?uid={me}", gateway.addr);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let asked = reqwest::Client::new().get(&presence).bearer_auth(&key);
        let answer: Value = asked.send().await.unwrap().json().await.unwrap();
        if answer["items"][0]["online"] == json!(false) {
            break;
        }
        assert!(Instant::now() < deadline, "readers are shown: {answer}");
    }
    drop(readers);
    gateway.stop().await;
    let kept = log.devices(me).await.into_iter();
    let kept: Vec<_> = kept
        .map(|row| (row.device.to_string(), row.token))
        .collect();
    assert_eq!(kept, [("a".to_owned(), token(25, 0))]);
}

/// Where callers are not authenticated the user is the one that the call names.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_a_user_are_counted_on_an_open_stack() {
    let gateway = Gateway::start_with(|config| config.gateway.max_devices = 1).await;
    let [me, other] = Deployment::users(27);
    let mut devices = Vec::new();
    for _ in 0..4 {
        devices.push(gateway.connect(me).await);
    }
    let (problem, _) = refused(gateway.request(me)).await;
    assert_eq!(problem.status, 429);
    assert!(problem.detail.contains("has 4 connections"), "{problem}");
    gateway.connect(other).await;
}

/// Of users whom it cannot know, one waits no longer than all.
#[tokio::test(flavor = "multi_thread")]
async fn presence_is_answered_in_time_and_by_share_while_mysql_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let parties = Parties::new(dir.path());
    let mysql = Deployment::shared().await.config.mysql.servers[0].port;
    let proxy = Proxy::start(mysql, Duration::ZERO).await;
    let gateway = Gateway::start_with(|config| {
        config.auth = parties.config();
        config.mysql.servers[0].port = proxy.port;
    })
    .await;
    proxy.hold(true);
    let [me, other] = Deployment::users(28);
    let uids: Vec<String> = (1..=100).map(|uid: i64| uid.to_string()).collect();
    let url = format!("http://{}/v1/presence?uid={}", gateway.addr, uids.join(","));
    let ask = async |uid| {
        let asked = reqwest::Client::new().get(&url);
        let answer = asked.bearer_auth(parties.token(uid)).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.unwrap())
    };
    for _ in 0..2 {
        let begun = Instant::now();
        let mine = join_all((0..6).map(|_| ask(me)));
        let (mine, (status, answer)) = tokio::join!(mine, ask(other));
        // A statement may take thirty seconds, and each user was one.
        assert!(begun.elapsed() < Duration::from_secs(15));
        let unknown = |item: &Value| item["online"] == json!(null);
        let items = answer["items"].as_array().unwrap();
        assert!(status == 200 && items.len() == 100 && items.iter().all(unknown));
        let refused = mine.iter().filter(|(status, _)| *status == 429);
        assert!((1..6).contains(&refused.count()), "{mine:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_a_user_are_counted_without_a_stream_too() {
    let dir = tempfile::tempdir().unwrap();
    let parties = Parties::new(dir.path());
    let gateway = Gateway::start_with(|config| {
        config.auth = parties.config();
        config.gateway.max_devices = 1;
    })
    .await;
    let [me, other] = Deployment::users(26);
    let request = |uid| request_with(&gateway, uid, &parties.token(uid));
    let mut devices = Vec::new();
    for id in ["a", "b", "c", "d"] {
        let mut device = Device::connect(request(me)).await.unwrap();
        device.hello(id, Some(None)).await;
        assert_eq!(device.frame().await["type"], "sync_required");
        devices.push(device);
    }
    let (problem, _) = refused(request(me)).await;
    assert_eq!(problem.status, 429);
    assert!(problem.detail.contains("has 4 connections"), "{problem}");
    assert!(Device::connect(request(other)).await.is_ok());
    devices.pop();
    let deadline = Instant::now() + PATIENCE;
    while Device::connect(request(me)).await.is_err() {
        assert!(Instant::now() < deadline, "its place is not free");
    }
}

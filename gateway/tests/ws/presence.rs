//! Who is there, over several gateways.

use std::time::Duration;

use schemas::UserId;
use serde_json::{Value, json};
use tokio::{
    runtime::Runtime,
    task::block_in_place,
    time::{Instant, sleep, timeout},
};

use crate::{
    deployment::{Deployment, PATIENCE, block, message, token},
    device::Device,
    gateway::Gateway,
    redis_server::RedisServer,
};

async fn look(device: &mut Device, peer: UserId) {
    device.send(&json!({"type": "focus", "peer": peer})).await;
}

/// Reads until the device is told this of a user; what it was told before.
async fn told(device: &mut Device, of: UserId, online: Option<bool>) -> (Value, Vec<Value>) {
    let mut before = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let frame = device.content().await;
        assert!(Instant::now() < deadline, "{before:?}");
        if frame["type"] != "presence" {
            continue;
        }
        assert_eq!(frame["uid"], json!(of), "{frame}");
        if frame["online"] == json!(online) {
            return (frame, before);
        }
        before.push(frame["online"].clone());
    }
}

/// Two users of whom the second has written to the first.
async fn users(log: &Deployment, partition: i64) -> [UserId; 2] {
    let [me, peer] = Deployment::users(partition);
    log.store_contact([peer, me]).await;
    [me, peer]
}

async fn is_told_over_all_gateways([here, there]: [&Gateway; 2], partition: i64) {
    let log = here.deployment;
    let [me, peer] = users(log, partition).await;
    let since = token(partition, 0);
    let mut mine = here.stream(me, "a", &since).await;
    look(&mut mine, peer).await;
    let (away, _) = told(&mut mine, peer, Some(false)).await;
    assert_eq!(
        away,
        json!({"type": "presence", "uid": peer, "online": false})
    );

    let theirs = there.stream(peer, "a", &since).await;
    let (there_now, _) = told(&mut mine, peer, Some(true)).await;
    let body = json!({"uid": peer, "online": true, "classes": ["mobile"]});
    assert_eq!(there_now["classes"], body["classes"]);
    let [nobody, _] = Deployment::users(partition);
    let items = here.presence(&[nobody, me, peer]).await;
    let mine_now = json!({"uid": me, "online": true, "classes": ["mobile"]});
    let nobody = json!({"uid": nobody, "online": false});
    assert_eq!(items, json!([mine_now, body, nobody]));

    drop(theirs);
    let (away, _) = told(&mut mine, peer, Some(false)).await;
    assert!(away["last_seen"].as_str().unwrap().ends_with('Z'), "{away}");
    let theirs = there.stream(peer, "a", &since).await;
    told(&mut mine, peer, Some(true)).await;
    log.emit(block([peer, me], true)).await;
    told(&mut mine, peer, None).await;
    log.emit(block([peer, me], false)).await;
    told(&mut mine, peer, Some(true)).await;
    // What is no longer looked at is not told.
    mine.send(&json!({"type": "focus"})).await;
    // So that the frame is handled.
    mine.send(&json!({"type": "typing"})).await;
    assert_eq!(mine.content().await["type"], "error");
    drop(theirs);
    let gone = async || there.presence(&[peer]).await[0]["online"] == json!(false);
    until(gone).await;
    log.emit(message([me, me], "x", 1)).await;
    mine.event("message").await;
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "it does not come to be");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_is_told_who_is_there_at_any_gateway() {
    let [here, there] = [Gateway::start().await, Gateway::start().await];
    Box::pin(is_told_over_all_gateways([&here, &there], 42)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_with_a_redis_cluster() {
    let redis = RedisServer::start_cluster().await;
    let here = Gateway::start_with_redis(&redis, true).await;
    let there = Gateway::start_with_redis(&redis, true).await;
    Box::pin(is_told_over_all_gateways([&here, &there], 43)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_not_told_and_what_is_asked_for_is_bounded() {
    let gateway = Gateway::start().await;
    let [me, peer] = Deployment::users(44);
    // The peer has not written to this one, though this one has to the peer.
    gateway.deployment.store_contact([me, peer]).await;
    let mut mine = gateway.stream(me, "a", &token(44, 0)).await;
    let _theirs = gateway.stream(peer, "a", &token(44, 0)).await;
    until(async || gateway.presence(&[peer]).await[0]["online"] == json!(true)).await;
    look(&mut mine, peer).await;
    let frame = mine.content().await;
    assert_eq!(
        frame,
        json!({"type": "presence", "uid": peer, "online": null})
    );
    // Long before what was read of the peer expires.
    gateway.deployment.emit(message([peer, me], "x", 1)).await;
    let told_now = told(&mut mine, peer, Some(true));
    timeout(Duration::from_secs(15), told_now).await.unwrap();
    look(&mut mine, me).await;
    told(&mut mine, me, Some(true)).await;
    let many = vec!["1"; 101].join(",");
    for query in ["", "?uid=x", &format!("?uid={many}")] {
        let url = format!("http://{}/v1/presence{query}", gateway.addr);
        assert_eq!(reqwest::get(url).await.unwrap().status(), 400, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_gateway_has_written_is_void_when_its_lease_ends() {
    let redis = RedisServer::start();
    let here = Gateway::start_with_redis(&redis, false).await;
    let life = Runtime::new().unwrap();
    let start = || life.block_on(Gateway::start_with_redis(&redis, false));
    let there = block_in_place(start);
    let [me, peer] = users(here.deployment, 45).await;
    let mut mine = here.stream(me, "a", &token(45, 0)).await;
    look(&mut mine, peer).await;
    let _theirs = there.stream(peer, "a", &token(45, 0)).await;
    told(&mut mine, peer, Some(true)).await;
    // Its tasks end where they are, without another word.
    life.shutdown_background();
    told(&mut mine, peer, Some(false)).await;
    let prefix = &here.deployment.config.redis.key_prefix;
    let key = format!("{prefix}presence-{peer}");
    let fields: Vec<String> = redis.command(&["HKEYS", &key]).await;
    let is_entry = |field: &String| field.contains(':');
    assert!(fields.iter().any(is_entry), "it was removed: {fields:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_nobody_is_kicked_and_nobody_is_said_to_be_away() {
    let mut redis = RedisServer::start();
    let here = Gateway::start_with_redis(&redis, false).await;
    let there = Gateway::start_with_redis(&redis, false).await;
    let log = here.deployment;
    let [me, peer] = users(log, 46).await;
    let mut mine = here.stream(me, "a", &token(46, 0)).await;
    let mut theirs = there.stream(peer, "a", &token(46, 0)).await;
    look(&mut mine, peer).await;
    told(&mut mine, peer, Some(true)).await;

    redis.kill();
    told(&mut mine, peer, None).await;
    let unknown = json!([{"uid": peer, "online": null}]);
    assert_eq!(here.presence(&[peer]).await, unknown);
    let mut more = there.stream(me, "b", &token(46, 0)).await;
    log.emit(message([me, peer], "x", 1)).await;
    for device in [&mut mine, &mut theirs, &mut more] {
        device.event("message").await;
    }

    // It comes back without what it had.
    redis.cut_log(0);
    redis.restart();
    let (_, before) = told(&mut mine, peer, Some(true)).await;
    assert!(!before.contains(&json!(false)), "{before:?}");
    drop(theirs);
    told(&mut mine, peer, Some(false)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_of_devices_are_taken_over_all_gateways() {
    let two = |config: &mut gateway::Config| config.gateway.max_devices = 2;
    let (here, there) = (
        Gateway::start_with(two).await,
        Gateway::start_with(two).await,
    );
    let [me, _] = Deployment::users(47);
    let since = token(47, 0);
    let written = async |count: usize| {
        let key = format!("{}presence-{me}", here.deployment.config.redis.key_prefix);
        let client = redis::Client::open(here.deployment.config.redis.url.as_str()).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let redis = client.get_multiplexed_async_connection_with_config(&config);
        let mut redis = redis.await.unwrap();
        until(async || {
            let mut command = redis::cmd("HLEN");
            let len: usize = command.arg(&key).query_async(&mut redis).await.unwrap();
            len >= count
        })
        .await;
    };
    let mut first = here.stream(me, "a", &since).await;
    written(1).await;
    let mut second = there.stream(me, "b", &since).await;
    written(2).await;
    let mut pc = here.connect(me).await;
    pc.hello_as("c", "pc", Some(Some(&since))).await;
    assert_eq!(pc.frame().await["type"], "welcome");
    written(3).await;
    let mut third = there.stream(me, "d", &since).await;
    let replaced = (4101, vec![json!({"type": "replaced"})]);
    assert_eq!(first.closed().await, replaced);
    // The same device at another gateway: a connection that is gone and does not know it yet.
    let mut again = here.stream(me, "b", &since).await;
    assert_eq!(second.closed().await, replaced);
    here.deployment.emit(message([me, me], "x", 1)).await;
    for device in [&mut pc, &mut third, &mut again] {
        device.event("message").await;
    }
}

//! On a Redis of the test's own; there is neither Kafka nor MySQL.

use tokio::time::sleep;
use unread_store::{RedisConfig, UnreadStore};

use super::{
    super::entries::tests::{connection, connection_of},
    *,
};
use crate::{
    hub::{Connection, End, Next},
    proxy::Proxy,
    redis_server::RedisServer,
};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything here takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The slot of a gateway that has just begun its lease.
async fn slot(redis: &RedisServer, lease: Duration, max_devices: usize) -> Slot {
    slot_on(redis.port, lease, max_devices).await
}

async fn slot_on(port: u16, lease: Duration, max_devices: usize) -> Slot {
    let store = UnreadStore::new(&RedisConfig {
        url: format!("redis://127.0.0.1:{port}"),
        ..RedisConfig::default()
    });
    let config = GatewayConfig {
        lease_ms: lease.as_millis() as u64,
        max_devices,
        ..GatewayConfig::default()
    };
    let redis = Arc::new(SharedConnections::new(store.unwrap()));
    let slot = Slot::new(0, redis, &config);
    slot.hold_lease().await.unwrap();
    slot
}

/// Whether the user of all connections here is online.
async fn online(slot: &Slot) -> Option<bool> {
    slot.read(&[connection(1).uid()]).await[0].online
}

fn is_replaced(connection: &Connection) -> bool {
    matches!(connection.next(), Next::Close(End::Replaced))
}

async fn until(is_so: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, is_so).await;
}

async fn until_within(patience: Duration, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !is_so().await {
        assert!(Instant::now() < deadline, "it does not come to be");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_a_gateway_has_written_counts_no_longer_than_its_lease() {
    let redis = RedisServer::start();
    let here = slot(&redis, SECOND, 8).await;
    let gone = slot(&redis, 2 * SECOND, 8).await;
    gone.entries().add(&connection(1), Instant::now());
    gone.write().await.unwrap();
    assert_eq!(online(&here).await, Some(true));
    until(async || {
        here.hold_lease().await.unwrap();
        online(&here).await == Some(false)
    })
    .await;
}

#[tokio::test]
async fn the_oldest_of_a_class_is_replaced_at_whichever_gateway_it_is() {
    let redis = RedisServer::start();
    let here = slot(&redis, PATIENCE, 2).await;
    let there = slot(&redis, PATIENCE, 2).await;
    let mut notices = here.redis.store().subscribe(0).await.unwrap();
    let all = [1, 2, 3].map(connection);
    for (slot, connection, age) in [
        (&here, &all[0], 2),
        (&there, &all[1], 1),
        (&there, &all[2], 0),
    ] {
        slot.entries()
            .add(connection, Instant::now() - age * SECOND);
        slot.write().await.unwrap();
    }
    let heard = timeout(PATIENCE, async {
        loop {
            if let Notice::Replaced(_, id) = notices.next().await.unwrap() {
                return id;
            }
        }
    });
    let id = heard.await.unwrap();
    assert!(!there.replace(&id) && here.replace(&id));
    let replaced = all.each_ref().map(|connection| is_replaced(connection));
    assert_eq!(replaced, [true, false, false]);
}

#[tokio::test]
async fn who_seems_to_have_come_earlier_is_replaced_unless_the_later_one_goes() {
    let redis = RedisServer::start();
    for goes in [true, false] {
        let here = slot(&redis, PATIENCE, 1).await;
        let there = slot(&redis, PATIENCE, 1).await;
        let [earlier, later] = [1, 1].map(connection);
        there.entries().add(&later, Instant::now());
        there.write().await.unwrap();
        here.entries().add(&earlier, Instant::now() - SECOND);
        here.write().await.unwrap();
        assert!(!is_replaced(&earlier), "at once");
        if goes {
            there.entries().remove(&later);
            there.write().await.unwrap();
        }
        let next_renewal = Instant::now() + PATIENCE / 3;
        here.entries().refresh(next_renewal, REFRESHED);
        here.write().await.unwrap();
        assert_eq!(is_replaced(&earlier), !goes);
        here.end().await.unwrap();
        there.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_write_that_takes_long_replaces_nobody_and_is_repeated() {
    let redis = RedisServer::start();
    let slot = slot(&redis, PATIENCE, 1).await;
    let mut notices = slot.redis.store().subscribe(0).await.unwrap();
    let [first, second] = [1, 2].map(connection);
    slot.entries().add(&first, Instant::now() - SECOND);
    slot.entries().add(&second, Instant::now());
    let _: String = redis.command(&["CLIENT", "PAUSE", "2000", "WRITE"]).await;
    slot.write().await.unwrap();
    assert!(!is_replaced(&first), "by a write that took long");
    let notice = timeout(PATIENCE, notices.next()).await.unwrap();
    assert_eq!(notice.unwrap(), Notice::Presence(first.uid()));
    slot.write().await.unwrap();
    assert!(is_replaced(&first) && !is_replaced(&second));
}

#[tokio::test]
async fn while_redis_is_away_nobody_is_replaced_and_nothing_is_known() {
    let mut redis = RedisServer::start();
    let slot = slot(&redis, PATIENCE, 1).await;
    let [first, second] = [1, 2].map(connection);
    slot.entries().add(&first, Instant::now() - SECOND);
    slot.write().await.unwrap();
    assert_eq!(online(&slot).await, Some(true));

    redis.kill();
    slot.entries().add(&second, Instant::now());
    slot.write().await.unwrap_err();
    assert_eq!(online(&slot).await, None);
    assert!(!is_replaced(&first));

    // Redis comes back without what it had: what others had written is not there yet.
    redis.cut_log(0);
    redis.restart();
    until(async || slot.hold_lease().await.is_ok()).await;
    assert_eq!(online(&slot).await, None);
    slot.write().await.unwrap();
    assert_eq!(online(&slot).await, Some(true));
    assert!(is_replaced(&first) && !is_replaced(&second));
}

#[tokio::test]
async fn a_notice_that_redis_does_not_take_is_told_later() {
    let mut redis = RedisServer::start();
    let slot = slot(&redis, PATIENCE, 1).await;
    let notice = Notice::Presence(connection(1).uid());
    slot.tell([notice.clone()]);
    redis.kill();
    slot.write().await.unwrap_err();
    redis.restart();
    let mut notices = slot.redis.store().subscribe(0).await.unwrap();
    until(async || slot.write().await.is_ok()).await;
    let heard = timeout(PATIENCE, notices.next()).await.unwrap();
    assert_eq!(heard.unwrap(), notice);
}

/// Puts `users` on a gateway that is `delay` away from Redis, and watches them from another one. Returns how long it takes until all are shown as
/// online; they stay so for three leases.
async fn all_are_online_and_stay_so(users: i64, delay: Duration, lease: Duration) -> Duration {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port, delay).await;
    let far = slot_on(proxy.port, lease, 8).await;
    let here = slot(&redis, lease, 8).await;
    let uids: Vec<UserId> = (1..=users).map(|uid| uid.try_into().unwrap()).collect();
    let begun = Instant::now();
    for uid in 1..=users {
        let connection = connection_of(uid, uid as u64);
        far.entries().add(&connection, begun);
    }
    let all_online = async || {
        let shown = here.read(&uids).await;
        shown.iter().all(|shown| shown.online == Some(true))
    };
    let watching = async {
        until_within(6 * PATIENCE, &all_online).await;
        let took = begun.elapsed();
        while begun.elapsed() < took + 3 * lease {
            assert!(all_online().await, "somebody went offline");
            sleep(lease / 10).await;
        }
        took
    };
    tokio::select! {
        () = far.run(std::future::pending()) => unreachable!("nobody closes"),
        () = here.run(std::future::pending()) => unreachable!("nobody closes"),
        took = watching => took,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_held_however_much_is_written_to_a_redis_that_is_far_away() {
    let users = 1_500;
    all_are_online_and_stay_so(users, Duration::from_millis(5), SECOND).await;
}

/// `cargo test --release … -- --ignored --nocapture fifty_thousand`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn fifty_thousand_users_and_a_redis_ten_milliseconds_away() {
    let lease = Duration::from_secs(10);
    let took = all_are_online_and_stay_so(50_000, Duration::from_millis(10), lease).await;
    println!("50,000 users are online after {} ms", took.as_millis());
}

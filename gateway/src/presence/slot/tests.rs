//! On a Redis of the test's own; there is neither Kafka nor MySQL.

use tokio::time::sleep;
use unread_store::{RedisConfig, UnreadStore};

use super::{super::entries::tests::connection, *};
use crate::{
    hub::{Connection, End, Next},
    redis_server::RedisServer,
};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything here takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The slot of a gateway that has just begun its lease.
async fn slot(redis: &RedisServer, lease: Duration, max_devices: usize) -> Slot {
    let store = UnreadStore::new(&RedisConfig {
        url: redis.url(),
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

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
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

    // It comes back without what it had: what others had written is not there yet.
    redis.cut_log(0);
    redis.restart();
    until(async || slot.hold_lease().await.is_ok()).await;
    assert_eq!(online(&slot).await, None);
    slot.write().await.unwrap();
    assert_eq!(online(&slot).await, Some(true));
    assert!(is_replaced(&first) && !is_replaced(&second));
}

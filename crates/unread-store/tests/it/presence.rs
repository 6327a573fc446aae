use std::time::Duration;

use schemas::{
    DeviceClass::{self, Mobile, Pc},
    Recipient, TimestampMs,
};
use tokio::time::{Instant, sleep, timeout};
use unread_store::{
    AddedConnection, ConnectionId, Notice, PresentConnection, RedisConfig, SharedConnections,
    UnreadStore, UserPresence,
};

use crate::test_env::{LEASE_MS, ME, TestEnv, user};

const PATIENCE: Duration = Duration::from_secs(20);

fn connection(number: u64, device: &str, class: DeviceClass, age_ms: u64) -> PresentConnection {
    PresentConnection {
        uid: user(ME),
        number,
        class,
        device: device.to_owned().try_into().unwrap(),
        connected_at: None,
        age_ms,
    }
}

async fn add(env: &TestEnv, lease: &str, added: &PresentConnection) -> Option<AddedConnection> {
    let added = [added.clone()];
    let mut answers = env.conn.add_connections(lease, &added, 2).await.unwrap();
    answers.remove(0)
}

async fn presence(env: &TestEnv) -> UserPresence {
    env.conn.read_presence(&[user(ME)]).await.unwrap().remove(0)
}

fn id(lease: &str, number: u64) -> ConnectionId {
    let lease = lease.to_owned();
    ConnectionId { lease, number }
}

#[tokio::test]
async fn a_user_is_there_as_long_as_a_connection_is() {
    for cluster in [false, true] {
        let config = RedisConfig {
            cluster,
            ..RedisConfig::default()
        };
        let env = TestEnv::with(config).await;
        assert_eq!(presence(&env).await, UserPresence::default());
        env.conn.begin_lease("a", LEASE_MS).await.unwrap();
        let (one, two) = (connection(1, "x", Pc, 0), connection(2, "y.y", Mobile, 0));
        assert!(add(&env, "a", &one).await.unwrap().is_first);
        assert!(!add(&env, "a", &two).await.unwrap().is_first);
        assert_eq!(presence(&env).await.classes, [Pc, Mobile]);
        let remove = async |number| {
            let removed = [(user(ME), number)];
            env.conn.remove_connections("a", &removed).await.unwrap()
        };
        assert_eq!(remove(1).await, []);
        assert_eq!(presence(&env).await.classes, [Mobile]);
        assert_eq!(remove(2).await, [user(ME)]);
        assert_eq!(remove(2).await, [], "it was away already");
        let away = presence(&env).await;
        assert_eq!(away.classes, []);
        let kept: i64 = env
            .redis(&format!("PTTL {}presence-{ME}", tag(cluster)))
            .await;
        assert!(away.last_seen.is_some() && kept > 0);
    }
}

fn tag(cluster: bool) -> &'static str {
    if cluster { "{40}" } else { "" }
}

#[tokio::test]
async fn what_is_under_a_lease_that_has_ended_is_void_for_good() {
    let env = TestEnv::new().await;
    assert!(!env.conn.renew_lease("a", LEASE_MS).await.unwrap());
    env.conn.begin_lease("a", 200).await.unwrap();
    let added = add(&env, "a", &connection(1, "x", Pc, 0)).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    let away = loop {
        let now = presence(&env).await;
        if now.classes.is_empty() {
            break now;
        }
        assert!(Instant::now() < deadline, "the lease does not end");
        sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(away.last_seen, Some(added.connected_at));
    assert!(!env.conn.renew_lease("a", LEASE_MS).await.unwrap());
    assert_eq!(add(&env, "a", &connection(1, "x", Pc, 0)).await, None);
    // Another gateway sweeps.
    env.conn.begin_lease("b", LEASE_MS).await.unwrap();
    assert!(
        add(&env, "b", &connection(1, "z", Pc, 0))
            .await
            .unwrap()
            .is_first
    );
    let fields: Vec<String> = env.redis(&format!("HKEYS presence-{ME}")).await;
    assert_eq!(fields, ["b:1", "seen"]);
    env.conn.end_lease("b").await.unwrap();
    assert_eq!(presence(&env).await.classes, []);
}

#[tokio::test]
async fn the_earliest_of_a_class_go_and_of_a_device_the_earlier_one() {
    let env = TestEnv::new().await;
    for lease in ["a", "b"] {
        env.conn.begin_lease(lease, LEASE_MS).await.unwrap();
    }
    let replaced = async |lease, added: PresentConnection| {
        let mut replaced = add(&env, lease, &added).await.unwrap().replaced;
        replaced.sort_by_key(ToString::to_string);
        replaced
    };
    assert_eq!(replaced("a", connection(1, "x", Pc, 9_000)).await, []);
    assert_eq!(replaced("b", connection(1, "y", Pc, 5_000)).await, []);
    assert_eq!(replaced("b", connection(2, "z", Mobile, 0)).await, []);
    assert_eq!(replaced("b", connection(3, "w", Pc, 0)).await, [id("a", 1)]);
    // As long as the first has not gone it is the one that does.
    assert_eq!(
        replaced("b", connection(4, "v", Pc, 0)).await,
        [id("a", 1), id("b", 1)]
    );
    // Written late, the earlier connection of a device goes all the same.
    assert_eq!(
        replaced("a", connection(2, "z", Mobile, 60_000)).await,
        [id("a", 2)]
    );
    assert_eq!(
        replaced("a", connection(3, "z", Mobile, 0)).await,
        [id("a", 2), id("b", 2)]
    );
    // Written again, it keeps its time.
    let mut again = connection(1, "x", Pc, 0);
    again.connected_at = Some(TimestampMs(1));
    let added = add(&env, "a", &again).await.unwrap();
    assert_eq!(added.connected_at, TimestampMs(1));
}

#[tokio::test]
async fn who_was_connected_under_a_clock_that_was_ahead_came_before() {
    let env = TestEnv::new().await;
    for lease in ["a", "b"] {
        env.conn.begin_lease(lease, LEASE_MS).await.unwrap();
    }
    for (number, device, class) in [(1, "x", Pc), (2, "y", Mobile), (3, "z", Mobile)] {
        let mut ahead = connection(number, device, class, 0);
        let now = add(&env, "a", &ahead).await.unwrap().connected_at;
        let hours = 3_600_000 * number as i64;
        ahead.connected_at = Some(TimestampMs(now.0 + hours));
        assert_eq!(add(&env, "a", &ahead).await.unwrap().replaced, []);
    }
    let replaced = async |added| add(&env, "b", &added).await.unwrap().replaced;
    assert_eq!(replaced(connection(1, "x", Pc, 5)).await, [id("a", 1)]);
    assert_eq!(replaced(connection(2, "w", Mobile, 5)).await, [id("a", 2)]);
}

/// A gateway that dies while the clock is ahead would count until that time comes.
#[tokio::test]
async fn a_lease_of_a_clock_that_was_ahead_ends_like_any_other() {
    let env = TestEnv::new().await;
    let dead = "dead-10000";
    env.conn.begin_lease(dead, 10_000).await.unwrap();
    let now = add(&env, dead, &connection(1, "x", Pc, 0)).await.unwrap();
    let ends_in = async |ms: i64| {
        let ends = now.connected_at.0 + ms;
        let command = format!("ZADD tidemark:gateways {ends} {dead}");
        let _: i64 = env.redis(&command).await;
        presence(&env).await.classes
    };
    // Clocks are set back by a little every day.
    assert_eq!(ends_in(19_000).await, [Pc]);
    assert_eq!(ends_in(3_600_000).await, []);
    assert!(!env.conn.renew_lease(dead, 10_000).await.unwrap());
    assert_eq!(ends_in(3_600_000).await, []);
    // It does not come back to life when that time has come.
    env.conn.begin_lease("b", LEASE_MS).await.unwrap();
    let leases: Vec<String> = env.redis("ZRANGE tidemark:gateways 0 -1").await;
    assert_eq!(leases, ["b"]);
}

#[tokio::test]
async fn a_key_of_another_type_is_no_presence_and_is_replaced() {
    let env = TestEnv::new().await;
    env.redis::<()>(&format!("SET presence-{ME} x")).await;
    assert_eq!(presence(&env).await, UserPresence::default());
    env.conn.begin_lease("a", LEASE_MS).await.unwrap();
    env.redis::<()>(&format!("SET presence-{ME} x")).await;
    assert!(
        add(&env, "a", &connection(1, "x", Pc, 0))
            .await
            .unwrap()
            .is_first
    );
}

#[tokio::test]
async fn who_listens_hears_and_notices_that_the_server_is_gone() {
    for cluster in [false, true] {
        let config = RedisConfig {
            cluster,
            key_prefix: "t:".to_owned(),
            ..RedisConfig::default()
        };
        let mut env = TestEnv::with(config).await;
        let store = UnreadStore::new(&env.config).unwrap();
        // In a cluster at another node than the one it is told to.
        let mut subscription = store.subscribe(7).await.unwrap();
        let notice = Notice::Typing {
            from: user(ME),
            to: Recipient::User(user(1001)),
        };
        let shared = SharedConnections::new(store.clone());
        shared.publish(&notice).await.unwrap();
        let heard = timeout(PATIENCE, subscription.next()).await.unwrap();
        assert_eq!(heard.unwrap(), notice);
        env.server.kill();
        let ended = timeout(PATIENCE, subscription.next()).await.unwrap();
        assert!(ended.unwrap_err().is_transient());
        assert!(store.subscribe(0).await.is_err());
    }
}

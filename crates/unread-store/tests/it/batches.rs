use std::collections::BTreeMap;

use schemas::DeviceClass::{Mobile, Pc};
use unread_store::{RedisConfig, UnreadError, UnreadView};

use crate::test_env::{BOSS, LEASE_MS, ME, TestEnv, complete, messages, read, user};

type Map = BTreeMap<String, i64>;

#[tokio::test]
async fn the_seeds_story() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    for newest in 1..=3 {
        assert!(!env.apply(messages(ME, BOSS, newest)).await);
    }
    let three = Map::from([("1001".to_owned(), 3)]);
    assert_eq!(env.redis::<Map>("HGETALL pc-1000").await, three);
    assert_eq!(env.redis::<Map>("HGETALL mobile-1000").await, three);

    env.apply(read(ME, BOSS, Mobile, Some(3))).await;
    assert_eq!(env.redis::<Map>("HGETALL pc-1000").await, three);
    assert_eq!(env.redis::<Map>("HGETALL mobile-1000").await, Map::new());
}

#[tokio::test]
async fn redelivery_and_reordering_change_nothing() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    for update in [
        messages(ME, BOSS, 5),
        read(ME, BOSS, Pc, Some(4)),
        messages(ME, BOSS, 3),
        read(ME, BOSS, Pc, Some(2)),
    ] {
        env.apply(update).await;
    }
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
    assert_eq!(env.unread(ME, Mobile).await, complete(&[(BOSS, 5)]));
}

#[tokio::test]
async fn absent_users_are_reported_and_wanted_and_nothing_is_made() {
    let mut env = TestEnv::new().await;
    env.load(2, &[]).await;
    let updates = [messages(1, 9, 1), messages(2, 9, 1), messages(3, 9, 1)];
    let outcome = env.batch(&updates, &[]).await;
    assert_eq!(outcome.unwrap().absent, [user(1), user(3)]);

    let mut requests = env.conn.rebuild_requests(100).await.unwrap();
    requests.sort();
    assert_eq!(requests, [user(1), user(3)]);
    assert_eq!(env.unread(1, Pc).await, UnreadView::Absent);
    assert_eq!(env.redis::<Vec<String>>("KEYS *-1").await, [""; 0]);

    env.load(1, &[]).await;
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), [user(3)]);
}

#[tokio::test]
async fn a_view_without_state_is_removed() {
    let mut env = TestEnv::new().await;
    env.redis::<i64>("HSET pc-1000 1001 7").await;
    assert!(env.apply(messages(ME, BOSS, 1)).await);
    assert_eq!(env.raw(ME).await.views.pc, None);

    env.redis::<i64>("HSET mobile-1000 1001 7").await;
    assert_eq!(env.unread(ME, Mobile).await, UnreadView::Absent);
    assert_eq!(env.raw(ME).await.views.mobile, None);
}

#[tokio::test]
async fn a_position_without_ordinal_drops_the_state() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "3,0,0")]).await;
    assert!(env.apply(read(ME, BOSS, Pc, None)).await);
    let raw = env.raw(ME).await;
    assert_eq!(
        (raw.state, raw.views.pc, raw.views.mobile),
        (None, None, None)
    );
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), [user(ME)]);
}

#[tokio::test]
async fn what_is_unknown_is_not_counted_and_a_later_number_asks_the_rows_again() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "3,?,1"), (1002, "2,0,0")]).await;
    let seen = UnreadView::Complete {
        counts: [(user(1002), 2)].into(),
        unknown: vec![user(BOSS)],
    };
    assert_eq!(env.unread(ME, Pc).await, seen);
    assert_eq!(
        env.redis::<Map>("HGETALL pc-1000").await,
        Map::from([("1002".to_owned(), 2)])
    );

    // A message says nothing about what was read.
    assert!(!env.apply(messages(ME, BOSS, 4)).await);
    assert_eq!(
        env.unread(ME, Mobile).await,
        complete(&[(BOSS, 3), (1002, 2)])
    );
    assert!(env.apply(read(ME, BOSS, Pc, Some(4))).await);
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Absent);
}

#[tokio::test]
async fn the_largest_numbers_stay_exact() {
    let mut env = TestEnv::new().await;
    let (uid, peer, newest) = (i64::MAX, i64::MAX - 1, (1 << 53) - 1);
    env.load(uid, &[]).await;
    env.apply(messages(uid, peer, newest)).await;
    env.apply(read(uid, peer, Pc, Some(1))).await;
    assert_eq!(env.unread(uid, Pc).await, complete(&[(peer, newest - 1)]));
    let view: Map = env.redis(&format!("HGETALL pc-{uid}")).await;
    assert_eq!(view, Map::from([(peer.to_string(), newest - 1)]));
}

#[tokio::test]
async fn the_prefix_is_in_every_key() {
    let mut env = TestEnv::with(RedisConfig {
        key_prefix: "t7:".to_owned(),
        ..RedisConfig::default()
    })
    .await;
    env.load(ME, &[]).await;
    env.apply(messages(ME, BOSS, 1)).await;
    env.apply(messages(5, BOSS, 1)).await;
    let mut keys: Vec<String> = env.redis("KEYS *").await;
    keys.retain(|key| !key.starts_with("t7:tidemark:mark:"));
    keys.sort();
    assert_eq!(
        keys,
        [
            "t7:mobile-1000",
            "t7:pc-1000",
            "t7:state-1000",
            "t7:tidemark:wanted"
        ]
    );
}

#[tokio::test]
async fn a_batch_of_thousands_of_users_goes_through() {
    let mut env = TestEnv::new().await;
    let updates: Vec<_> = (1..=3_000).map(|uid| messages(uid, 9_999, uid)).collect();
    let outcome = env.batch(&updates, &[]).await;
    assert_eq!(outcome.unwrap().absent.len(), 3_000);

    let uids: Vec<_> = (1..=3_000).map(user).collect();
    let begun = env
        .conn
        .begin_rebuilds(&uids, uuid::Uuid::new_v4(), LEASE_MS);
    let begun = begun.await.unwrap();
    assert_eq!(begun.len(), 3_000);
    let outcome = env.batch(&updates, &[]).await;
    assert_eq!(outcome.unwrap().absent, []);
}

#[tokio::test]
async fn a_state_that_a_hand_broke_is_rebuilt() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "3,0,0")]).await;
    env.redis::<i64>("HSET state-1000 1001 three").await;
    assert!(env.apply(messages(ME, BOSS, 4)).await);
    assert_eq!(env.raw(ME).await.state, None);
}

#[tokio::test]
async fn keys_of_another_type_are_in_nobodys_way() {
    for key in ["state-1000", "pc-1000", "mobile-1000"] {
        let mut env = TestEnv::new().await;
        env.load(ME, &[(BOSS, "3,0,0")]).await;
        env.redis::<String>(&format!("SET {key} x")).await;
        assert!(env.apply(messages(ME, BOSS, 4)).await, "{key}");

        env.load(ME, &[(BOSS, "4,0,0")]).await;
        assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 4)]), "{key}");
        env.redis::<String>(&format!("SET {key} x")).await;
        let error = env.conn.read_state(user(ME)).await.unwrap_err();
        assert!(
            matches!(&error, UnreadError::Malformed { key: named, .. } if named == key),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_rebuild_makes_way_for_itself() {
    let env = TestEnv::new().await;
    env.redis::<String>("SET state-1000 x").await;
    env.redis::<String>("SET tidemark:wanted x").await;
    env.load(ME, &[(BOSS, "4,0,0")]).await;
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 4)]));
}

use schemas::DeviceClass::Pc;
use unread_store::{BeginOutcome, RedisConfig, UnreadError, UnreadStore};

use crate::{
    server::RedisServer,
    test_env::{BOSS, LEASE_MS, ME, TestEnv, complete, ends, messages, read, user},
};

/// The hash tag of [`ME`], which is 1000: modulo 64.
const TAG: &str = "{40}";

async fn in_cluster() -> TestEnv {
    TestEnv::with(RedisConfig {
        cluster: true,
        ..RedisConfig::default()
    })
    .await
}

#[tokio::test]
async fn what_belongs_together_has_one_hash_tag() {
    let mut env = in_cluster().await;
    env.load(ME, &[(BOSS, "1,0,0")]).await;
    env.apply(messages(ME, BOSS, 2)).await;
    env.apply(read(ME, BOSS, Pc, Some(1))).await;
    let shadow = env.conn.begin_shadow_rebuilds(&[user(ME)], LEASE_MS).await;
    assert_eq!(shadow.unwrap().len(), 1);
    assert!(env.apply(messages(ME + 64, BOSS, 1)).await);
    let move_one = env.step(3, 0, 1);
    env.batch(&[], &[move_one]).await.unwrap();
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));

    let mut keys: Vec<String> = env.redis("KEYS *").await;
    keys.retain(|key| !key.contains("tidemark:mark:"));
    keys.sort();
    let expected = [
        "mobile-1000",
        "new-1000",
        "new-1000:state",
        "pc-1000",
        "state-1000",
        "tidemark:wanted",
    ];
    assert_eq!(keys, expected.map(|key| format!("{TAG}{key}")));
}

#[tokio::test]
async fn slots_have_users_and_generations_of_their_own() {
    let env = in_cluster().await;
    env.load(ME, &[]).await;
    let store = UnreadStore::new(&env.config).unwrap();
    let other = store.slot_of(user(BOSS)).connect().await.unwrap();
    let begun = other.begin_rebuild(user(BOSS), LEASE_MS).await;
    assert!(matches!(begun, Err(UnreadError::NotReady)), "{begun:?}");
    let generation = other.initialise_positions(&ends(7)).await.unwrap();
    assert_ne!(generation, env.generation);
    let begun = other.begin_rebuild(user(BOSS), LEASE_MS).await;
    assert!(matches!(begun, Ok(BeginOutcome::Begun(_))), "{begun:?}");

    for (connection, uid) in [(&env.conn, ME), (&other, BOSS)] {
        let (mut users, mut cursor) = (Vec::new(), Some(0));
        while let Some(at) = cursor {
            let page = connection.scan_users(at).await.unwrap();
            users.extend(page.users);
            cursor = page.next;
        }
        assert_eq!(users, [user(uid)]);
    }
}

#[tokio::test]
async fn a_slot_without_a_master_is_found_again_on_a_new_connection() {
    let mut env = in_cluster().await;
    env.load(ME, &[]).await;
    let slot: i64 = env.redis(&format!("CLUSTER KEYSLOT {TAG}")).await;
    env.redis::<String>(&format!("CLUSTER DELSLOTS {slot}"))
        .await;
    let refused = env.batch(&[messages(ME, BOSS, 1)], &[]).await;
    assert!(
        matches!(refused, Err(UnreadError::Transient(_))),
        "{refused:?}"
    );
    let store = UnreadStore::new(&env.config).unwrap();
    let error = store.slot_of(user(ME)).connect().await.unwrap_err();
    let what = format!("no master of the cluster has hash slot {slot}");
    assert!(
        error.is_transient() && error.to_string().contains(&what),
        "{error}"
    );

    env.redis::<String>(&format!("CLUSTER ADDSLOTS {slot}"))
        .await;
    let refused = env.batch(&[messages(ME, BOSS, 1)], &[]).await;
    assert!(matches!(refused, Err(UnreadError::Broken)), "{refused:?}");
    env.reconnect().await;
    env.apply(messages(ME, BOSS, 1)).await;
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
}

#[tokio::test]
async fn errors_name_the_setting_that_says_what_the_server_is() {
    let plain = RedisServer::start();
    let node = RedisServer::start_cluster().await;
    for (url, cluster, hint) in [
        (plain.url(), true, "redis.cluster is set, and the server"),
        (node.url(), false, "where redis.cluster is not set, set it"),
    ] {
        let config = RedisConfig {
            url,
            cluster,
            ..RedisConfig::default()
        };
        let slot = UnreadStore::new(&config).unwrap().slot_of(user(ME)).clone();
        let initialised = async { slot.connect().await?.initialise_positions(&ends(0)).await };
        let error = initialised.await.unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

use std::{collections::BTreeSet, time::Duration};

use schemas::DeviceClass::{Mobile, Pc};
use tokio::time::Instant;
use unread_store::{Expiry, SharedConnections, UnreadError, UnreadStore, UnreadView, UserUpdate};

use crate::test_env::{BOSS, ME, TestEnv, complete, messages, partition, src, user};

#[tokio::test]
async fn absent_rebuilding_and_complete_differ() {
    let env = TestEnv::new().await;
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Absent);
    let rebuild = env.begin(ME).await;
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Rebuilding);
    assert!(env.complete(&rebuild, &[]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[]));
}

#[tokio::test]
async fn a_state_of_another_generation_is_absent_to_readers_and_writers() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "3,0,0")]).await;
    env.put_into_another_generation(ME).await;
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Absent);
    assert!(env.apply(messages(ME, BOSS, 4)).await);
    assert_eq!(env.raw(ME).await.state, None);
}

#[tokio::test]
async fn a_rebuild_drops_a_state_of_another_generation() {
    let env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "3,0,0")]).await;
    env.put_into_another_generation(ME).await;
    let rebuild = env.begin(ME).await;
    assert_eq!(env.raw(ME).await.views.pc, None);
    assert!(env.complete(&rebuild, &[(BOSS, "2,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 2)]));
}

#[tokio::test]
async fn a_node_without_positions_is_not_ready() {
    let env = TestEnv::new().await;
    env.redis::<String>("FLUSHALL").await;
    let read = env.conn.read_unread(user(ME), Pc, Expiry::Keep).await;
    assert!(matches!(read, Err(UnreadError::NotReady)));
}

#[tokio::test]
async fn a_read_says_whether_the_positions_have_reached_what_is_required() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    let step = env.step(17, 0, 43);
    let applied = env.batch(&[messages(ME, BOSS, 1)], &[step]).await;
    applied.unwrap();

    let reached = async |needed: &[_]| {
        let read = env
            .conn
            .read_unread_after(user(ME), Pc, Expiry::Keep, needed);
        let read = read.await.unwrap();
        assert_eq!(read.view, complete(&[(BOSS, 1)]));
        assert_eq!(read.positions.len(), needed.len());
        read.reached
    };
    assert!(reached(&[]).await);
    assert!(reached(&[(partition(17), src(42))]).await);
    assert!(!reached(&[(partition(17), src(43))]).await);
    assert!(!reached(&[(partition(17), src(42)), (partition(0), src(0))]).await);
}

/// The other way round, a batch in between would be in the watermarks and not in the counts.
#[tokio::test]
async fn positions_are_read_before_the_counts() {
    let env = TestEnv::new().await;
    env.load(ME, &[]).await;
    env.redis::<String>("CONFIG SET slowlog-log-slower-than 0")
        .await;
    env.redis::<String>("SLOWLOG RESET").await;
    let needed = [(partition(17), src(0))];
    let read = env
        .conn
        .read_unread_after(user(ME), Pc, Expiry::Keep, &needed);
    read.await.unwrap();
    let log: Vec<(i64, i64, i64, Vec<String>, String, String)> = env.redis("SLOWLOG GET -1").await;
    let oldest_first = log.into_iter().rev().map(|(.., words, _, _)| words);
    let commands = oldest_first.map(|words| words[0].to_uppercase());
    let reads: Vec<String> = commands
        .filter(|command| command == "HMGET" || command == "EVALSHA")
        .collect();
    assert_eq!(reads, ["HMGET", "HMGET", "EVALSHA"]);
}

#[tokio::test]
async fn every_user_with_a_key_is_scanned() {
    let env = TestEnv::new().await;
    for uid in 1..=1_500 {
        env.begin(uid).await;
    }
    env.redis::<i64>("HSET pc-7000 1 1").await;
    let mut users = BTreeSet::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let page = env.conn.scan_users(at).await.unwrap();
        users.extend(page.users);
        cursor = page.next;
    }
    let expected: BTreeSet<_> = (1..=1_500).chain([7_000]).map(user).collect();
    assert_eq!(users, expected);
}

#[tokio::test]
async fn a_broken_count_is_seen_raw() {
    let env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "3,0,0")]).await;
    env.redis::<i64>("HSET pc-1000 1001 4").await;
    let raw = env.raw(ME).await;
    assert_ne!(
        raw.views.pc.unwrap().value,
        raw.state.unwrap().value.counts(Pc)
    );

    env.redis::<i64>("HSET state-1000 1001 1,2").await;
    let error = env.conn.read_state(user(ME)).await.unwrap_err();
    assert!(matches!(error, UnreadError::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn readers_share_a_connection_and_get_a_new_one_after_it_failed() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    let shared = SharedConnections::new(UnreadStore::new(&env.config).unwrap());
    let first = shared.of(user(ME)).await.unwrap();
    env.server.kill();
    let error = first.read_unread(user(ME), Pc, Expiry::Keep).await;
    assert!(matches!(error, Err(UnreadError::Transient(_))));
    let error = first.read_unread(user(ME), Pc, Expiry::Keep).await;
    assert!(matches!(error, Err(UnreadError::Broken)));
    assert!(shared.of(user(ME)).await.unwrap_err().is_transient());

    env.server.restart();
    // An attempt that failed is not repeated at once.
    let deadline = Instant::now() + Duration::from_secs(10);
    let second = loop {
        match shared.of(user(ME)).await {
            Ok(connection) => break connection,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::task::yield_now().await;
    };
    let read = second.read_unread(user(ME), Pc, Expiry::Keep).await;
    assert_eq!(read.unwrap(), complete(&[]));
}

#[tokio::test]
async fn more_peers_than_one_call_reads_are_read_in_pages() {
    let env = TestEnv::new().await;
    let rows: Vec<(i64, &str)> = (2_000..2_500).map(|peer| (peer, "3,1,?")).collect();
    env.load(ME, &rows[1..]).await;
    let whole = env.unread(ME, Pc).await;
    assert!(matches!(whole, UnreadView::Complete { .. }), "{whole:?}");

    env.load(1, &rows).await;
    for device in [Pc, Mobile] {
        assert_eq!(env.unread(1, device).await, UnreadView::Large);
        let state = env.raw(1).await.state.unwrap().value;
        let expected = UnreadView::Complete {
            counts: state.counts(device),
            unknown: state.unknown(device),
        };
        let (view, positions) = env
            .conn
            .read_unread_in_pages(user(1), device)
            .await
            .unwrap();
        assert_eq!(view, expected);
        assert_eq!(positions, env.conn.read_positions().await.unwrap());
    }
}

#[tokio::test]
async fn pages_of_a_state_that_is_not_complete_are_not_read() {
    let mut env = TestEnv::new().await;
    let pages = async |env: &TestEnv| {
        let read = env.conn.read_unread_in_pages(user(ME), Pc).await;
        read.unwrap().0
    };
    assert_eq!(pages(&env).await, UnreadView::Absent);
    env.begin(ME).await;
    let mut update = UserUpdate::new(user(ME));
    for peer in 2_000..3_000 {
        update.message(user(peer), 1.try_into().unwrap());
    }
    assert!(!env.apply(update).await);
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Large);
    assert_eq!(pages(&env).await, UnreadView::Rebuilding);

    env.put_into_another_generation(ME).await;
    assert_eq!(pages(&env).await, UnreadView::Absent);
}

use std::{collections::BTreeSet, time::Duration};

use schemas::DeviceClass::Pc;
use tokio::time::Instant;
use unread_store::{Expiry, Node, SharedConnection, UnreadError, UnreadView};

use crate::world::{BOSS, ME, World, complete, messages, partition, src, user};

#[tokio::test]
async fn absent_rebuilding_and_complete_are_told_apart() {
    let world = World::new().await;
    assert_eq!(world.unread(ME, Pc).await, UnreadView::Absent);
    let rebuild = world.begin(ME).await;
    assert_eq!(world.unread(ME, Pc).await, UnreadView::Rebuilding);
    assert!(world.complete(&rebuild, &[]).await);
    assert_eq!(world.unread(ME, Pc).await, complete(&[]));
}

#[tokio::test]
async fn a_state_of_another_generation_is_absent_to_readers_and_writers() {
    let mut world = World::new().await;
    world.load(ME, &[(BOSS, "3,0,0")]).await;
    for p in 0..64 {
        world.redis::<i64>(&format!("DEL tidemark:mark:{p}")).await;
    }
    world.generation = world
        .conn
        .initialise_marks(&[(9, src(8)); 64])
        .await
        .unwrap();
    assert_eq!(world.unread(ME, Pc).await, UnreadView::Absent);
    assert!(world.apply(messages(ME, BOSS, 4)).await);
    assert_eq!(world.raw(ME).await.state, None);
}

#[tokio::test]
async fn a_rebuild_drops_a_state_of_another_generation() {
    let world = World::new().await;
    world.load(ME, &[(BOSS, "3,0,0")]).await;
    world.redis::<i64>("DEL tidemark:mark:0").await;
    world
        .conn
        .initialise_marks(&[(9, src(8)); 64])
        .await
        .unwrap();
    let rebuild = world.begin(ME).await;
    assert_eq!(world.raw(ME).await.pc, None);
    assert!(world.complete(&rebuild, &[(BOSS, "2,0,0")]).await);
    assert_eq!(world.unread(ME, Pc).await, complete(&[(BOSS, 2)]));
}

#[tokio::test]
async fn a_node_without_marks_is_not_ready() {
    let world = World::new().await;
    world.redis::<String>("FLUSHALL").await;
    let read = world.conn.read_unread(user(ME), Pc, Expiry::Keep).await;
    assert!(matches!(read, Err(UnreadError::NotReady)));
}

#[tokio::test]
async fn a_read_says_whether_the_marks_have_reached_what_was_needed() {
    let mut world = World::new().await;
    world.load(ME, &[]).await;
    let step = world.step(17, 0, 43);
    let applied = world.batch(&[messages(ME, BOSS, 1)], &[step]).await;
    applied.unwrap();

    let reached = async |needed: &[_]| {
        let read = world
            .conn
            .read_unread_after(user(ME), Pc, Expiry::Keep, needed);
        let read = read.await.unwrap();
        assert_eq!(read.view, complete(&[(BOSS, 1)]));
        assert_eq!(read.marks.len(), needed.len());
        read.reached
    };
    assert!(reached(&[]).await);
    assert!(reached(&[(partition(17), src(42))]).await);
    assert!(!reached(&[(partition(17), src(43))]).await);
    assert!(!reached(&[(partition(17), src(42)), (partition(0), src(0))]).await);
}

/// The other way round, a batch in between would be in the marks and not in the counts.
#[tokio::test]
async fn marks_are_read_before_the_counts() {
    let world = World::new().await;
    world.load(ME, &[]).await;
    world
        .redis::<String>("CONFIG SET slowlog-log-slower-than 0")
        .await;
    world.redis::<String>("SLOWLOG RESET").await;
    let needed = [(partition(17), src(0))];
    let read = world
        .conn
        .read_unread_after(user(ME), Pc, Expiry::Keep, &needed);
    read.await.unwrap();
    let log: Vec<(i64, i64, i64, Vec<String>, String, String)> =
        world.redis("SLOWLOG GET -1").await;
    let oldest_first = log.into_iter().rev().map(|(.., words, _, _)| words);
    let commands = oldest_first.map(|words| words[0].to_uppercase());
    let reads: Vec<String> = commands
        .filter(|command| command == "HMGET" || command == "EVALSHA")
        .collect();
    assert_eq!(reads, ["HMGET", "HMGET", "EVALSHA"]);
}

#[tokio::test]
async fn every_user_with_a_key_is_scanned() {
    let world = World::new().await;
    for uid in 1..=1_500 {
        world.begin(uid).await;
    }
    world.redis::<i64>("HSET pc-7000 1 1").await;
    let mut users = BTreeSet::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let page = world.conn.scan_users(at).await.unwrap();
        users.extend(page.users);
        cursor = page.next;
    }
    let expected: BTreeSet<_> = (1..=1_500).chain([7_000]).map(user).collect();
    assert_eq!(users, expected);
}

#[tokio::test]
async fn a_broken_count_is_seen_raw() {
    let world = World::new().await;
    world.load(ME, &[(BOSS, "3,0,0")]).await;
    world.redis::<i64>("HSET pc-1000 1001 4").await;
    let raw = world.raw(ME).await;
    assert_ne!(raw.pc.unwrap().value, raw.state.unwrap().value.counts(Pc));

    world.redis::<i64>("HSET state-1000 1001 1,2").await;
    let error = world.conn.read_state(user(ME)).await.unwrap_err();
    assert!(matches!(error, UnreadError::Malformed { .. }), "{error}");
}

#[tokio::test]
async fn readers_share_a_connection_and_get_a_new_one_after_it_failed() {
    let mut world = World::new().await;
    world.load(ME, &[]).await;
    let shared = SharedConnection::new(Node::new(&world.config).unwrap());
    let first = shared.get().await.unwrap();
    world.server.kill();
    let error = first.read_unread(user(ME), Pc, Expiry::Keep).await;
    assert!(matches!(error, Err(UnreadError::Transient(_))));
    let error = first.read_unread(user(ME), Pc, Expiry::Keep).await;
    assert!(matches!(error, Err(UnreadError::Broken)));
    assert!(shared.get().await.unwrap_err().is_transient());

    world.server.restart();
    // An attempt that failed is not repeated at once.
    let deadline = Instant::now() + Duration::from_secs(10);
    let second = loop {
        match shared.get().await {
            Ok(connection) => break connection,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::task::yield_now().await;
    };
    let read = second.read_unread(user(ME), Pc, Expiry::Keep).await;
    assert_eq!(read.unwrap(), complete(&[]));
}

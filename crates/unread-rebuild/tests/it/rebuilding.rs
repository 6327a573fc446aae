use std::{collections::BTreeMap, sync::Arc, time::Duration};

use message_store::{MessageStore, MySqlConfig, ServerConfig};
use tokio::time::Instant;
use unread_rebuild::{RebuildConfig, UnreadRebuildError};
use unread_store::{Begin, UserUpdate, UserView};

use crate::world::{World, row, soon, users};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_before_the_rows_reach_the_log() {
    let world = World::new().await;
    let [alice, bob] = users(2)[..] else {
        unreachable!()
    };
    world.append(alice, bob).await;
    world
        .contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    // On the log, and not in the rows.
    world.append(alice, bob).await;

    let rebuilder = world.rebuilder();
    let waiting = tokio::spawn(async move { rebuilder.rebuild(&[alice], soon()).await });
    world.begun(alice).await;
    // Applied since, and in no row.
    let mut update = UserUpdate::new(alice);
    update.message(bob, 3.try_into().unwrap());
    let mut writer = world.connection().await;
    let generation = writer.read_marks().await.unwrap().generation().unwrap();
    writer
        .apply_batch(generation, &[update], &[])
        .await
        .unwrap();
    assert!(!waiting.is_finished());
    assert_eq!(world.view(alice).await, UserView::Rebuilding);

    world
        .contacts_catch_up(&[row(alice, bob, 2, Some(0), Some(1))])
        .await;
    waiting.await.unwrap().unwrap();
    let (pc, mobile) = world.unread(alice).await;
    assert_eq!(pc, BTreeMap::from([(bob, 3)]));
    assert_eq!(mobile, BTreeMap::from([(bob, 2)]));
}

/// What is applied to Redis before the state is begun misses the user, so it has to lie before the ends that the rows reach.
#[tokio::test(flavor = "multi_thread")]
async fn the_ends_are_those_behind_the_beginning() {
    let world = World::new().await;
    let [alice, bob] = users(2)[..] else {
        unreachable!()
    };
    let rebuilder = Arc::new(world.rebuilder());
    world.hold_writes().await;
    let held = Arc::clone(&rebuilder);
    let waiting = tokio::spawn(async move { held.rebuild(&[alice], soon()).await });
    world.write_is_held().await;
    world.append(alice, bob).await;
    world.release_writes().await;
    world.begun(alice).await;

    let hasty = Instant::now() + Duration::from_millis(200);
    let early = rebuilder.rebuild(&[alice], hasty).await;
    assert_eq!(early, Err(UnreadRebuildError::TimedOut));
    world
        .contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    waiting.await.unwrap().unwrap();
    assert_eq!(world.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_the_wait_and_not_the_rebuild() {
    let world = World::new().await;
    let [alice, bob] = users(2)[..] else {
        unreachable!()
    };
    world.append(alice, bob).await;

    let rebuilder = world.rebuilder();
    let hasty = Instant::now() + Duration::from_millis(200);
    assert_eq!(
        rebuilder.rebuild(&[alice], hasty).await,
        Err(UnreadRebuildError::TimedOut)
    );
    assert_eq!(world.view(alice).await, UserView::Rebuilding);

    world
        .contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    rebuilder.rebuild(&[alice], soon()).await.unwrap();
    assert_eq!(world.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_users_are_rebuilt_behind_few_barriers() {
    let world = World::new().await;
    let users = users(301);
    let (sender, receivers) = users.split_last().unwrap();
    let rows: Vec<_> = (1..)
        .zip(receivers)
        .map(|(n, uid)| row(*uid, *sender, n, Some(0), Some(n)))
        .collect();
    world.append(*sender, receivers[0]).await;
    world.contacts_catch_up(&rows).await;

    world.rebuilder().rebuild(receivers, soon()).await.unwrap();
    for (n, uid) in (1..).zip(receivers) {
        let (pc, mobile) = world.unread(*uid).await;
        assert_eq!(pc, BTreeMap::from([(*sender, n)]));
        assert!(mobile.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_rebuild_the_same_users() {
    let world = World::new().await;
    let users = users(41);
    let (sender, receivers) = users.split_last().unwrap();
    let rows: Vec<_> = receivers
        .iter()
        .map(|uid| row(*uid, *sender, 7, Some(0), Some(0)))
        .collect();
    world.contacts_catch_up(&rows).await;

    let (one, other) = (world.rebuilder(), world.rebuilder());
    let backwards: Vec<_> = receivers.iter().rev().copied().collect();
    let (first, second) = tokio::join!(
        one.rebuild(receivers, soon()),
        other.rebuild(&backwards, soon())
    );
    first.unwrap();
    second.unwrap();
    for uid in receivers {
        assert_eq!(world.unread(*uid).await.0, BTreeMap::from([(*sender, 7)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_a_dead_process_left_is_taken_over() {
    let world = World::new().await;
    let [alice, bob] = users(2)[..] else {
        unreachable!()
    };
    let dead = world.connection().await;
    let begun = dead.begin_rebuild(alice, 1_000).await.unwrap();
    let Begin::Begun(abandoned) = begun else {
        panic!("{begun:?}");
    };
    world.append(alice, bob).await;
    world
        .contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;

    world.rebuilder().rebuild(&[alice], soon()).await.unwrap();
    assert_eq!(world.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
    assert!(!dead.complete_rebuild(&abandoned, &[]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_waits_for_contacts_is_not_taken_over() {
    let world = World::new().await;
    let [alice, bob] = users(2)[..] else {
        unreachable!()
    };
    world.append(alice, bob).await;
    let lease = Duration::from_secs(1);
    let config = RebuildConfig {
        lease_ms: 1_000,
        ..RebuildConfig::default()
    };
    let rebuilder = world.rebuilder_with(&world.store, config);
    let waiting = tokio::spawn(async move { rebuilder.rebuild(&[alice], soon()).await });
    world.begun(alice).await;

    let other = world.connection().await;
    let later = Instant::now() + 3 * lease;
    while Instant::now() < later {
        let begun = other.begin_rebuild(alice, 1_000).await.unwrap();
        assert!(matches!(begun, Begin::Live { .. }), "{begun:?}");
    }
    world
        .contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    waiting.await.unwrap().unwrap();
    assert_eq!(world.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mysql_there_is_no_partial_map() {
    let world = World::new().await;
    let alice = users(1)[0];
    let nobody = MySqlConfig {
        servers: vec![ServerConfig {
            port: 1,
            ..ServerConfig::default()
        }],
        connect_timeout_ms: 100,
        ..MySqlConfig::default()
    };
    let away = MessageStore::connect(&nobody);
    let rebuilder = world.rebuilder_with(&away, RebuildConfig::default());
    let outcome = rebuilder
        .rebuild(&[alice], Instant::now() + Duration::from_secs(2))
        .await;
    assert!(
        matches!(outcome, Err(UnreadRebuildError::Transient(_))),
        "{outcome:?}"
    );
    assert_eq!(world.view(alice).await, UserView::Rebuilding);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_marks_a_rebuild_waits_for_them() {
    let world = World::without_marks().await;
    let [alice, bob] = users(2)[..] else {
        unreachable!()
    };
    world
        .contacts_catch_up(&[row(alice, bob, 2, Some(1), Some(0))])
        .await;
    let rebuilder = world.rebuilder();
    let hasty = Instant::now() + Duration::from_millis(300);
    assert_eq!(
        rebuilder.rebuild(&[alice], hasty).await,
        Err(UnreadRebuildError::TimedOut)
    );

    world.initialise_marks().await;
    rebuilder.rebuild(&[alice], soon()).await.unwrap();
    assert_eq!(world.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_dropped_meanwhile_is_begun_again() {
    let world = World::new().await;
    let [alice, bob] = users(2)[..] else {
        unreachable!()
    };
    world.append(alice, bob).await;
    let rebuilder = world.rebuilder();
    let waiting = tokio::spawn(async move { rebuilder.rebuild(&[alice], soon()).await });
    world.begun(alice).await;

    let mut forget = UserUpdate::new(alice);
    forget.forget = true;
    let mut writer = world.connection().await;
    let generation = writer.read_marks().await.unwrap().generation().unwrap();
    let outcome = writer
        .apply_batch(generation, &[forget], &[])
        .await
        .unwrap();
    assert_eq!(outcome.absent, [alice]);

    world
        .contacts_catch_up(&[row(alice, bob, 4, None, Some(1))])
        .await;
    waiting.await.unwrap().unwrap();
    let (pc, mobile) = world.unread(alice).await;
    // The rows do not know what was read on pc, and nobody guesses.
    assert!(pc.is_empty());
    assert_eq!(mobile, BTreeMap::from([(bob, 3)]));
}

use std::{collections::BTreeMap, time::Duration};

use schemas::UserId;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use unread_rebuild::RebuildQueue;
use unread_store::{UserUpdate, UserView};

use crate::test_env::{PATIENCE, TestEnv, row, users};

/// Works on the queue until the guard is dropped.
fn run(env: &TestEnv, queue: &RebuildQueue) -> (JoinHandle<()>, DropGuard) {
    let (queue, soft) = (queue.clone(), CancellationToken::new());
    let (rebuilder, unread) = (env.rebuilder(), env.unread.clone());
    let guard = soft.clone().drop_guard();
    let running = tokio::spawn(async move { queue.run(rebuilder, unread, soft).await });
    (running, guard)
}

#[tokio::test(flavor = "multi_thread")]
async fn users_requested_by_a_former_process_are_rebuilt() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    env.append(alice, bob).await;
    env.contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    let mut former = env.connection().await;
    let generation = former.read_positions().await.unwrap().generation().unwrap();
    let mut update = UserUpdate::new(alice);
    update.message(bob, 1.try_into().unwrap());
    former
        .apply_batch(generation, &[update], &[])
        .await
        .unwrap();
    assert_eq!(former.rebuild_requests(100).await.unwrap(), [alice]);
    assert_eq!(env.view(alice).await, UserView::Absent);

    let (running, guard) = run(&env, &RebuildQueue::new());
    let deadline = Instant::now() + PATIENCE;
    while !former.rebuild_requests(100).await.unwrap().is_empty() {
        assert!(Instant::now() < deadline, "still requested");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
    drop(guard);
    running.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_a_database_that_lags_hold_up_nobody() {
    let env = TestEnv::new().await;
    let [any, peer] = users();
    // Tables 0 to 31 are in the first database, the others in the second.
    let of_table = |n: i64, k: i64| UserId::try_from((any.get() * 1_000 + k) * 64 + n).unwrap();
    let lagging = (1..=4).map(|k| of_table(k, k));
    let healthy = of_table(32, 0);
    env.append(any, peer).await;
    let rows = [row(healthy, peer, 2, Some(0), Some(0))];
    env.database_catches_up(env.shard_of(healthy), &rows).await;

    let queue = RebuildQueue::new();
    let (_running, _guard) = run(&env, &queue);
    for uid in lagging.clone() {
        queue.push(&[uid]);
        env.begun(uid).await;
    }
    queue.push(&[healthy]);
    // Their rebuilds are given up after 30 s.
    let deadline = Instant::now() + Duration::from_secs(15);
    while !matches!(env.view(healthy).await, UserView::Complete(_)) {
        assert!(Instant::now() < deadline, "it waits for users of another");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(env.unread(healthy).await.0, BTreeMap::from([(peer, 2)]));
    for uid in lagging {
        assert_eq!(env.view(uid).await, UserView::Rebuilding, "{uid}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_the_other_slots_are_read_as_often_while_one_is_away() {
    let env = TestEnv::in_cluster().await;
    let slot: i64 = env.redis.command(&["CLUSTER", "KEYSLOT", "{7}"]).await;
    let away = ["CLUSTER", "DELSLOTS", &slot.to_string()];
    env.redis.command::<()>(&away).await;
    let (_running, _guard) = run(&env, &RebuildQueue::new());
    // Every second: the sixth would come after a minute if the pauses were doubled.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats: String = env.redis.command(&["INFO", "commandstats"]).await;
        let reads = stats.split("cmdstat_srandmember:calls=").nth(1);
        let reads = reads.and_then(|reads| reads.split(',').next());
        if reads.map_or(0, |reads| reads.parse().unwrap()) >= 6 * 63 {
            return;
        }
        assert!(Instant::now() < deadline, "read {reads:?} times");
        sleep(Duration::from_millis(50)).await;
    }
}

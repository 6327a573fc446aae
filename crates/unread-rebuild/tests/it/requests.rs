use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use unread_rebuild::RebuildQueue;
use unread_store::{UserUpdate, UserView};

use crate::test_env::{PATIENCE, TestEnv, row, users};

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

    let (queue, soft) = (RebuildQueue::new(), CancellationToken::new());
    let (rebuilder, unread) = (env.rebuilder(), env.unread.clone());
    let running = tokio::spawn({
        let soft = soft.clone();
        async move { queue.run(rebuilder, unread, soft).await }
    });
    let deadline = Instant::now() + PATIENCE;
    while !former.rebuild_requests(100).await.unwrap().is_empty() {
        assert!(Instant::now() < deadline, "still requested");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
    soft.cancel();
    running.await.unwrap();
}

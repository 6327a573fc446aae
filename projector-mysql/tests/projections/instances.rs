//! More than one process on the same groups.

use crate::test_env::{Doomed, TestEnv};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_change_hands_without_a_trace() {
    let mut env = TestEnv::new().await;
    let first = env.start().await;
    first.ready().await;
    env.log.chatter(11, 100).await;
    let second = env.start().await;
    env.log.chatter(12, 100).await;
    second.ready().await;
    env.log.chatter(13, 100).await;
    first.stop().await;
    env.log.chatter(14, 100).await;
    env.assert_exact().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_is_followed_by_another() {
    let mut env = TestEnv::new().await;
    let first = Doomed::start(env.config.clone());
    let second = env.start().await;
    second.ready().await;
    env.log.chatter(15, 100).await;
    first.kill();
    env.log.chatter(16, 100).await;
    env.assert_exact().await;
    second.stop().await;
}

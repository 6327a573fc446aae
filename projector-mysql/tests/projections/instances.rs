//! More than one process on the same groups.

use crate::world::{Doomed, World};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_change_hands_without_a_trace() {
    let mut world = World::new().await;
    let first = world.start().await;
    first.ready().await;
    world.log.chatter(11, 100).await;
    let second = world.start().await;
    world.log.chatter(12, 100).await;
    second.ready().await;
    world.log.chatter(13, 100).await;
    first.stop().await;
    world.log.chatter(14, 100).await;
    world.assert_exact().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_dies_is_followed_by_another() {
    let mut world = World::new().await;
    let first = Doomed::start(world.config.clone());
    let second = world.start().await;
    second.ready().await;
    world.log.chatter(15, 100).await;
    first.kill();
    world.log.chatter(16, 100).await;
    world.assert_exact().await;
    second.stop().await;
}

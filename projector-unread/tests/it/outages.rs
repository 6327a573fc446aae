use std::time::Duration;

use schemas::{DeviceClass, UserId};
use tokio::time::{Instant, sleep};

use crate::world::{PATIENCE, Service, World, users};

/// Some traffic between all of them, with some of it read.
async fn traffic(world: &mut World, users: &[UserId]) {
    for (i, uid) in users.iter().enumerate() {
        for peer in &users[..i] {
            world.story.message(*peer, *uid).await;
            world.story.message(*uid, *peer).await;
        }
        world.story.message(*uid, *uid).await;
        if let Some(peer) = users[..i].last() {
            world.story.read_all(*uid, *peer, DeviceClass::Mobile).await;
        }
    }
}

async fn becomes(service: &Service, gate: &str, open: bool) {
    let deadline = Instant::now() + PATIENCE;
    while service.is_open(gate) != open {
        assert!(Instant::now() < deadline, "{gate} stays as it is");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flushall_in_the_middle_and_the_next_read_is_exact() {
    let mut world = World::new().await;
    let projector = world.project().await;
    let users = users(5);
    traffic(&mut world, &users).await;
    world.assert_exact(&users).await;

    // While events are being applied.
    traffic(&mut world, &users).await;
    let _: String = world.command(&["FLUSHALL"]).await;
    traffic(&mut world, &users).await;
    world.assert_exact(&users).await;

    // While nothing comes at all.
    let _: String = world.command(&["FLUSHALL"]).await;
    world.assert_exact(&users).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn script_flush_is_not_noticed() {
    let mut world = World::new().await;
    let projector = world.project().await;
    let users = users(4);
    for _ in 0..3 {
        traffic(&mut world, &users).await;
        let _: String = world.command(&["SCRIPT", "FLUSH"]).await;
        traffic(&mut world, &users).await;
        world.assert_exact(&users).await;
    }
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_was_killed_is_gone_on_with() {
    let mut world = World::new().await;
    let projector = world.project().await;
    let users = users(4);
    traffic(&mut world, &users).await;
    world.assert_exact(&users).await;

    world.redis.kill();
    traffic(&mut world, &users).await;
    becomes(&projector, "projector-unread.redis", false).await;
    world.redis.restart();
    becomes(&projector, "projector-unread.redis", true).await;
    world.assert_exact(&users).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_comes_back_older_is_healed() {
    let mut world = World::new().await;
    let projector = world.project().await;
    let users = users(4);
    traffic(&mut world, &users).await;
    world.assert_exact(&users).await;
    let length = world.redis.log_length();

    traffic(&mut world, &users).await;
    world.applied().await;
    world.redis.kill();
    assert!(world.redis.log_length() > length);
    world.redis.cut_log(length);
    world.redis.restart();
    // No new event comes: it is the look at the marks that notices.
    world.assert_exact(&users).await;
    for uid in &users {
        world.shows(DeviceClass::Pc, *uid).await;
    }
    projector.stop().await;
}

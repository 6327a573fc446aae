use std::time::Duration;

use schemas::{DeviceClass, DirectConversation, UserId};
use tokio::time::{Instant, sleep};

use crate::test_env::{PATIENCE, Service, TestEnv, users};

/// Some traffic between all of them, with some of it read.
pub async fn traffic(env: &mut TestEnv, users: &[UserId]) {
    for (i, uid) in users.iter().enumerate() {
        for peer in &users[..i] {
            env.story.message(*peer, *uid).await;
            env.story.message(*uid, *peer).await;
        }
        env.story.message(*uid, *uid).await;
        if let Some(peer) = users[..i].last() {
            env.story.read_all(*uid, *peer, DeviceClass::Mobile).await;
        }
    }
}

pub async fn becomes(service: &Service, gate: &str, open: bool) {
    let deadline = Instant::now() + PATIENCE;
    while service.is_open(gate) != open {
        assert!(Instant::now() < deadline, "{gate} stays as it is");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flushall_in_the_middle_and_the_next_read_is_exact() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let users = users(5);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;

    // While events are being applied.
    traffic(&mut env, &users).await;
    let _: String = env.command(&["FLUSHALL"]).await;
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;

    // While nothing comes at all.
    let _: String = env.command(&["FLUSHALL"]).await;
    env.assert_exact(&users).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn script_flush_is_not_noticed() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let users = users(4);
    for _ in 0..3 {
        traffic(&mut env, &users).await;
        let _: String = env.command(&["SCRIPT", "FLUSH"]).await;
        traffic(&mut env, &users).await;
        env.assert_exact(&users).await;
    }
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_was_killed_is_gone_on_with() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let users = users(4);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;

    env.redis.kill();
    traffic(&mut env, &users).await;
    becomes(&projector, "projector-unread.redis", false).await;
    // The projection waits, whatever it waits for.
    becomes(&projector, "projector-unread.unread", false).await;
    env.redis.restart();
    becomes(&projector, "projector-unread.redis", true).await;
    env.assert_exact(&users).await;
    projector.stop().await;
}

/// It answers reads, so a look at the positions succeeds all the time: that says nothing of writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_full_is_named_until_it_takes_writes() {
    const GATE: &str = "projector-unread.redis";
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let users = users(4);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;

    let limit = async |env: &TestEnv, bytes| {
        let _: String = env.command(&["CONFIG", "SET", "maxmemory", bytes]).await;
    };
    limit(&env, "1").await;
    traffic(&mut env, &users).await;
    becomes(&projector, GATE, false).await;
    let refused = Instant::now();
    while refused.elapsed() < Duration::from_secs(2) {
        let reason = projector.reason(GATE).unwrap_or_default();
        assert!(reason.contains("maxmemory"), "{reason}");
        tokio::task::yield_now().await;
    }
    limit(&env, "0").await;
    becomes(&projector, GATE, true).await;
    env.assert_exact(&users).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_comes_back_older_is_healed() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let users = users(4);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;
    let length = env.redis.log_length();

    traffic(&mut env, &users).await;
    env.applied().await;
    env.redis.kill();
    assert!(env.redis.log_length() > length);
    env.redis.cut_log(length);
    env.redis.restart();
    // No new event comes: it is the look at the watermarks that notices.
    env.assert_exact(&users).await;
    for uid in &users {
        env.shows(DeviceClass::Pc, *uid).await;
    }
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_cannot_be_written_closes_the_gate() {
    let mut env = TestEnv::new().await;
    env.delete_dead_letters().await;
    let projector = env.project().await;
    env.story.malformed_record().await;
    becomes(&projector, "projector-unread.unread", false).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watermark_that_is_lost_while_nobody_remembers_it_has_its_partition_read_again() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let users = users(4);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;
    projector.stop().await;

    let partition = DirectConversation::new(users[0], users[1]).partition();
    let lost = format!("tidemark:mark:{partition}");
    assert_eq!(env.command::<i64>(&["DEL", &lost]).await, 1);
    traffic(&mut env, &users).await;
    let projector = env.project().await;
    for uid in &users {
        for device in DeviceClass::ALL {
            env.shows(device, *uid).await;
        }
    }
    projector.stop().await;
}

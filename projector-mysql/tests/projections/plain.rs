//! Nothing is broken but this service itself.

use std::ops::ControlFlow;

use event_log::LogReader;
use schemas::{Partition, TimestampMs, dead_letter, topics::Topic};

use crate::test_env::{Doomed, TestEnv};

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_the_fold_of_the_log() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    service.ready().await;
    env.log.chatter(1, 400).await;
    env.assert_exact().await;
    // Both users are of one table: the offset advances in the other database, too, which has no row of this one.
    env.log.send(1000, 1064, "in one database").await;
    env.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_where_each_database_stands() {
    let mut env = TestEnv::new().await;
    for round in 0..4 {
        let service = Doomed::start(env.config.clone());
        env.log.chatter(round, 120).await;
        service.kill();
    }
    let service = env.start().await;
    env.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_owners_repeats_change_nothing() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    env.log.chatter(5, 150).await;
    env.log.repeat(20).await;
    env.log.chatter(6, 50).await;
    env.assert_exact().await;
    service.stop().await;
    // Also for one that begins among the repeats.
    env.log.repeat(5).await;
    let service = env.start().await;
    env.log.chatter(7, 50).await;
    env.assert_exact().await;
    service.stop().await;
}

/// As where the broker that leads a partition of `chat.inbound` has a wrong clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_far_month_holds_up_nobody() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    service.ready().await;
    for days in [100, 80 * 365] {
        env.log.move_clock(days);
        env.log.send(1, 2, "ahead").await;
        env.log.move_clock(-days);
        // Of the same database, by the same writer.
        env.log.send(1, 4, "on time").await;
        env.assert_exact().await;
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_event_goes_to_the_dead_letters() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    env.log.send(1, 2, "before").await;
    let partition: Partition = 3.try_into().unwrap();
    let offset = env.log.put(partition, b"junk", TimestampMs(0)).await;
    env.log.send(1, 2, "after").await;
    env.assert_exact().await;

    let reader = LogReader::new(&env.config.kafka).unwrap();
    let bounds = reader.bounds(Topic::DeadLetters, &[partition]).unwrap()[partition];
    let mut letters = Vec::new();
    let all = [(partition, bounds.start..bounds.end)];
    reader
        .scan(Topic::DeadLetters, &all, |record| {
            letters.push(record);
            ControlFlow::Continue(())
        })
        .unwrap();
    // One from each of the three projections.
    assert_eq!(letters.len(), 3);
    for letter in letters {
        assert_eq!(letter.bytes(), b"junk");
        assert_eq!(
            letter.header(dead_letter::HEADER_OFFSET),
            Some(offset.to_string().as_str())
        );
    }
    service.stop().await;
}

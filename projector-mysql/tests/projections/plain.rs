//! Nothing is broken but this service itself.

use std::ops::ControlFlow;

use event_log::LogReader;
use schemas::{Partition, TimestampMs, dead_letter, topics::Topic};

use crate::world::{Doomed, World};

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_the_fold_of_the_log() {
    let mut world = World::new().await;
    let service = world.start().await;
    service.ready().await;
    world.log.chatter(1, 400).await;
    world.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_where_each_database_stands() {
    let mut world = World::new().await;
    for round in 0..4 {
        let service = Doomed::start(world.config.clone());
        world.log.chatter(round, 120).await;
        service.kill();
    }
    let service = world.start().await;
    world.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_owners_repeats_change_nothing() {
    let mut world = World::new().await;
    let service = world.start().await;
    world.log.chatter(5, 150).await;
    world.log.repeat(20).await;
    world.log.chatter(6, 50).await;
    world.assert_exact().await;
    service.stop().await;
    // Also for one that begins among the repeats.
    world.log.repeat(5).await;
    let service = world.start().await;
    world.log.chatter(7, 50).await;
    world.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_event_goes_to_the_dead_letters() {
    let mut world = World::new().await;
    let service = world.start().await;
    world.log.send(1, 2, "before").await;
    let partition: Partition = 3.try_into().unwrap();
    let offset = world.log.put(partition, b"junk", TimestampMs(0)).await;
    world.log.send(1, 2, "after").await;
    world.assert_exact().await;

    let reader = LogReader::new(&world.config.kafka).unwrap();
    let bounds = reader.bounds(Topic::DeadLetters, &[partition]).unwrap()[&partition];
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

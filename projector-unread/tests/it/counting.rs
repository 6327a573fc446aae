use std::collections::BTreeMap;

use schemas::{DeviceClass, UserId};

use crate::world::{World, users};

#[tokio::test(flavor = "multi_thread")]
async fn the_story_of_1000_and_1001() {
    let mut world = World::new().await;
    let projector = world.project().await;
    let alice = UserId::try_from(1000).unwrap();
    let bob = UserId::try_from(1001).unwrap();

    for sent in 1..=3 {
        world.story.message(bob, alice).await;
        world.shows(DeviceClass::Pc, alice).await;
        world.shows(DeviceClass::Mobile, alice).await;
        let pc = world.raw(DeviceClass::Pc, alice).await;
        assert_eq!(pc, BTreeMap::from([(bob, sent)]));
    }
    world.story.read_all(alice, bob, DeviceClass::Mobile).await;
    world.shows(DeviceClass::Mobile, alice).await;
    assert!(world.raw(DeviceClass::Mobile, alice).await.is_empty());
    assert_eq!(
        world.raw(DeviceClass::Pc, alice).await,
        BTreeMap::from([(bob, 3)])
    );
    // Nobody ever wrote to 1001.
    world.assert_exact(&[alice, bob]).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_where_the_marks_are() {
    let mut world = World::new().await;
    let users = users(4);
    let projector = world.project().await;
    for uid in &users {
        world.story.message(users[0], *uid).await;
    }
    world.applied().await;
    projector.stop().await;

    // While nobody applies anything.
    for uid in &users {
        world.story.message(users[1], *uid).await;
        world.story.message(users[0], *uid).await;
    }
    world
        .story
        .read_all(users[2], users[0], DeviceClass::Pc)
        .await;
    let projector = world.project().await;
    world.assert_exact(&users).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_projectors_share_the_partitions() {
    let mut world = World::new().await;
    let users = users(8);
    let first = world.project().await;
    let second = world.project().await;
    for (i, uid) in users.iter().enumerate() {
        for peer in &users[..i] {
            world.story.message(*peer, *uid).await;
            world.story.message(*uid, *peer).await;
        }
    }
    world.assert_exact(&users).await;
    first.stop().await;
    for uid in &users[1..] {
        world.story.message(users[0], *uid).await;
        world
            .story
            .read_all(*uid, users[0], DeviceClass::Mobile)
            .await;
    }
    world.assert_exact(&users).await;
    second.stop().await;
}

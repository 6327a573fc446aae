use std::collections::BTreeMap;

use schemas::{Change, DeviceClass, UserId};

use crate::test_env::{TestEnv, users};

#[tokio::test(flavor = "multi_thread")]
async fn the_story_of_1000_and_1001() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let alice = UserId::try_from(1000).unwrap();
    let bob = UserId::try_from(1001).unwrap();

    for sent in 1..=3 {
        env.story.message(bob, alice).await;
        env.shows(DeviceClass::Pc, alice).await;
        env.shows(DeviceClass::Mobile, alice).await;
        let pc = env.raw(DeviceClass::Pc, alice).await;
        assert_eq!(pc, BTreeMap::from([(bob, sent)]));
    }
    env.story.read_all(alice, bob, DeviceClass::Mobile).await;
    env.shows(DeviceClass::Mobile, alice).await;
    assert!(env.raw(DeviceClass::Mobile, alice).await.is_empty());
    assert_eq!(
        env.raw(DeviceClass::Pc, alice).await,
        BTreeMap::from([(bob, 3)])
    );
    // Nobody ever wrote to 1001.
    env.assert_exact(&[alice, bob]).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cleared_history_and_a_deleted_contact_are_read_on_both_classes() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let [alice, bob, carol] = users(3)[..] else {
        unreachable!()
    };
    for _ in 0..3 {
        env.story.message(bob, alice).await;
        env.story.message(carol, alice).await;
    }
    env.story.read_all(alice, bob, DeviceClass::Pc).await;
    env.story.message(bob, alice).await;
    // The recalled message stays unread.
    env.story.change(bob, alice, Change::Recall).await;
    env.story.change(alice, bob, Change::Hide).await;
    env.shows(DeviceClass::Pc, alice).await;
    assert_eq!(env.story.unread(alice, DeviceClass::Pc)[&bob], 1);

    env.story.change(alice, bob, Change::Clear).await;
    env.story.delete_contact(alice, carol).await;
    for device in DeviceClass::ALL {
        env.shows(device, alice).await;
        assert!(env.raw(device, alice).await.is_empty());
    }
    env.story.message(carol, alice).await;
    env.assert_exact(&[alice, bob, carol]).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_continues_from_the_positions() {
    let mut env = TestEnv::new().await;
    let users = users(4);
    let projector = env.project().await;
    for uid in &users {
        env.story.message(users[0], *uid).await;
    }
    env.applied().await;
    projector.stop().await;

    // While nobody applies anything.
    for uid in &users {
        env.story.message(users[1], *uid).await;
        env.story.message(users[0], *uid).await;
    }
    env.story
        .read_all(users[2], users[0], DeviceClass::Pc)
        .await;
    let projector = env.project().await;
    env.assert_exact(&users).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_projectors_share_the_partitions() {
    let mut env = TestEnv::new().await;
    let users = users(8);
    let first = env.project().await;
    let second = env.project().await;
    for (i, uid) in users.iter().enumerate() {
        for peer in &users[..i] {
            env.story.message(*peer, *uid).await;
            env.story.message(*uid, *peer).await;
        }
    }
    env.assert_exact(&users).await;
    first.stop().await;
    for uid in &users[1..] {
        env.story.message(users[0], *uid).await;
        env.story
            .read_all(*uid, users[0], DeviceClass::Mobile)
            .await;
    }
    env.assert_exact(&users).await;
    second.stop().await;
}

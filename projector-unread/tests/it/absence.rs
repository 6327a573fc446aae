use std::time::Duration;

use schemas::{DeviceClass, UserId};
use tokio::time::{Instant, sleep};
use unread_store::{Expiry, UserView};

use crate::test_env::{PATIENCE, TestEnv, users};

/// Lets a user's keys expire at once.
async fn expire(env: &TestEnv, uid: UserId) {
    for kind in ["state", "pc", "mobile"] {
        let _: i64 = env
            .command(&["PEXPIRE", &format!("{kind}-{uid}"), "0"])
            .await;
    }
}

async fn is_complete(env: &TestEnv, uid: UserId) -> bool {
    let view = env.connection().await.read_user(uid, Expiry::Keep).await;
    matches!(view.unwrap(), UserView::Complete(_))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_for_an_expired_user_has_it_rebuilt_and_nothing_is_lost_between() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let [alice, bob, carol] = users(3)[..] else {
        unreachable!()
    };
    for _ in 0..5 {
        env.story.message(bob, alice).await;
    }
    env.story.read_all(alice, bob, DeviceClass::Mobile).await;
    env.shows(DeviceClass::Pc, alice).await;

    for _ in 0..3 {
        env.applied().await;
        expire(&env, alice).await;
        assert!(!is_complete(&env, alice).await);
        // The first finds the key gone, the others come while it is being rebuilt.
        let deadline = Instant::now() + PATIENCE;
        while !is_complete(&env, alice).await {
            assert!(Instant::now() < deadline, "alice is not rebuilt");
            env.story.message(carol, alice).await;
            env.story.message(bob, alice).await;
            sleep(Duration::from_millis(10)).await;
        }
        env.shows(DeviceClass::Pc, alice).await;
        env.shows(DeviceClass::Mobile, alice).await;
    }
    assert!(
        env.connection()
            .await
            .rebuild_requests(10)
            .await
            .unwrap()
            .is_empty()
    );
    env.assert_exact(&[alice, bob, carol]).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_without_ordinal_is_looked_up_by_way_of_the_contact_rows() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let [alice, bob, carol] = users(3)[..] else {
        unreachable!()
    };
    for _ in 0..4 {
        env.story.message(bob, alice).await;
        env.story.message(alice, bob).await;
    }
    env.story.message(carol, alice).await;
    env.shows(DeviceClass::Pc, alice).await;

    let story = &mut env.story;
    story
        .read_all_without_ordinal(alice, bob, DeviceClass::Pc)
        .await;
    story.message(bob, alice).await;
    // Without a read: the event alone has it rebuilt.
    env.shows(DeviceClass::Pc, alice).await;
    env.shows(DeviceClass::Mobile, alice).await;
    env.assert_exact(&[alice, bob, carol]).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_and_an_event_rebuild_the_same_user_at_once() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let users = users(6);
    let (sender, receivers) = users.split_first().unwrap();
    for _ in 0..2 {
        for uid in receivers {
            env.story.message(*sender, *uid).await;
        }
        env.assert_exact(receivers).await;
        for uid in receivers {
            expire(&env, *uid).await;
        }
        for uid in receivers {
            env.story.message(*sender, *uid).await;
            env.story.read_all(*uid, *sender, DeviceClass::Pc).await;
        }
        env.assert_exact(receivers).await;
    }
    projector.stop().await;
}

//! Profiles in Redis, which follow the log whoever has asked for them.

use schemas::{Profile, UserId};

use crate::test_env::{TestEnv, users};

async fn nick(env: &TestEnv, uid: UserId) -> Option<String> {
    let slots = env.reader.store();
    let connection = env.reader.get(slots.index_of(uid)).await.unwrap();
    let read = connection.read_profiles(&[uid]).await.unwrap();
    let found = read.profiles.get(&uid)?;
    Some(found.profile.nick.clone())
}

async fn set(env: &mut TestEnv, uid: UserId, nick: &str) {
    let profile = Profile {
        uid,
        nick: nick.to_owned(),
        avatar: None,
        extra: Some("{}".to_owned()),
    };
    env.story.profile(profile).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_cached_before_its_position_is_passed() {
    let mut env = TestEnv::new().await;
    let projector = env.project().await;
    let [alice, bob] = users(2)[..] else {
        unreachable!()
    };
    for i in 0..5 {
        set(&mut env, alice, &format!("Alice {i}")).await;
        env.applied().await;
        assert_eq!(nick(&env, alice).await.unwrap(), format!("Alice {i}"));
    }
    assert_eq!(nick(&env, bob).await, None);
    // Those of one batch.
    projector.stop().await;
    for i in 0..5 {
        set(&mut env, bob, &format!("Bob {i}")).await;
    }
    let projector = env.project().await;
    env.applied().await;
    assert_eq!(nick(&env, bob).await.unwrap(), "Bob 4");
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_it_is_in_the_slot_of_its_user() {
    let mut env = TestEnv::in_cluster().await;
    let projector = env.project().await;
    let all = users(3);
    for uid in &all {
        set(&mut env, *uid, &format!("nick of {uid}")).await;
    }
    env.applied().await;
    for uid in &all {
        assert_eq!(nick(&env, *uid).await.unwrap(), format!("nick of {uid}"));
    }
    projector.stop().await;
}

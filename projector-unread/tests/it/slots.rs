//! One of the 64 slots of a cluster is away, older or empty; the others are as they were.

use std::time::Duration;

use schemas::{DeviceClass, UserId};
use tokio::time::{Instant, sleep};

use crate::{
    outages::{becomes, traffic},
    test_env::{PATIENCE, TestEnv, users},
};

/// Copies keys within their slot, all at once: pairs of names.
const COPY: &str = "for i = 1, #KEYS, 2 do redis.call('COPY', KEYS[i], KEYS[i + 1], 'REPLACE') end";
const DELETE: &str = "for _, key in ipairs(KEYS) do redis.call('DEL', key) end";

/// The hash tag of a user's keys.
fn tag(uid: UserId) -> String {
    format!("{{{}}}", uid.get() % 64)
}

async fn keyslot(env: &TestEnv, tag: &str) -> String {
    let slot: i64 = env.command(&["CLUSTER", "KEYSLOT", tag]).await;
    slot.to_string()
}

async fn keys(env: &TestEnv, tag: &str) -> Vec<String> {
    env.command(&["KEYS", &format!("{tag}*")]).await
}

async fn run(env: &TestEnv, script: &str, keys: &[String]) {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys.iter().map(String::as_str));
    env.command::<()>(&words).await;
}

/// Waits until all raw views of these users are exact.
async fn all_show(env: &TestEnv, users: &[UserId]) {
    for uid in users {
        for device in DeviceClass::ALL {
            env.shows(device, *uid).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_comes_back_older_is_healed() {
    let mut env = TestEnv::in_cluster().await;
    let projector = env.project().await;
    let users = users(4);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;
    let stored = keys(&env, &tag(users[0])).await;
    let copies: Vec<[String; 2]> = stored
        .into_iter()
        .map(|key| [key.clone(), format!("{key}~older")])
        .collect();
    run(&env, COPY, &copies.concat()).await;

    traffic(&mut env, &users).await;
    env.applied().await;
    let back: Vec<String> = copies
        .into_iter()
        .flat_map(|[key, copy]| [copy, key])
        .collect();
    run(&env, COPY, &back).await;
    // No new event comes: it is the look at the watermarks that notices.
    env.applied().await;
    all_show(&env, &users).await;
    env.assert_exact(&users).await;
    projector.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_slots_go_on_while_one_is_away() {
    let mut env = TestEnv::in_cluster().await;
    let projector = env.project().await;
    let users = users(4);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;

    let slot = keyslot(&env, &tag(users[0])).await;
    env.command::<()>(&["CLUSTER", "DELSLOTS", &slot]).await;
    traffic(&mut env, &users).await;
    all_show(&env, &users[1..]).await;
    becomes(&projector, "projector-unread.redis", false).await;
    traffic(&mut env, &users).await;
    all_show(&env, &users[1..]).await;

    env.command::<()>(&["CLUSTER", "ADDSLOTS", &slot]).await;
    becomes(&projector, "projector-unread.redis", true).await;
    all_show(&env, &users).await;
    env.assert_exact(&users).await;
    projector.stop().await;
}

/// In every partition.
async fn message_of_each(env: &mut TestEnv, senders: &[UserId], reader: UserId) {
    for sender in senders {
        env.story.message(*sender, reader).await;
    }
}

/// A projector that gets further partitions has found the slot to be readable, and reads its own ones again as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_returns_gets_what_it_lacks_in_all_partitions() {
    let mut env = TestEnv::in_cluster().await;
    // Long enough for the other one to end, before it is looked at again.
    let stays = env.project_and_verify_every(10_000).await;
    let ends = env.project_and_verify_every(10_000).await;
    let reader = users(1)[0];
    let senders: Vec<UserId> = (1..=64)
        .map(|n| UserId::try_from(reader.get() + 64_000 + n).unwrap())
        .collect();
    message_of_each(&mut env, &senders, reader).await;
    env.assert_exact(&[reader]).await;

    let slot = keyslot(&env, &tag(reader)).await;
    env.command::<()>(&["CLUSTER", "DELSLOTS", &slot]).await;
    message_of_each(&mut env, &senders, reader).await;
    becomes(&stays, "projector-unread.redis", false).await;
    becomes(&ends, "projector-unread.redis", false).await;
    env.command::<()>(&["CLUSTER", "ADDSLOTS", &slot]).await;
    ends.stop().await;
    becomes(&stays, "projector-unread.redis", true).await;
    all_show(&env, &[reader]).await;
    env.assert_exact(&[reader]).await;
    stays.stop().await;
}

/// A projector that gets further partitions while all other slots are away.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_returns_is_taken_back_while_all_others_are_away() {
    let mut env = TestEnv::in_cluster().await;
    // Nothing but the partitions of the other one has it looked at again.
    let stays = env.project_and_verify_every(600_000).await;
    let ends = env.project_and_verify_every(600_000).await;
    let reader = users(1)[0];
    let senders: Vec<UserId> = (1..64)
        .map(|n| UserId::try_from(reader.get() + 64_000 + n).unwrap())
        .collect();
    message_of_each(&mut env, &senders, reader).await;
    env.assert_exact(&[reader]).await;

    let slot = keyslot(&env, &tag(reader)).await;
    let mut others = vec!["CLUSTER".to_owned(), "DELSLOTS".to_owned()];
    for sender in &senders {
        others.push(keyslot(&env, &tag(*sender)).await);
    }
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    env.command::<()>(&["CLUSTER", "DELSLOTS", &slot]).await;
    message_of_each(&mut env, &senders, reader).await;
    becomes(&stays, "projector-unread.redis", false).await;
    becomes(&ends, "projector-unread.redis", false).await;
    for sender in &senders {
        env.story.message(reader, *sender).await;
    }
    // No flush is repeated while all fail.
    all_show(&env, &senders).await;
    env.command::<()>(&others).await;
    ends.stop().await;
    env.command::<()>(&["CLUSTER", "ADDSLOTS", &slot]).await;
    all_show(&env, &[reader]).await;
    stays.stop().await;
}

/// Such a slot is not taken back, to be read again from its position every few seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_refuses_writes_stays_left_out() {
    let mut env = TestEnv::in_cluster().await;
    let projector = env.project().await;
    let users = users(4);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;

    let refusing = tag(users[0]);
    let tags = (0..64).map(|n| format!("{{{n}}}"));
    let patterns = tags.map(|tag| match tag == refusing {
        true => format!("%R~{tag}*"),
        false => format!("~{tag}*"),
    });
    let mut words = vec!["ACL".to_owned(), "SETUSER".to_owned()];
    words.extend(["default", "resetkeys"].map(str::to_owned));
    words.extend(patterns);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    env.command::<()>(&words).await;
    traffic(&mut env, &users).await;
    becomes(&projector, "projector-unread.redis", false).await;
    all_show(&env, &users[1..]).await;
    // It is tried, and remains left out.
    let deadline = Instant::now() + PATIENCE;
    while refused_writes(&env).await < 3 {
        assert!(!projector.is_open("projector-unread.redis"));
        assert!(Instant::now() < deadline, "no write is tried");
        sleep(Duration::from_millis(10)).await;
    }

    let all = ["ACL", "SETUSER", "default", "allkeys"];
    env.command::<()>(&all).await;
    becomes(&projector, "projector-unread.redis", true).await;
    all_show(&env, &users).await;
    env.assert_exact(&users).await;
    projector.stop().await;
}

/// How many `HSET`s outside scripts were refused.
async fn refused_writes(env: &TestEnv) -> u64 {
    let stats: String = env.command(&["INFO", "commandstats"]).await;
    let hset = stats.lines().find(|line| line.starts_with("cmdstat_hset:"));
    let rejected = hset.and_then(|line| line.split("rejected_calls=").nth(1));
    let number = rejected.and_then(|rest| rest.split(',').next());
    number.map_or(0, |number| number.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_was_emptied_begins_a_generation_of_its_own() {
    let mut env = TestEnv::in_cluster().await;
    let projector = env.project().await;
    let users = users(4);
    traffic(&mut env, &users).await;
    env.assert_exact(&users).await;

    let (emptied, other) = (tag(users[0]), tag(users[1]));
    let [emptied_mark, other_mark] = [&emptied, &other].map(|tag| format!("{tag}tidemark:mark:0"));
    let generation =
        async |mark: &str| -> Option<String> { env.command(&["HGET", mark, "generation"]).await };
    let before = (
        generation(&emptied_mark).await,
        generation(&other_mark).await,
    );
    run(&env, DELETE, &keys(&env, &emptied).await).await;
    env.assert_exact(&users).await;
    all_show(&env, &users).await;
    let after = (
        generation(&emptied_mark).await,
        generation(&other_mark).await,
    );
    assert_ne!(after.0, before.0);
    assert_eq!(after.1, before.1);
    projector.stop().await;
}

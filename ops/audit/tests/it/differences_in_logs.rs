//! The log itself is wrong, or does not answer.

use audit::{Area, Kind};
use event_log::Admin;
use schemas::{
    TimestampMs,
    command::Command,
    dead_letter::Reason,
    event::{Body, Message},
    topics::Topic,
};

use crate::test_env::TestEnv;

/// A send whose event is changed before it is appended.
async fn send_changed(env: &mut TestEnv, change: impl FnOnce(&mut Message)) {
    let send = env.story.command(1001, 1000, "changed");
    let cause = env.story.post(Command::Send(send.clone())).await;
    let mut message = env.story.number(&send);
    change(&mut message);
    env.story.tell(cause, Body::Message(message)).await;
    env.catch_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mid_that_comes_twice_is_found() {
    let mut env = TestEnv::with_story().await;
    send_changed(&mut env, |message| message.mid = 7.try_into().unwrap()).await;
    env.assert_finds(
        Area::Events,
        Kind::Different,
        "mid 7 of 1000,1001 follows 7",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mid_that_is_left_out_is_found() {
    let mut env = TestEnv::with_story().await;
    send_changed(&mut env, |message| message.mid = message.mid.next()).await;
    env.assert_finds(
        Area::Events,
        Kind::Different,
        "mid 9 of 1000,1001 follows 7",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_ordinal_is_found() {
    let mut env = TestEnv::with_story().await;
    send_changed(&mut env, |message| message.ordinal = message.ordinal.next()).await;
    env.assert_finds(
        Area::Events,
        Kind::Different,
        "n 5 of 1001 in 1000,1001 follows 3",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_was_not_posted_is_found() {
    let mut env = TestEnv::with_story().await;
    send_changed(&mut env, |message| {
        message.msg = "not what was said".to_owned();
    })
    .await;
    env.assert_finds(
        Area::Inbound,
        Kind::Different,
        "msg is not that of its event",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_without_an_answer_is_found() {
    let mut env = TestEnv::with_story().await;
    let send = env.story.command(1001, 1000, "lost");
    let cause = env.story.post(Command::Send(send)).await;
    env.story.progress(cause).await;
    env.catch_up().await;
    env.assert_finds(Area::Inbound, Kind::Missing, "unanswered")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_a_dead_letter_is_found() {
    let mut env = TestEnv::with_story().await;
    let junk = env.story.post_junk(17.try_into().unwrap()).await;
    env.story.progress(junk).await;
    env.catch_up().await;
    env.assert_finds(Area::Inbound, Kind::Missing, "unanswered")
        .await;
}

/// Retention deleted older dead letters, which is no excuse.
#[tokio::test(flavor = "multi_thread")]
async fn a_recent_refusal_is_missed_where_no_dead_letter_is_left() {
    let env = TestEnv::with_story().await;
    let partition = 17.try_into().unwrap();
    let admin = Admin::new(&env.kafka).unwrap();
    let deleted = admin.delete_before(Topic::DeadLetters, partition, 1);
    deleted.await.unwrap();
    env.assert_finds(Area::Inbound, Kind::Missing, "without a dead letter")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_a_reason_is_found() {
    let mut env = TestEnv::with_story().await;
    let send = Command::Send(env.story.command(1001, 1000, "refused"));
    let cause = env.story.post(send.clone()).await;
    env.story
        .refuse(cause, &send.encode(), Reason::TooLarge)
        .await;
    env.story.progress(cause).await;
    env.catch_up().await;
    env.assert_finds(
        Area::Inbound,
        Kind::Extra,
        "refused (too-large) without a reason in the log",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_reason_before_the_right_one_is_found() {
    let mut env = TestEnv::with_story().await;
    let junk = env.story.post_junk(17.try_into().unwrap()).await;
    for reason in [Reason::TooLarge, Reason::Malformed] {
        env.story.refuse(junk, b"junk", reason).await;
    }
    env.story.progress(junk).await;
    env.catch_up().await;
    env.assert_finds(
        Area::Inbound,
        Kind::Different,
        "refused (too-large), malformed is right",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_is_sequenced_twice_is_found() {
    let mut env = TestEnv::with_story().await;
    let send = env.story.send(40, 7, "once").await;
    let cause = env.story.post(Command::Send(send.clone())).await;
    let message = env.story.number(&send);
    env.story.tell(cause, Body::Message(message)).await;
    env.catch_up().await;
    env.assert_finds(
        Area::Events,
        Kind::Extra,
        "sequenced again within the window",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_falls_is_found() {
    let mut env = TestEnv::with_story().await;
    let ahead = TimestampMs(env.story.events[0].event.ts.0 + 3_600_000);
    let send = env.story.command(40, 7, "by a clock that is ahead");
    let cause = env.story.post(Command::Send(send.clone())).await;
    let message = env.story.number(&send);
    env.story
        .tell_at(cause, ahead, Body::Message(message))
        .await;
    env.story.send(40, 7, "by one that is right again").await;
    env.catch_up().await;
    env.assert_finds(Area::Events, Kind::Different, "time falls")
        .await;
}

//! The log itself is wrong, or does not answer.

use audit::{Area, Kind};
use schemas::{
    TimestampMs,
    command::Command,
    event::{Body, Message},
};

use crate::world::World;

/// A send whose event is changed before it is told.
async fn send_changed(world: &mut World, change: impl FnOnce(&mut Message)) {
    let send = world.story.command(1001, 1000, "changed");
    let cause = world.story.post(Command::Send(send.clone())).await;
    let mut message = world.story.number(&send);
    change(&mut message);
    world.story.tell(cause, Body::Message(message)).await;
    world.catch_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mid_that_comes_twice_is_found() {
    let mut world = World::with_story().await;
    send_changed(&mut world, |message| message.mid = 7.try_into().unwrap()).await;
    world
        .assert_finds(
            Area::Events,
            Kind::Different,
            "mid 7 of 1000,1001 follows 7",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mid_that_is_left_out_is_found() {
    let mut world = World::with_story().await;
    send_changed(&mut world, |message| message.mid = message.mid.next()).await;
    world
        .assert_finds(
            Area::Events,
            Kind::Different,
            "mid 9 of 1000,1001 follows 7",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_ordinal_is_found() {
    let mut world = World::with_story().await;
    send_changed(&mut world, |message| message.n = message.n.next()).await;
    world
        .assert_finds(
            Area::Events,
            Kind::Different,
            "n 5 of 1001 in 1000,1001 follows 3",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_was_not_posted_is_found() {
    let mut world = World::with_story().await;
    send_changed(&mut world, |message| {
        message.msg = "not what was said".to_owned();
    })
    .await;
    world
        .assert_finds(
            Area::Inbound,
            Kind::Different,
            "msg is not that of its event",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_without_an_answer_is_found() {
    let mut world = World::with_story().await;
    let send = world.story.command(1001, 1000, "lost");
    let cause = world.story.post(Command::Send(send)).await;
    world.story.progress(cause).await;
    world.catch_up().await;
    world
        .assert_finds(Area::Inbound, Kind::Missing, "unanswered")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_a_dead_letter_is_found() {
    let mut world = World::with_story().await;
    let junk = world.story.post_junk(17.try_into().unwrap(), false).await;
    world.story.progress(junk).await;
    world.catch_up().await;
    world
        .assert_finds(Area::Inbound, Kind::Missing, "unanswered")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_is_sequenced_twice_is_found() {
    let mut world = World::with_story().await;
    let send = world.story.send(40, 7, "once").await;
    let cause = world.story.post(Command::Send(send.clone())).await;
    let message = world.story.number(&send);
    world.story.tell(cause, Body::Message(message)).await;
    world.catch_up().await;
    world
        .assert_finds(
            Area::Events,
            Kind::Extra,
            "sequenced again within the window",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_falls_is_found() {
    let mut world = World::with_story().await;
    let ahead = TimestampMs(world.story.events[0].event.ts.0 + 3_600_000);
    let send = world.story.command(40, 7, "by a clock that is ahead");
    let cause = world.story.post(Command::Send(send.clone())).await;
    let message = world.story.number(&send);
    world
        .story
        .tell_at(cause, ahead, Body::Message(message))
        .await;
    world.story.send(40, 7, "by one that is right again").await;
    world.catch_up().await;
    world
        .assert_finds(Area::Events, Kind::Different, "time falls")
        .await;
}

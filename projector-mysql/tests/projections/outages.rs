//! Servers that die, come back, and come back older than they were.

use std::{fs, path::Path, process::Command};

use message_store::Sink;
use native_stack::FreshServers;
use schemas::{DeviceClass, topics::Topic};

use crate::world::{Doomed, World};

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status()
        .unwrap();
    assert!(copied.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_the_middle_is_made_exact_again() {
    let servers = FreshServers::start().unwrap();
    let mut world = World::on(&servers.endpoints(), None).await;
    let service = world.start().await;
    service.ready().await;
    for round in 0..3 {
        world.log.chatter(20 + round, 100).await;
        // It writes its log once a second, so this loses what came last.
        servers.stack().kill_one("mariadb").unwrap();
        world.log.chatter(30 + round, 100).await;
        service.until("aware of it", |ready| !ready).await;
        servers.stack().start_servers().unwrap();
        world.assert_exact().await;
        service.ready().await;
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_older_is_noticed_when_idle() {
    let servers = FreshServers::start().unwrap();
    let stack = servers.stack();
    let mut world = World::on(&servers.endpoints(), None).await;
    let service = world.start().await;
    world.log.chatter(40, 100).await;
    world.assert_exact().await;

    let data = stack.config().run_dir.join("data/mariadb");
    let older = stack.config().run_dir.join("older");
    stack.stop_one("mariadb").unwrap();
    copy(&data, &older);
    stack.start_servers().unwrap();
    world.log.chatter(41, 100).await;
    world.assert_exact().await;

    stack.kill_one("mariadb").unwrap();
    fs::remove_dir_all(&data).unwrap();
    copy(&older, &data);
    stack.start_servers().unwrap();
    // Not another event comes.
    world.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_of_two_that_is_down_does_not_stop_the_other() {
    let (servers, second) = (
        FreshServers::start().unwrap(),
        FreshServers::start().unwrap(),
    );
    let mut world = World::on(&servers.endpoints(), Some(&second.endpoints().mysql_url)).await;
    let service = world.start().await;
    world.log.chatter(50, 60).await;
    world.assert_exact().await;
    second.stack().kill_one("mariadb").unwrap();
    // Users 1 and 2 have their tables, and their conversation has its, in the first half.
    let mid = world.log.send(1, 2, "while the other is down").await;
    world.until_contact_has(1, 2, mid).await;
    world.log.chatter(51, 60).await;
    // A start while it is down does not hold up the other either.
    service.stop().await;
    let service = world.start().await;
    world.log.chatter(52, 60).await;
    second.stack().start_servers().unwrap();
    world.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_stay_before_a_read_position_whose_messages_are_out_of_reach() {
    let (servers, second) = (
        FreshServers::start().unwrap(),
        FreshServers::start().unwrap(),
    );
    let mut world = World::on(&servers.endpoints(), Some(&second.endpoints().mysql_url)).await;
    let service = Doomed::start(world.config.clone());
    // The messages of 1 and 40 are on the second server (partition 41), the contacts of 1 on the first.
    world.log.send(40, 1, "one").await;
    world.log.send(40, 1, "two").await;
    world.assert_exact().await;
    second.stack().kill_one("mariadb").unwrap();
    world.log.read(1, 40, DeviceClass::Pc, 1, None).await;
    let mid = world.log.send(1, 40, "behind it").await;
    world.until_contact_has(1, 40, mid).await;

    let at = world.log.events[2].offset;
    let (first, partition) = (world.first_shard(), world.log.events[2].partition);
    let topic = world.config.kafka.topic(Topic::Events);
    let resume = world
        .store
        .read_resume(first, Sink::Contacts, &topic, &[partition])
        .await
        .unwrap();
    assert!(resume[&partition].next_offset <= at);
    service.kill();
    second.stack().start_servers().unwrap();
    let service = world.start().await;
    world.assert_exact().await;
    service.stop().await;
}

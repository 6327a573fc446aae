//! Servers that die, come back, and come back older than they were.

use std::{fs, path::Path, process::Command};

use native_stack::FreshServers;

use crate::world::World;

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
    let last = async || {
        let shard = world.store.layout().shards().next().unwrap();
        let mut tx = world.store.snapshot(shard).await.unwrap();
        let contact = tx
            .contact(crate::log::user(1), crate::log::user(2))
            .await
            .unwrap();
        contact
            .and_then(|row| row.contact.last)
            .map(|last| last.mid)
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while last().await != Some(mid) {
        assert!(
            std::time::Instant::now() < deadline,
            "the contact was not written"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    world.log.chatter(51, 60).await;
    // A start while it is down does not hold up the other either.
    service.stop().await;
    let service = world.start().await;
    world.log.chatter(52, 60).await;
    second.stack().start_servers().unwrap();
    world.assert_exact().await;
    service.stop().await;
}

//! Servers that die, come back, and come back older than they were.

use std::{fs, path::Path, process::Command};

use dev_stack::FreshServers;
use schemas::DeviceClass;

use crate::test_env::{Doomed, TestEnv};

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
    let mut env = TestEnv::on(&servers.endpoints(), None).await;
    let service = env.start().await;
    service.ready().await;
    for round in 0..3 {
        env.log.chatter(20 + round, 100).await;
        // It writes its log once a second, so this loses what came last.
        servers.stack().kill_one("mariadb").unwrap();
        env.log.chatter(30 + round, 100).await;
        service.until("aware of it", |ready| !ready).await;
        servers.stack().start_servers().unwrap();
        env.assert_exact().await;
        service.ready().await;
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_older_is_noticed_when_idle() {
    let servers = FreshServers::start().unwrap();
    let stack = servers.stack();
    let mut env = TestEnv::on(&servers.endpoints(), None).await;
    let service = env.start().await;
    env.log.chatter(40, 100).await;
    env.assert_exact().await;

    let data = stack.config().run_dir.join("data/mariadb");
    let older = stack.config().run_dir.join("older");
    stack.stop_one("mariadb").unwrap();
    copy(&data, &older);
    stack.start_servers().unwrap();
    env.log.chatter(41, 100).await;
    env.assert_exact().await;

    stack.kill_one("mariadb").unwrap();
    fs::remove_dir_all(&data).unwrap();
    copy(&older, &data);
    stack.start_servers().unwrap();
    // Not another event comes.
    env.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_of_two_that_is_down_does_not_stop_the_other() {
    let (servers, second) = (
        FreshServers::start().unwrap(),
        FreshServers::start().unwrap(),
    );
    let mut env = TestEnv::on(&servers.endpoints(), Some(&second.endpoints().mysql_url)).await;
    let service = env.start().await;
    env.log.chatter(50, 60).await;
    env.assert_exact().await;
    second.stack().kill_one("mariadb").unwrap();
    // Users 1 and 2 have their tables, and their conversation has its, in the first half.
    let mid = env.log.send(1, 2, "while the other is down").await;
    env.until_contact_has(1, 2, mid).await;
    env.log.chatter(51, 60).await;
    // A start while it is down does not hold up the other either.
    service.stop().await;
    let service = env.start().await;
    env.log.chatter(52, 60).await;
    second.stack().start_servers().unwrap();
    env.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_read_position_whose_messages_are_out_of_reach() {
    let (servers, second) = (
        FreshServers::start().unwrap(),
        FreshServers::start().unwrap(),
    );
    let mut env = TestEnv::on(&servers.endpoints(), Some(&second.endpoints().mysql_url)).await;
    let service = Doomed::start(env.config.clone());
    // The messages of 1 and 40 are on the second server (partition 41), the contacts of 1 on the first.
    env.log.send(40, 1, "one").await;
    env.log.send(40, 1, "two").await;
    env.assert_exact().await;
    second.stack().kill_one("mariadb").unwrap();
    env.log.read(1, 40, DeviceClass::Pc, 1, None).await;
    let mid = env.log.send(1, 40, "behind it").await;
    env.until_contact_has(1, 40, mid).await;

    let open = env
        .store
        .unresolved_reads(env.first_shard(), None, None, 10)
        .await
        .unwrap();
    assert_eq!(open.len(), 1, "{open:?}");
    // A later position that has its ordinal makes it needless.
    env.log.read(1, 40, DeviceClass::Pc, 2, Some(2)).await;
    env.until_all_are_resolved(env.first_shard()).await;
    service.kill();
    second.stack().start_servers().unwrap();
    let service = env.start().await;
    env.assert_exact().await;
    service.stop().await;
}

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use message_store::{MessageStore, MySqlConfig, ServerConfig};
use schemas::{DeviceClass, TableNumber, UserId};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    time::Instant,
};
use unread_rebuild::{RebuildConfig, UnreadRebuildError};
use unread_store::{BeginOutcome, RedisConfig, UnreadStore, UnreadView, UserUpdate, UserView};

use crate::test_env::{TestEnv, row, soon, users};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_before_the_rows_reach_the_log() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    env.append(alice, bob).await;
    env.contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    // On the log, and not in the rows.
    env.append(alice, bob).await;

    let rebuilder = env.rebuilder();
    let waiting = tokio::spawn(async move { rebuilder.rebuild(&[alice], soon()).await });
    env.begun(alice).await;
    // Applied since, and in no row.
    let mut update = UserUpdate::new(alice);
    update.message(bob, 3.try_into().unwrap());
    let mut writer = env.connection().await;
    let generation = writer.read_positions().await.unwrap().generation().unwrap();
    writer
        .apply_batch(generation, &[update], &[])
        .await
        .unwrap();
    assert!(!waiting.is_finished());
    assert_eq!(env.view(alice).await, UserView::Rebuilding);

    env.contacts_catch_up(&[row(alice, bob, 2, Some(0), Some(1))])
        .await;
    waiting.await.unwrap().unwrap();
    let (pc, mobile) = env.unread(alice).await;
    assert_eq!(pc, BTreeMap::from([(bob, 3)]));
    assert_eq!(mobile, BTreeMap::from([(bob, 2)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_user_with_an_unresolved_read_waits() {
    let env = TestEnv::new().await;
    let [alice, bob, carol] = users();
    env.append(alice, bob).await;
    let rows = [
        row(alice, bob, 3, None, Some(3)),
        row(carol, bob, 2, Some(0), Some(0)),
    ];
    env.write_contacts(&rows).await;
    // The rebuild of a user who waits for long begins again in another batch, which must not wait for the lease of the one before.
    let config = RebuildConfig {
        lease_ms: 600_000,
        ..RebuildConfig::default()
    };
    let rebuilder = env.rebuilder_with(&env.store, config);
    let waiting = tokio::spawn({
        let rebuilder = rebuilder.clone();
        async move { rebuilder.rebuild(&[alice, carol], soon()).await }
    });
    env.begun(alice).await;
    rebuilder.rebuild(&[carol], soon()).await.unwrap();
    assert_eq!(env.unread(carol).await.0, BTreeMap::from([(bob, 2)]));
    let counts = rebuilder.contact_counts(alice, soon()).await;
    assert_eq!(counts, Err(UnreadRebuildError::UnresolvedRead));
    assert_eq!(env.view(alice).await, UserView::Rebuilding);

    let [open] = env.unresolved_reads(alice).await.try_into().unwrap();
    env.look_up(open, Some(1.try_into().unwrap())).await;
    waiting.await.unwrap().unwrap();
    let (pc, mobile) = env.unread(alice).await;
    assert_eq!((pc, mobile), (BTreeMap::from([(bob, 2)]), BTreeMap::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_rebuild_leaves_unresolved_reads_to_the_end() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    let of_table = |n: i64| UserId::try_from(alice.get() + 64 * n).unwrap();
    let (carol, dave) = (of_table(100), of_table(200));
    env.append(alice, bob).await;
    let rows = [
        row(alice, bob, 3, None, Some(3)),
        row(carol, bob, 2, Some(0), Some(0)),
        row(dave, bob, 2, Some(0), None),
    ];
    env.write_contacts(&rows).await;
    let table = TableNumber::of_user(alice);
    let rebuilder = env.rebuilder();

    let begun = rebuilder.begin_shadow_rebuild(table, &[dave], 500).await;
    let failed = begun.unwrap().next(1).await.err();
    assert_eq!(failed, Some(UnreadRebuildError::UnresolvedRead));

    let both = [carol, alice];
    let begun = rebuilder.begin_shadow_rebuild(table, &both, 600_000);
    let mut shadow = begun.await.unwrap();
    let first = shadow.next(1).await.unwrap().unwrap();
    assert_eq!(first.uids, [carol]);
    let [open] = env.unresolved_reads(alice).await.try_into().unwrap();
    env.look_up(open, Some(1.try_into().unwrap())).await;
    let second = shadow.next(1).await.unwrap().unwrap();
    assert_eq!(second.uids, [alice]);
    assert!(shadow.next(1).await.unwrap().is_none());
    for users in [first, second] {
        assert_eq!(shadow.complete(users).await.unwrap(), []);
    }
    assert_eq!(env.unread(carol).await.0, BTreeMap::from([(bob, 2)]));
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 2)]));
}

/// What is applied to Redis before the state is begun misses the user, so it has to lie before the ends that the rows reach.
#[tokio::test(flavor = "multi_thread")]
async fn the_ends_are_those_behind_the_beginning() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    let rebuilder = Arc::new(env.rebuilder());
    env.hold_writes().await;
    let held = Arc::clone(&rebuilder);
    let waiting = tokio::spawn(async move { held.rebuild(&[alice], soon()).await });
    env.write_is_held().await;
    env.append(alice, bob).await;
    env.release_writes().await;
    env.begun(alice).await;

    let hasty = Instant::now() + Duration::from_millis(200);
    let early = rebuilder.rebuild(&[alice], hasty).await;
    assert_eq!(early, Err(UnreadRebuildError::TimedOut));
    env.contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    waiting.await.unwrap().unwrap();
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_the_wait_and_not_the_rebuild() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    env.append(alice, bob).await;

    let rebuilder = env.rebuilder();
    let hasty = Instant::now() + Duration::from_millis(200);
    assert_eq!(
        rebuilder.rebuild(&[alice], hasty).await,
        Err(UnreadRebuildError::TimedOut)
    );
    assert_eq!(env.view(alice).await, UserView::Rebuilding);

    env.contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    rebuilder.rebuild(&[alice], soon()).await.unwrap();
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_users_are_rebuilt_behind_few_barriers() {
    let env = TestEnv::new().await;
    let users: [_; 301] = users();
    let (sender, receivers) = users.split_last().unwrap();
    let rows: Vec<_> = (1..)
        .zip(receivers)
        .map(|(n, uid)| row(*uid, *sender, n, Some(0), Some(n)))
        .collect();
    env.append(*sender, receivers[0]).await;
    env.contacts_catch_up(&rows).await;

    env.rebuilder().rebuild(receivers, soon()).await.unwrap();
    for (n, uid) in (1..).zip(receivers) {
        let (pc, mobile) = env.unread(*uid).await;
        assert_eq!(pc, BTreeMap::from([(*sender, n)]));
        assert!(mobile.is_empty());
    }
}

/// Its rows take several pages, between those of users of the same table.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_many_peers_is_rebuilt_in_pages() {
    let env = TestEnv::new().await;
    let users: [_; 200] = users();
    let (before, large, behind, nobody) = (users[0], users[64], users[128], users[192]);
    let peer = |n: i64| (1_000_000 + n).try_into().unwrap();
    let mut rows = vec![
        row(before, peer(1), 4, Some(1), Some(4)),
        row(behind, peer(1), 5, Some(1), Some(5)),
    ];
    rows.extend((1..=4_000).map(|n| row(large, peer(n), n, Some(0), Some(n))));
    for rows in rows.chunks(1_000) {
        env.contacts_catch_up(rows).await;
    }
    let rebuilder = env.rebuilder();
    let all = [behind, nobody, large, before];
    rebuilder.rebuild(&all, soon()).await.unwrap();
    let many: BTreeMap<_, _> = (1..=4_000).map(|n| (peer(n), n)).collect();
    let expected = [
        (before, BTreeMap::from([(peer(1), 3)])),
        (large, many),
        (behind, BTreeMap::from([(peer(1), 4)])),
        (nobody, BTreeMap::new()),
    ];
    for (uid, counts) in expected {
        let state = env.connection().await.read_state(uid).await.unwrap();
        assert_eq!(state.state.unwrap().value.counts(DeviceClass::Pc), counts);
        let from_rows = rebuilder.contact_counts(uid, soon()).await.unwrap();
        let unknown = Vec::new();
        let complete = UnreadView::Complete { counts, unknown };
        assert_eq!(from_rows.unread(DeviceClass::Pc), complete);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_rebuild_the_same_users() {
    let env = TestEnv::new().await;
    let users: [_; 41] = users();
    let (sender, receivers) = users.split_last().unwrap();
    let rows: Vec<_> = receivers
        .iter()
        .map(|uid| row(*uid, *sender, 7, Some(0), Some(0)))
        .collect();
    env.contacts_catch_up(&rows).await;

    let (one, other) = (env.rebuilder(), env.rebuilder());
    let backwards: Vec<_> = receivers.iter().rev().copied().collect();
    let (first, second) = tokio::join!(
        one.rebuild(receivers, soon()),
        other.rebuild(&backwards, soon())
    );
    first.unwrap();
    second.unwrap();
    for uid in receivers {
        assert_eq!(env.unread(*uid).await.0, BTreeMap::from([(*sender, 7)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_a_dead_process_left_is_taken_over() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    let dead = env.connection().await;
    let begun = dead.begin_rebuild(alice, 1_000).await.unwrap();
    let BeginOutcome::Begun(abandoned) = begun else {
        panic!("{begun:?}");
    };
    env.append(alice, bob).await;
    env.contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;

    env.rebuilder().rebuild(&[alice], soon()).await.unwrap();
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
    assert!(!dead.complete_rebuild(&abandoned, &[]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_waits_for_contacts_is_not_taken_over() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    env.append(alice, bob).await;
    let lease = Duration::from_secs(1);
    let config = RebuildConfig {
        lease_ms: 1_000,
        ..RebuildConfig::default()
    };
    let rebuilder = env.rebuilder_with(&env.store, config);
    let waiting = tokio::spawn(async move { rebuilder.rebuild(&[alice], soon()).await });
    env.begun(alice).await;

    let other = env.connection().await;
    let later = Instant::now() + 3 * lease;
    while Instant::now() < later {
        let begun = other.begin_rebuild(alice, 1_000).await.unwrap();
        assert!(
            matches!(begun, BeginOutcome::InProgress { .. }),
            "{begun:?}"
        );
    }
    env.contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    waiting.await.unwrap().unwrap();
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mysql_there_is_no_partial_map() {
    let env = TestEnv::new().await;
    let [alice] = users();
    let nobody = MySqlConfig {
        servers: vec![ServerConfig {
            port: 1,
            ..ServerConfig::default()
        }],
        connect_timeout_ms: 100,
        ..MySqlConfig::default()
    };
    let away = MessageStore::connect(&nobody);
    let rebuilder = env.rebuilder_with(&away, RebuildConfig::default());
    let outcome = rebuilder
        .rebuild(&[alice], Instant::now() + Duration::from_secs(2))
        .await;
    assert!(
        matches!(outcome, Err(UnreadRebuildError::Transient(_))),
        "{outcome:?}"
    );
    assert_eq!(env.view(alice).await, UserView::Rebuilding);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_rebuild_counts_users_whom_another_process_rebuilds() {
    let env = TestEnv::new().await;
    let [alice] = users();
    let other = env.connection().await.begin_rebuild(alice, 600_000).await;
    assert!(matches!(other, Ok(BeginOutcome::Begun(_))), "{other:?}");
    let (rebuilder, table) = (env.rebuilder(), TableNumber::of_user(alice));
    let (users, lease_ms) = ([alice], 1_000);
    let shadow = rebuilder.begin_shadow_rebuild(table, &users, lease_ms);
    assert_eq!(shadow.await.unwrap().in_progress(), 1);
}

/// After a failover the connections to the former master are closed, which the next call notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_begins_although_the_idle_connection_was_closed() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    env.append(alice, bob).await;
    env.contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    let rebuilder = env.rebuilder();
    rebuilder.rebuild(&[bob], soon()).await.unwrap();
    let kill = ["CLIENT", "KILL", "TYPE", "normal"];
    assert!(env.redis.command::<i64>(&kill).await > 0);
    rebuilder.rebuild(&[alice], soon()).await.unwrap();
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

/// It is this process' own, and nobody waits for its lease to expire.
#[tokio::test(flavor = "multi_thread")]
async fn a_beginning_whose_response_was_lost_is_repeated() {
    let mut env = TestEnv::new().await;
    let [alice, bob] = users();
    env.append(alice, bob).await;
    env.contacts_catch_up(&[row(alice, bob, 1, Some(0), Some(0))])
        .await;
    env.unread = losing_a_response(&env).await;
    let config = RebuildConfig {
        lease_ms: 600_000,
        ..RebuildConfig::default()
    };
    let rebuilder = env.rebuilder_with(&env.store, config);
    rebuilder.rebuild(&[alice], soon()).await.unwrap();
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));

    env.unread = losing_a_response(&env).await;
    let rebuilder = env.rebuilder();
    let (table, bob) = (TableNumber::of_user(bob), [bob]);
    let shadow = rebuilder.begin_shadow_rebuild(table, &bob, 600_000);
    assert_eq!(shadow.await.unwrap().in_progress(), 0);
}

/// The same Redis, but its first connection ends when the first script has run, before its response arrives.
async fn losing_a_response(env: &TestEnv) -> UnreadStore {
    let url = env.redis.url();
    let address = url.trim_start_matches("redis://").trim_end_matches('/');
    let (address, listener) = (
        address.to_owned(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    );
    let config = RedisConfig {
        url: format!("redis://{}", listener.local_addr().unwrap()),
        ..RedisConfig::default()
    };
    tokio::spawn(async move {
        let (client, redis) = accept(&listener, &address).await;
        relay_until_a_script_has_run(client, redis).await;
        loop {
            let (mut client, mut redis) = accept(&listener, &address).await;
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut redis).await });
        }
    });
    UnreadStore::new(&config).unwrap()
}

async fn accept(listener: &TcpListener, redis: &str) -> (TcpStream, TcpStream) {
    let (client, _) = listener.accept().await.unwrap();
    (client, TcpStream::connect(redis).await.unwrap())
}

async fn relay_until_a_script_has_run(mut client: TcpStream, mut redis: TcpStream) {
    let (mut request, mut response) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            length = client.read(&mut request) => {
                let request = &request[..length.unwrap()];
                redis.write_all(request).await.unwrap();
                if request.windows(7).any(|word| word == b"EVALSHA") {
                    redis.read_u8().await.unwrap();
                    return;
                }
            }
            length = redis.read(&mut response) => {
                client.write_all(&response[..length.unwrap()]).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_waits_for_the_positions() {
    let env = TestEnv::without_positions().await;
    let [alice, bob] = users();
    env.contacts_catch_up(&[row(alice, bob, 2, Some(1), Some(0))])
        .await;
    let rebuilder = env.rebuilder();
    let hasty = Instant::now() + Duration::from_millis(300);
    assert_eq!(
        rebuilder.rebuild(&[alice], hasty).await,
        Err(UnreadRebuildError::TimedOut)
    );

    env.initialise_positions().await;
    rebuilder.rebuild(&[alice], soon()).await.unwrap();
    assert_eq!(env.unread(alice).await.0, BTreeMap::from([(bob, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_dropped_meanwhile_is_begun_again() {
    let env = TestEnv::new().await;
    let [alice, bob] = users();
    env.append(alice, bob).await;
    let rebuilder = env.rebuilder();
    let waiting = tokio::spawn(async move { rebuilder.rebuild(&[alice], soon()).await });
    env.begun(alice).await;

    let mut update = UserUpdate::new(alice);
    update.invalidate = true;
    let mut writer = env.connection().await;
    let generation = writer.read_positions().await.unwrap().generation().unwrap();
    let outcome = writer
        .apply_batch(generation, &[update], &[])
        .await
        .unwrap();
    assert_eq!(outcome.absent, [alice]);

    env.contacts_catch_up(&[row(alice, bob, 4, None, Some(1))])
        .await;
    waiting.await.unwrap().unwrap();
    let (pc, mobile) = env.unread(alice).await;
    // The rows do not know what was read on pc, and nobody guesses.
    assert!(pc.is_empty());
    assert_eq!(mobile, BTreeMap::from([(bob, 3)]));
}

use std::time::{Duration, Instant};

use schemas::{
    DeviceClass::{Mobile, Pc},
    UserId,
};
use tokio::task::JoinHandle;
use unread_store::{BeginOutcome, PeerOrdinals, Rebuild, UnreadView, UserUpdate};

use crate::test_env::{BOSS, LEASE_MS, ME, TestEnv, complete, messages, n, ordinals, read, user};

#[tokio::test]
async fn events_during_a_rebuild_are_kept_and_shown_only_after_it() {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    assert!(!env.apply(messages(ME, BOSS, 5)).await);
    assert!(!env.apply(messages(ME, 1002, 1)).await);
    // The rows have this one and later ones.
    assert!(!env.apply(messages(ME, 1003, 2)).await);
    assert!(!env.apply(read(ME, BOSS, Mobile, Some(5))).await);
    let raw = env.raw(ME).await;
    assert_eq!((raw.views.pc, raw.views.mobile), (None, None));

    let rows = [(BOSS, "4,3,2"), (1003, "7,7,0")];
    assert!(env.complete(&rebuild, &rows).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 2), (1002, 1)]));
    assert_eq!(
        env.unread(ME, Mobile).await,
        complete(&[(1002, 1), (1003, 7)])
    );
    let raw = env.raw(ME).await;
    let state = raw.state.unwrap().value;
    // Peers without unread messages stay: a later message is counted from them.
    assert_eq!(state.peers.len(), 3);
    assert_eq!(raw.views.pc.unwrap().value, state.counts(Pc));
    assert_eq!(raw.views.mobile.unwrap().value, state.counts(Mobile));
}

#[tokio::test]
async fn a_live_lease_is_waited_for_and_a_complete_state_left_alone() {
    let env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    let second = env.conn.begin_rebuild(user(ME), LEASE_MS).await.unwrap();
    let BeginOutcome::InProgress { wait_ms } = second else {
        panic!("not live: {second:?}");
    };
    assert!((1..=LEASE_MS).contains(&wait_ms), "{wait_ms}");
    assert!(env.complete(&rebuild, &[(BOSS, "1,0,0")]).await);
    let third = env.conn.begin_rebuild(user(ME), LEASE_MS).await.unwrap();
    assert_eq!(third, BeginOutcome::Complete);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
}

#[tokio::test]
async fn an_ended_lease_is_taken_over() {
    let mut env = TestEnv::new().await;
    let first = env.begin_with_lease(ME, 0).await;
    // It is applied all the same: the holder may be slow and not dead. But somebody has to look after it.
    assert!(env.apply(messages(ME, BOSS, 5)).await);
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), [user(ME)]);

    let second = env.begin(ME).await;
    assert!(!env.complete(&first, &[(1002, "9,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Rebuilding);
    // What was applied before is in these rows, and is not kept until then: it may be much.
    let raw = env.raw(ME).await.state.unwrap();
    assert!(raw.value.peers.is_empty(), "{raw:?}");
    assert!(env.complete(&second, &[(BOSS, "5,1,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 4)]));
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), []);
}

#[tokio::test]
async fn a_lease_can_be_renewed_while_it_is_ones_own() {
    let env = TestEnv::new().await;
    let rebuild = env.begin_with_lease(ME, 0).await;
    let renewed = [rebuild.clone()];
    env.conn.renew_rebuilds(&renewed, LEASE_MS).await.unwrap();
    let other = env.conn.begin_rebuild(user(ME), LEASE_MS).await.unwrap();
    assert!(
        matches!(other, BeginOutcome::InProgress { .. }),
        "{other:?}"
    );

    // Neither is a complete state made unreadable, nor one made that is not there.
    assert!(env.complete(&rebuild, &[(BOSS, "1,0,0")]).await);
    env.conn.renew_rebuilds(&renewed, LEASE_MS).await.unwrap();
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
    env.redis::<i64>("DEL state-1000").await;
    env.conn.renew_rebuilds(&renewed, LEASE_MS).await.unwrap();
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Absent);
}

#[tokio::test]
async fn members_of_the_wanted_set_that_are_no_uid_are_removed() {
    let env = TestEnv::new().await;
    env.redis::<i64>("SADD tidemark:wanted 7 seven").await;
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), [user(7)]);
    let left: Vec<String> = env.redis("SMEMBERS tidemark:wanted").await;
    assert_eq!(left, ["7"]);
    assert_eq!(env.conn.rebuild_requests(0).await.unwrap(), []);
}

#[tokio::test]
async fn a_holder_whose_lease_ended_completes_if_nobody_took_over() {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin_with_lease(ME, 0).await;
    env.apply(messages(ME, BOSS, 5)).await;
    assert!(env.complete(&rebuild, &[(BOSS, "4,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 5)]));
}

#[tokio::test]
async fn completing_twice_or_without_a_state_does_nothing() {
    let env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    assert!(env.complete(&rebuild, &[(BOSS, "1,0,0")]).await);
    assert!(!env.complete(&rebuild, &[(BOSS, "8,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));

    env.redis::<i64>("DEL state-1000 pc-1000 mobile-1000").await;
    assert!(!env.complete(&rebuild, &[(BOSS, "8,0,0")]).await);
    assert_eq!(env.raw(ME).await.state, None);
}

#[tokio::test]
async fn a_position_without_ordinal_during_a_rebuild_makes_it_begin_again() {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    assert!(env.apply(read(ME, BOSS, Pc, None)).await);
    assert!(!env.complete(&rebuild, &[(BOSS, "3,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Absent);
}

#[tokio::test]
async fn rows_that_do_not_know_and_an_event_that_does_are_not_mixed() {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    env.apply(read(ME, BOSS, Pc, Some(3))).await;
    assert!(!env.complete(&rebuild, &[(BOSS, "4,?,0")]).await);
    assert_eq!(env.raw(ME).await.state, None);
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), [user(ME)]);

    // The next barrier lies behind the event, so the rows know it too.
    env.load(ME, &[(BOSS, "4,3,0")]).await;
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
}

#[tokio::test]
async fn a_user_with_a_hundred_thousand_peers_is_rebuilt() {
    let env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    env.redis::<String>("CONFIG RESETSTAT").await;
    let rows = many_rows();
    assert!(env.conn.complete_rebuild(&rebuild, &rows).await.unwrap());
    // Redis serves nobody else during a call.
    let stats: String = env.redis("INFO commandstats").await;
    assert!(stats.contains("cmdstat_evalsha:calls=200,"), "{stats}");
    assert_eq!(env.keys().await, ["mobile-1000", "pc-1000", "state-1000"]);
    let raw = env.raw(ME).await;
    let state = raw.state.unwrap();
    assert_eq!(state.value.peers.len(), 100_000);
    for view in [(Pc, raw.views.pc), (Mobile, raw.views.mobile)] {
        let (device, view) = (view.0, view.1.unwrap());
        assert_eq!(view.value, state.value.counts(device));
        assert_eq!(view.expires_at_ms, state.expires_at_ms);
    }
}

/// Each with one unread message on one class and two on the other.
fn many_rows() -> Vec<(UserId, PeerOrdinals)> {
    let row = |peer: i64| (user(peer + BOSS), ordinals("2,1,0"));
    (1..=100_000).map(row).collect()
}

impl TestEnv {
    /// Waits until the first page is there; so many rows take a few hundred.
    async fn first_page(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.redis::<i64>("HLEN new-1000:state").await <= 2 {
            assert!(Instant::now() < deadline, "no page is added");
        }
    }

    /// Applies a message of each of a hundred thousand peers.
    async fn apply_many(&mut self) {
        let mut update = UserUpdate::new(user(ME));
        for (peer, _) in many_rows() {
            update.message(peer, n(3));
        }
        assert!(!self.apply(update).await);
    }

    /// Waits until the first events are moved; so many take two hundred pages.
    async fn first_events(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.redis::<i64>("HLEN state-1000").await == 100_002 {
            assert!(Instant::now() < deadline, "no events are moved");
        }
    }

    /// The keys of users.
    async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.redis("KEYS *-1000*").await;
        keys.sort();
        keys
    }

    fn complete_many(&self, rebuild: &Rebuild) -> JoinHandle<bool> {
        let (conn, rebuild) = (self.conn.clone(), rebuild.clone());
        let complete = async move { conn.complete_rebuild(&rebuild, &many_rows()).await.unwrap() };
        tokio::spawn(complete)
    }
}

#[tokio::test]
async fn events_between_pages_are_kept_and_nothing_is_shown_before_the_last() {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    let completing = env.complete_many(&rebuild);
    env.first_page().await;
    // One of the first page, one of the last, and one that is in no row.
    for (peer, newest) in [(1002, 7), (101_001, 8), (BOSS, 9)] {
        assert!(!env.apply(messages(ME, peer, newest)).await);
    }
    assert!(!env.apply(read(ME, 1003, Mobile, Some(2))).await);
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Rebuilding);
    assert_eq!(env.redis::<i64>("EXISTS pc-1000 mobile-1000").await, 0);
    assert!(!completing.is_finished());

    assert!(completing.await.unwrap());
    let raw = env.raw(ME).await;
    let state = raw.state.unwrap().value;
    assert_eq!(state.peers.len(), 100_001);
    let pc = raw.views.pc.unwrap().value;
    assert_eq!(pc, state.counts(Pc));
    for (peer, unread) in [(1002, 6), (1003, 1), (101_001, 7), (BOSS, 9)] {
        assert_eq!(pc[&user(peer)], unread, "{peer}");
    }
    let mobile = raw.views.mobile.unwrap().value;
    assert_eq!(mobile, state.counts(Mobile));
    assert_eq!(mobile.get(&user(1003)), None);
}

#[tokio::test]
async fn no_script_takes_more_events_than_a_page() {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    env.apply_many().await;
    env.redis::<String>("CONFIG RESETSTAT").await;
    assert!(
        env.complete(&rebuild, &[(BOSS, "1,0,0"), (1002, "2,2,1")])
            .await
    );
    let stats: String = env.redis("INFO commandstats").await;
    let calls = stats.split("cmdstat_evalsha:calls=").nth(1).unwrap();
    let calls: u32 = calls.split(',').next().unwrap().parse().unwrap();
    // A page is of some 500; the first and the last call are for the rows.
    assert!((150..=203).contains(&calls), "{calls}");
    let raw = env.raw(ME).await;
    let state = raw.state.unwrap();
    assert_eq!(state.value.peers.len(), 100_001);
    assert_eq!(state.value.peers[&user(1002)], ordinals("3,2,1"));
    for view in [(Pc, raw.views.pc), (Mobile, raw.views.mobile)] {
        let (device, view) = (view.0, view.1.unwrap());
        assert_eq!(view.value, state.value.counts(device));
        assert_eq!(view.expires_at_ms, state.expires_at_ms);
    }
    assert_eq!(env.keys().await, ["mobile-1000", "pc-1000", "state-1000"]);
}

#[tokio::test]
async fn events_between_pages_of_events_are_kept() {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    env.apply_many().await;
    let completing = env.complete_many(&rebuild);
    env.first_events().await;
    // Some of these have been moved, and some have not.
    let peers: Vec<i64> = (1..=1_000).map(|k| 1_001 + 100 * k).collect();
    let mut update = UserUpdate::new(user(ME));
    for peer in &peers {
        update.message(user(*peer), n(7));
    }
    assert!(!env.apply(update).await);
    assert_eq!(env.redis::<i64>("EXISTS pc-1000 mobile-1000").await, 0);
    assert!(!completing.is_finished());

    assert!(completing.await.unwrap());
    let state = env.raw(ME).await.state.unwrap().value;
    assert_eq!(state.peers.len(), 100_000);
    for peer in peers {
        assert_eq!(state.peers[&user(peer)], ordinals("7,1,0"), "{peer}");
    }
    assert_eq!(state.peers[&user(1_002)], ordinals("3,1,0"));
}

/// A rebuild whose completing was broken off when some of the events had been moved.
async fn moved_in_part() -> (TestEnv, Rebuild) {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    env.apply_many().await;
    let completing = env.complete_many(&rebuild);
    env.first_events().await;
    completing.abort();
    assert!(completing.await.unwrap_err().is_cancelled());
    (env, rebuild)
}

#[tokio::test]
async fn what_was_moved_is_kept_where_completing_is_repeated() {
    let (env, rebuild) = moved_in_part().await;
    assert!(env.complete_many(&rebuild).await.unwrap());
    let raw = env.raw(ME).await;
    let state = raw.state.unwrap().value;
    assert_eq!(state.peers.len(), 100_000);
    assert!(state.peers.values().all(|peer| *peer == ordinals("3,1,0")));
    assert_eq!(raw.views.pc.unwrap().value, state.counts(Pc));
}

#[tokio::test]
async fn what_was_moved_and_is_lost_makes_the_rebuild_begin_again() {
    let (env, rebuild) = moved_in_part().await;
    env.redis::<i64>("DEL new-1000:state").await;
    assert!(!env.complete(&rebuild, &[(BOSS, "1,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Absent);
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), [user(ME)]);
}

#[tokio::test]
async fn a_rebuild_that_ends_between_pages_is_taken_over() {
    let env = TestEnv::new().await;
    let first = env.begin_with_lease(ME, 0).await;
    let completing = env.complete_many(&first);
    env.first_page().await;
    completing.abort();
    assert!(completing.await.unwrap_err().is_cancelled());
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Rebuilding);

    let second = env.begin(ME).await;
    assert!(!env.complete(&first, &[(BOSS, "9,0,0")]).await);
    assert!(env.complete(&second, &[(BOSS, "3,1,3")]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 2)]));
    assert_eq!(env.keys().await, ["pc-1000", "state-1000"]);
}

#[tokio::test]
async fn a_rebuild_whose_pages_are_lost_begins_again() {
    let env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    let completing = env.complete_many(&rebuild);
    env.first_page().await;
    env.redis::<i64>("DEL new-1000:state").await;
    assert!(!completing.await.unwrap());
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Absent);
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), [user(ME)]);
    assert!(env.keys().await.is_empty());
}

#[tokio::test]
async fn a_large_state_is_replaced_in_pages() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "9,0,0"), (1002, "9,9,9")]).await;
    let shadows = [user(ME)];
    let shadows = env.conn.begin_shadow_rebuilds(&shadows, LEASE_MS).await;
    let completing = env.complete_many(&shadows.unwrap()[0]);
    env.first_page().await;
    assert!(!env.apply(messages(ME, 1003, 5)).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 9), (1003, 5)]));
    assert!(completing.await.unwrap());
    let state = env.raw(ME).await.state.unwrap().value;
    assert_eq!(state.peers.len(), 100_000);
    assert_eq!(state.peers[&user(1002)], ordinals("2,1,0"));
    assert_eq!(state.peers[&user(1003)], ordinals("5,1,0"));
    assert_eq!(env.keys().await, ["mobile-1000", "pc-1000", "state-1000"]);
}

#[tokio::test]
async fn one_built_beside_takes_the_place_of_one_that_is_wrong() {
    let mut env = TestEnv::new().await;
    let wrong = env.begin(ME).await;
    let rows = [(BOSS, "9,0,0"), (1003, "4,0,0")];
    assert!(env.complete(&wrong, &rows).await);
    let before = env.raw(ME).await.state.unwrap();

    let beside = env
        .conn
        .begin_shadow_rebuilds(&[user(ME)], LEASE_MS)
        .await
        .unwrap();
    assert!(!env.apply(messages(ME, 1002, 1)).await);
    let seen = complete(&[(BOSS, 9), (1002, 1), (1003, 4)]);
    assert_eq!(env.unread(ME, Pc).await, seen);

    assert!(env.complete(&beside[0], &[(BOSS, "5,2,5")]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 3), (1002, 1)]));
    assert_eq!(env.unread(ME, Mobile).await, complete(&[(1002, 1)]));
    let raw = env.raw(ME).await;
    let state = raw.state.unwrap();
    assert_eq!(state.expires_at_ms, before.expires_at_ms);
    assert_eq!(raw.views.pc.unwrap().value, state.value.counts(Pc));
    assert_eq!(raw.views.mobile.unwrap().value, state.value.counts(Mobile));
    assert!(!env.complete(&beside[0], &[(BOSS, "5,0,0")]).await);
}

#[tokio::test]
async fn nothing_is_built_beside_what_is_not_complete_or_has_gone() {
    let env = TestEnv::new().await;
    let none = env.conn.begin_shadow_rebuilds(&[user(ME)], LEASE_MS).await;
    assert!(none.unwrap().is_empty());
    let rebuild = env.begin(ME).await;
    let none = env.conn.begin_shadow_rebuilds(&[user(ME)], LEASE_MS).await;
    assert!(none.unwrap().is_empty());
    assert!(env.complete(&rebuild, &[(BOSS, "1,0,0")]).await);

    let first = env
        .conn
        .begin_shadow_rebuilds(&[user(ME)], LEASE_MS)
        .await
        .unwrap();
    let second = env
        .conn
        .begin_shadow_rebuilds(&[user(ME)], LEASE_MS)
        .await
        .unwrap();
    assert!(!env.complete(&first[0], &[(BOSS, "7,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
    assert!(env.complete(&second[0], &[(BOSS, "2,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 2)]));
}

use schemas::DeviceClass::{Mobile, Pc};
use unread_store::{BeginOutcome, UnreadView};

use crate::test_env::{BOSS, LEASE_MS, ME, TestEnv, complete, messages, ordinals, read, user};

#[tokio::test]
async fn events_during_a_rebuild_are_kept_and_shown_only_after_it() {
    let mut env = TestEnv::new().await;
    let rebuild = env.begin(ME).await;
    assert!(!env.apply(messages(ME, BOSS, 5)).await);
    assert!(!env.apply(messages(ME, 1002, 1)).await);
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
async fn an_ended_lease_is_taken_over_with_what_was_applied() {
    let mut env = TestEnv::new().await;
    let first = env.begin_with_lease(ME, 0).await;
    // It is kept all the same: the holder may be slow and not dead. But somebody has to look after it.
    assert!(env.apply(messages(ME, BOSS, 5)).await);
    assert_eq!(env.conn.rebuild_requests(100).await.unwrap(), [user(ME)]);

    let second = env.begin(ME).await;
    assert!(!env.complete(&first, &[(1002, "9,0,0")]).await);
    assert_eq!(env.unread(ME, Pc).await, UnreadView::Rebuilding);
    assert!(env.complete(&second, &[(BOSS, "4,1,0")]).await);
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
    let row = |peer: i64| (user(peer + ME), ordinals("2,1,0"));
    let rows: Vec<_> = (1..=100_000).map(row).collect();
    assert!(env.conn.complete_rebuild(&rebuild, &rows).await.unwrap());
    let raw = env.raw(ME).await;
    let state = raw.state.unwrap().value;
    assert_eq!(state.peers.len(), 100_000);
    assert_eq!(raw.views.pc.unwrap().value, state.counts(Pc));
    assert_eq!(raw.views.mobile.unwrap().value, state.counts(Mobile));
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

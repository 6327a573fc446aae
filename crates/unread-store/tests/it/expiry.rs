use schemas::DeviceClass::{Mobile, Pc};
use unread_store::{Expiry, RawUser, UnreadView};

use crate::test_env::{BOSS, ME, TestEnv, messages, read, user};

/// When the state expires; the views that are there must expire with it.
fn expires_at(raw: &RawUser) -> i64 {
    let at = raw.state.as_ref().unwrap().expires_at_ms.unwrap();
    for view in [&raw.views.pc, &raw.views.mobile].into_iter().flatten() {
        assert_eq!(view.expires_at_ms, Some(at));
    }
    at
}

/// Makes what is left visibly shorter than a renewed expiry would be.
async fn shorten(env: &TestEnv) -> i64 {
    let at = expires_at(&env.raw(ME).await) - 1_000_000_000;
    for key in ["state-1000", "pc-1000", "mobile-1000"] {
        let _: i64 = env.redis(&format!("PEXPIREAT {key} {at}")).await;
    }
    at
}

#[tokio::test]
async fn a_rebuild_sets_one_expiry_on_all() {
    let env = TestEnv::new().await;
    let before: Vec<i64> = env.redis("TIME").await;
    env.load(ME, &[(BOSS, "3,0,0")]).await;
    let raw = env.raw(ME).await;
    assert!(raw.views.pc.is_some() && raw.views.mobile.is_some());
    let lifetime = expires_at(&raw) - before[0] * 1_000;
    let thirty_days = 30 * 24 * 60 * 60 * 1_000;
    assert!(
        (thirty_days..thirty_days + 60_000).contains(&lifetime),
        "{lifetime}"
    );
}

#[tokio::test]
async fn messages_do_not_renew_and_new_views_take_the_states_expiry() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    let at = shorten(&env).await;
    env.apply(messages(ME, BOSS, 1)).await;
    let raw = env.raw(ME).await;
    assert!(raw.views.pc.is_some() && raw.views.mobile.is_some());
    assert_eq!(expires_at(&raw), at);
}

#[tokio::test]
async fn a_view_that_became_empty_comes_back_with_the_expiry() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "1,0,0")]).await;
    env.apply(read(ME, BOSS, Pc, Some(1))).await;
    assert_eq!(env.raw(ME).await.views.pc, None);
    let at = shorten(&env).await;
    env.apply(messages(ME, BOSS, 2)).await;
    let raw = env.raw(ME).await;
    assert!(raw.views.pc.is_some());
    assert_eq!(expires_at(&raw), at);
}

#[tokio::test]
async fn the_users_own_acks_and_reads_renew() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "3,0,0")]).await;
    let short = shorten(&env).await;
    env.apply(read(ME, BOSS, Mobile, Some(1))).await;
    assert!(expires_at(&env.raw(ME).await) > short);

    let short = shorten(&env).await;
    let look = env.conn.read_unread(user(ME), Pc, Expiry::Keep);
    look.await.unwrap();
    assert_eq!(expires_at(&env.raw(ME).await), short);
    let look = env.conn.read_unread(user(ME), Pc, Expiry::Renew);
    look.await.unwrap();
    assert!(expires_at(&env.raw(ME).await) > short);
}

#[tokio::test]
async fn a_state_made_to_last_for_ever_gets_its_expiry_back() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    env.redis::<i64>("PERSIST state-1000").await;
    env.apply(messages(ME, BOSS, 1)).await;
    expires_at(&env.raw(ME).await);
}

/// Redis evicts keys one by one, and the next event makes the view again, with its own count alone.
#[tokio::test]
async fn a_view_that_was_evicted_is_rebuilt_with_the_next_read_of_its_user() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "3,0,0"), (7, "5,0,5")]).await;
    let read = |expiry| env.conn.read_unread(user(ME), Pc, expiry);
    let whole = read(Expiry::Renew).await.unwrap();
    assert!(matches!(whole, UnreadView::Complete { .. }), "{whole:?}");
    let evicted: i64 = env.redis("DEL pc-1000").await;
    assert_eq!(evicted, 1);
    env.apply(messages(ME, BOSS, 4)).await;

    // Whoever only checks changes nothing.
    let read = |expiry| env.conn.read_unread(user(ME), Mobile, expiry);
    let kept = read(Expiry::Keep).await.unwrap();
    assert!(matches!(kept, UnreadView::Complete { .. }), "{kept:?}");
    assert_eq!(read(Expiry::Renew).await.unwrap(), UnreadView::Absent);
    assert_eq!(env.raw(ME).await.state, None);
}

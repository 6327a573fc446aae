use schemas::DeviceClass::Pc;
use unread_store::{MemoryLimit, ResumePlan, UnreadError};

use crate::test_env::{BOSS, ME, TestEnv, complete, messages, partition};

#[tokio::test]
async fn lost_scripts_are_loaded_again() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    env.redis::<String>("SCRIPT FLUSH").await;
    let step = env.step(1, 0, 1);
    let applied = env.batch(&[messages(ME, BOSS, 1)], &[step]).await;
    assert_eq!(applied.unwrap().absent, []);
    env.redis::<String>("SCRIPT FLUSH").await;
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
    env.redis::<String>("SCRIPT FLUSH").await;
    env.begin(2).await;
}

#[tokio::test]
async fn a_server_that_comes_back_younger_is_noticed_and_healed() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    let first = [env.step(17, 0, 1), env.step(18, 0, 1)];
    let second = [env.step(17, 1, 2)];
    let batch = [messages(ME, BOSS, 1)];
    env.batch(&batch, &first).await.unwrap();
    let written = env.server.log_length();
    let batch = [messages(ME, BOSS, 2)];
    env.batch(&batch, &second).await.unwrap();
    let remembered = env.conn.read_positions().await.unwrap();

    env.server.kill();
    env.server.cut_log(written);
    let lost = env.batch(&batch, &[]).await;
    assert!(matches!(lost, Err(UnreadError::Transient(_))), "{lost:?}");
    env.server.restart();
    // It never comes back by itself, or nobody would read the watermarks.
    let broken = env.batch(&batch, &[]).await;
    assert!(matches!(broken, Err(UnreadError::Broken)), "{broken:?}");

    env.reconnect().await;
    let found = env.conn.read_positions().await.unwrap();
    let behind = ResumePlan::Resume {
        generation: env.generation,
        behind: vec![partition(17)],
        replaced: false,
    };
    assert_eq!(ResumePlan::new(&remembered, &found), behind);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));

    env.batch(&batch, &second).await.unwrap();
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 2)]));
    assert_eq!(env.conn.read_positions().await.unwrap(), remembered);
}

#[tokio::test]
async fn a_crash_keeps_what_was_answered() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    let step = [env.step(17, 0, 1)];
    let batch = [messages(ME, BOSS, 1)];
    env.batch(&batch, &step).await.unwrap();
    let remembered = env.conn.read_positions().await.unwrap();
    env.server.kill();
    env.server.restart();
    env.reconnect().await;
    assert_eq!(env.conn.read_positions().await.unwrap(), remembered);
    assert_eq!(env.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
}

#[tokio::test]
async fn what_redis_refuses_is_transient_and_ends_the_connection() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    env.redis::<String>("CONFIG SET maxmemory 1").await;
    let refused = env.batch(&[messages(ME, BOSS, 1)], &[]).await;
    assert!(matches!(refused, Err(UnreadError::Transient(_))));
    assert!(env.conn.has_failed());
}

#[tokio::test]
async fn a_server_says_what_it_may_keep() {
    let env = TestEnv::new().await;
    let limit = |policy: &str, is_reached| MemoryLimit {
        policy: policy.to_owned(),
        is_reached,
    };
    let says = async |env: &TestEnv| env.conn.memory_limit().await.unwrap().unwrap();
    assert_eq!(says(&env).await, limit("noeviction", false));
    env.redis::<String>("CONFIG SET maxmemory 1").await;
    assert_eq!(says(&env).await, limit("noeviction", true));
    env.redis::<String>("CONFIG SET maxmemory-policy allkeys-lru")
        .await;
    env.redis::<String>("CONFIG SET maxmemory 1000000000").await;
    assert_eq!(says(&env).await, limit("allkeys-lru", false));
}

#[tokio::test]
async fn a_batch_that_is_rejected_leaves_its_positions() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[]).await;
    // StoredPositions may be written, and nobody's counts.
    env.redis::<String>("ACL SETUSER default resetkeys ~tidemark:mark:*")
        .await;
    let step = env.step(17, 0, 43);
    let refused = env.batch(&[messages(ME, BOSS, 1)], &[step]).await;
    assert!(matches!(refused, Err(UnreadError::Transient(_))));
    env.redis::<String>("ACL SETUSER default ~*").await;
    env.reconnect().await;
    let positions = env.conn.read_positions().await.unwrap();
    assert_eq!(positions.get(step.partition), Some(step.from));
}

use schemas::DeviceClass::Pc;
use unread_store::{MarkPlan, UnreadError, plan};

use crate::world::{BOSS, ME, World, complete, messages, partition};

#[tokio::test]
async fn lost_scripts_are_loaded_again() {
    let mut world = World::new().await;
    world.load(ME, &[]).await;
    world.redis::<String>("SCRIPT FLUSH").await;
    let step = world.step(1, 0, 1);
    let applied = world.batch(&[messages(ME, BOSS, 1)], &[step]).await;
    assert_eq!(applied.unwrap().absent, []);
    world.redis::<String>("SCRIPT FLUSH").await;
    assert_eq!(world.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
    world.redis::<String>("SCRIPT FLUSH").await;
    world.begin(2).await;
}

#[tokio::test]
async fn a_server_that_comes_back_younger_is_noticed_and_healed() {
    let mut world = World::new().await;
    world.load(ME, &[]).await;
    let first = [world.step(17, 0, 1), world.step(18, 0, 1)];
    let second = [world.step(17, 1, 2)];
    let batch = [messages(ME, BOSS, 1)];
    world.batch(&batch, &first).await.unwrap();
    let written = world.server.log_length();
    let batch = [messages(ME, BOSS, 2)];
    world.batch(&batch, &second).await.unwrap();
    let remembered = world.conn.read_marks().await.unwrap();

    world.server.kill();
    world.server.cut_log(written);
    let lost = world.batch(&batch, &[]).await;
    assert!(matches!(lost, Err(UnreadError::Transient(_))), "{lost:?}");
    world.server.restart();
    // It never comes back by itself, or nobody would read the marks.
    let broken = world.batch(&batch, &[]).await;
    assert!(matches!(broken, Err(UnreadError::Broken)), "{broken:?}");

    world.reconnect().await;
    let found = world.conn.read_marks().await.unwrap();
    let behind = MarkPlan::Resume {
        generation: world.generation,
        behind: vec![partition(17)],
        replaced: false,
    };
    assert_eq!(plan(&remembered, &found), behind);
    assert_eq!(world.unread(ME, Pc).await, complete(&[(BOSS, 1)]));

    world.batch(&batch, &second).await.unwrap();
    assert_eq!(world.unread(ME, Pc).await, complete(&[(BOSS, 2)]));
    assert_eq!(world.conn.read_marks().await.unwrap(), remembered);
}

#[tokio::test]
async fn a_crash_keeps_what_was_answered() {
    let mut world = World::new().await;
    world.load(ME, &[]).await;
    let step = [world.step(17, 0, 1)];
    let batch = [messages(ME, BOSS, 1)];
    world.batch(&batch, &step).await.unwrap();
    let remembered = world.conn.read_marks().await.unwrap();
    world.server.kill();
    world.server.restart();
    world.reconnect().await;
    assert_eq!(world.conn.read_marks().await.unwrap(), remembered);
    assert_eq!(world.unread(ME, Pc).await, complete(&[(BOSS, 1)]));
}

#[tokio::test]
async fn what_redis_refuses_is_transient_and_ends_the_connection() {
    let mut world = World::new().await;
    world.load(ME, &[]).await;
    world.redis::<String>("CONFIG SET maxmemory 1").await;
    let refused = world.batch(&[messages(ME, BOSS, 1)], &[]).await;
    assert!(matches!(refused, Err(UnreadError::Transient(_))));
    assert!(world.conn.has_failed());
}

#[tokio::test]
async fn a_batch_that_is_refused_leaves_its_marks() {
    let mut world = World::new().await;
    world.load(ME, &[]).await;
    // Marks may be written, and nobody's counts.
    world
        .redis::<String>("ACL SETUSER default resetkeys ~tidemark:mark:*")
        .await;
    let step = world.step(17, 0, 43);
    let refused = world.batch(&[messages(ME, BOSS, 1)], &[step]).await;
    assert!(matches!(refused, Err(UnreadError::Transient(_))));
    world.redis::<String>("ACL SETUSER default ~*").await;
    world.reconnect().await;
    let marks = world.conn.read_marks().await.unwrap();
    assert_eq!(marks.get(step.partition), Some(step.from));
}

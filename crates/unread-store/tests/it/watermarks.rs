use unread_store::{UnreadError, WatermarkPlan, Watermarks, plan};

use crate::test_env::{BOSS, ME, TestEnv, messages, partition, src, user};

#[tokio::test]
async fn marks_move_with_their_batch() {
    let mut env = TestEnv::new().await;
    let moves = [env.step(3, 0, 10), env.step(63, 0, 7)];
    env.batch(&[messages(ME, BOSS, 1)], &moves).await.unwrap();
    let watermarks = env.conn.read_marks().await.unwrap();
    assert_eq!(watermarks.get(partition(3)), Some(env.watermark(10)));
    assert_eq!(watermarks.get(partition(63)), Some(env.watermark(7)));
    assert_eq!(watermarks.get(partition(4)), Some(env.watermark(0)));
    assert_eq!(watermarks.generation(), Some(env.generation));
}

#[tokio::test]
async fn a_mark_that_is_not_as_remembered_moves_none() {
    let mut env = TestEnv::new().await;
    let wrong = env.step(4, 5, 10);
    let right = env.step(3, 0, 10);
    let moved = env.batch(&[], &[right, wrong]).await;
    assert!(matches!(moved, Err(UnreadError::MarksMoved)));
    let watermarks = env.conn.read_marks().await.unwrap();
    assert_eq!(watermarks.get(partition(3)), Some(env.watermark(0)));
    // The connection is as good as before.
    assert!(!env.conn.has_failed());
    let moved = env.batch(&[], &[right]).await;
    moved.unwrap();
}

#[tokio::test]
async fn the_same_offset_with_another_src_is_another_mark() {
    let mut env = TestEnv::new().await;
    let mut step = env.step(3, 0, 10);
    step.from.src = src(17);
    let moved = env.batch(&[], &[step]).await;
    assert!(matches!(moved, Err(UnreadError::MarksMoved)));
}

#[tokio::test]
async fn the_first_to_initialise_decides() {
    let env = TestEnv::new().await;
    let again = env.conn.initialise_marks(&[(99, src(98)); 64]).await;
    assert_eq!(again.unwrap(), env.generation);
    let watermarks = env.conn.read_marks().await.unwrap();
    assert_eq!(watermarks.get(partition(0)), Some(env.watermark(0)));
}

#[tokio::test]
async fn an_emptied_node_begins_a_new_generation_and_nothing_before_that() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "1,0,0")]).await;
    let remembered = env.conn.read_marks().await.unwrap();
    env.redis::<String>("FLUSHALL").await;

    let found = env.conn.read_marks().await.unwrap();
    assert_eq!(found, Watermarks::NONE);
    assert_eq!(plan(&remembered, &found), WatermarkPlan::Initialise);
    let begun = env.conn.begin_rebuild(user(ME), 1_000).await;
    assert!(matches!(begun, Err(UnreadError::NotReady)));
    let step = env.step(3, 0, 10);
    let moved = env.batch(&[], &[step]).await;
    assert!(matches!(moved, Err(UnreadError::MarksMoved)));

    let ends = [(42, src(41)); 64];
    let generation = env.conn.initialise_marks(&ends).await.unwrap();
    assert_ne!(generation, env.generation);
    let found = env.conn.read_marks().await.unwrap();
    let resumed = WatermarkPlan::Resume {
        generation,
        behind: vec![],
        replaced: true,
    };
    assert_eq!(plan(&remembered, &found), resumed);
    env.load(ME, &[(BOSS, "2,0,0")]).await;
}

#[tokio::test]
async fn lost_marks_are_repaired_and_present_ones_stay() {
    let env = TestEnv::new().await;
    let remembered = env.conn.read_marks().await.unwrap();
    env.redis::<i64>("DEL tidemark:mark:5 tidemark:mark:6")
        .await;
    let begun = env.conn.begin_rebuild(user(ME), 1_000).await;
    assert!(matches!(begun, Err(UnreadError::NotReady)));

    let found = env.conn.read_marks().await.unwrap();
    let WatermarkPlan::Repair(mut repairs) = plan(&remembered, &found) else {
        panic!("no repair");
    };
    assert_eq!(repairs.len(), 2);
    repairs.push((partition(7), env.watermark(99)));
    env.conn.repair_marks(&repairs).await.unwrap();
    assert_eq!(env.conn.read_marks().await.unwrap(), remembered);
}

#[tokio::test]
async fn lost_marks_that_nobody_remembers_begin_a_new_generation() {
    let env = TestEnv::new().await;
    env.redis::<i64>("DEL tidemark:mark:5").await;
    let found = env.conn.read_marks().await.unwrap();
    assert_eq!(plan(&Watermarks::NONE, &found), WatermarkPlan::Initialise);
    let generation = env.conn.initialise_marks(&[(1, src(0)); 64]).await.unwrap();
    assert_ne!(generation, env.generation);
    let found = env.conn.read_marks().await.unwrap();
    assert_eq!(found.generation(), Some(generation));
}

#[tokio::test]
async fn a_mark_that_is_not_ours_is_named() {
    let env = TestEnv::new().await;
    env.redis::<i64>("HSET tidemark:mark:5 offset soon").await;
    let error = env.conn.read_marks().await.unwrap_err().to_string();
    assert!(error.contains("tidemark:mark:5"), "{error}");
}

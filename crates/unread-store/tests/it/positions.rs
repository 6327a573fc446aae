use unread_store::{ResumePlan, StoredPositions, UnreadError};

use crate::test_env::{BOSS, ME, TestEnv, ends, messages, partition, src, user};

#[tokio::test]
async fn positions_move_with_their_batch() {
    let mut env = TestEnv::new().await;
    let moves = [env.step(3, 0, 10), env.step(63, 0, 7)];
    env.batch(&[messages(ME, BOSS, 1)], &moves).await.unwrap();
    let positions = env.conn.read_positions().await.unwrap();
    assert_eq!(positions.get(partition(3)), Some(env.stored(10)));
    assert_eq!(positions.get(partition(63)), Some(env.stored(7)));
    assert_eq!(positions.get(partition(4)), Some(env.stored(0)));
    assert_eq!(positions.generation(), Some(env.generation));
}

#[tokio::test]
async fn a_position_that_is_not_the_expected_one_moves_none() {
    let mut env = TestEnv::new().await;
    let wrong = env.step(4, 5, 10);
    let right = env.step(3, 0, 10);
    let moved = env.batch(&[], &[right, wrong]).await;
    assert!(matches!(moved, Err(UnreadError::PositionsMoved)));
    let positions = env.conn.read_positions().await.unwrap();
    assert_eq!(positions.get(partition(3)), Some(env.stored(0)));
    // The connection is as good as before.
    assert!(!env.conn.has_failed());
    let moved = env.batch(&[], &[right]).await;
    moved.unwrap();
}

#[tokio::test]
async fn the_same_offset_with_another_watermark_is_another_position() {
    let mut env = TestEnv::new().await;
    let mut step = env.step(3, 0, 10);
    step.from.position.watermark = src(17);
    let moved = env.batch(&[], &[step]).await;
    assert!(matches!(moved, Err(UnreadError::PositionsMoved)));
}

#[tokio::test]
async fn the_first_to_initialise_sets_the_generation() {
    let env = TestEnv::new().await;
    let again = env.conn.initialise_positions(&ends(99)).await;
    assert_eq!(again.unwrap(), env.generation);
    let positions = env.conn.read_positions().await.unwrap();
    assert_eq!(positions.get(partition(0)), Some(env.stored(0)));
}

#[tokio::test]
async fn an_emptied_node_begins_a_new_generation_before_anything_else() {
    let mut env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "1,0,0")]).await;
    let remembered = env.conn.read_positions().await.unwrap();
    env.redis::<String>("FLUSHALL").await;

    let found = env.conn.read_positions().await.unwrap();
    assert_eq!(found, StoredPositions::default());
    assert_eq!(ResumePlan::new(&remembered, &found), ResumePlan::Initialise);
    let begun = env.conn.begin_rebuild(user(ME), 1_000).await;
    assert!(matches!(begun, Err(UnreadError::NotReady)));
    let step = env.step(3, 0, 10);
    let moved = env.batch(&[], &[step]).await;
    assert!(matches!(moved, Err(UnreadError::PositionsMoved)));

    let generation = env.initialise_at(42).await;
    assert_ne!(generation, env.generation);
    let found = env.conn.read_positions().await.unwrap();
    let resumed = ResumePlan::Resume {
        generation,
        behind: vec![],
        replaced: true,
    };
    assert_eq!(ResumePlan::new(&remembered, &found), resumed);
    env.load(ME, &[(BOSS, "2,0,0")]).await;
}

#[tokio::test]
async fn lost_positions_are_repaired_and_present_ones_stay() {
    let env = TestEnv::new().await;
    let remembered = env.conn.read_positions().await.unwrap();
    env.redis::<i64>("DEL tidemark:mark:5 tidemark:mark:6")
        .await;
    let begun = env.conn.begin_rebuild(user(ME), 1_000).await;
    assert!(matches!(begun, Err(UnreadError::NotReady)));

    let found = env.conn.read_positions().await.unwrap();
    let ResumePlan::Repair(mut repairs) = ResumePlan::new(&remembered, &found) else {
        panic!("no repair");
    };
    assert_eq!(repairs.len(), 2);
    repairs.push((partition(7), env.stored(99)));
    env.conn.repair_positions(&repairs).await.unwrap();
    assert_eq!(env.conn.read_positions().await.unwrap(), remembered);
}

#[tokio::test]
async fn a_new_generation_leaves_no_key_of_an_earlier_one() {
    let env = TestEnv::new().await;
    env.load(ME, &[(BOSS, "1,0,0")]).await;
    env.redis::<i64>("DEL tidemark:mark:5").await;
    env.redis::<String>("SET pc-of-somebody-else 1").await;
    let generation = env.initialise_at(1).await;
    assert_ne!(generation, env.generation);
    let found = env.conn.read_positions().await.unwrap();
    assert_eq!(found.generation(), Some(generation));
    for key in ["state", "pc", "mobile"] {
        let exists = env.redis::<i64>(&format!("EXISTS {key}-{ME}")).await;
        assert_eq!(exists, 0, "{key}");
    }
    assert_eq!(env.redis::<i64>("EXISTS pc-of-somebody-else").await, 1);
}

#[tokio::test]
async fn an_invalid_position_is_named() {
    let env = TestEnv::new().await;
    env.redis::<i64>("HSET tidemark:mark:5 offset soon").await;
    let error = env.conn.read_positions().await.unwrap_err().to_string();
    assert!(error.contains("tidemark:mark:5"), "{error}");
}

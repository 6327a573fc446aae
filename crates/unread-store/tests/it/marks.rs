use unread_store::{MarkPlan, Marks, UnreadError, plan};

use crate::world::{BOSS, ME, World, messages, partition, src, user};

#[tokio::test]
async fn marks_move_with_their_batch() {
    let mut world = World::new().await;
    let moves = [world.step(3, 0, 10), world.step(63, 0, 7)];
    world.batch(&[messages(ME, BOSS, 1)], &moves).await.unwrap();
    let marks = world.conn.read_marks().await.unwrap();
    assert_eq!(marks.get(partition(3)), Some(world.mark(10)));
    assert_eq!(marks.get(partition(63)), Some(world.mark(7)));
    assert_eq!(marks.get(partition(4)), Some(world.mark(0)));
    assert_eq!(marks.generation(), Some(world.generation));
}

#[tokio::test]
async fn a_mark_that_is_not_as_remembered_moves_none() {
    let mut world = World::new().await;
    let wrong = world.step(4, 5, 10);
    let right = world.step(3, 0, 10);
    let moved = world.batch(&[], &[right, wrong]).await;
    assert!(matches!(moved, Err(UnreadError::MarksMoved)));
    let marks = world.conn.read_marks().await.unwrap();
    assert_eq!(marks.get(partition(3)), Some(world.mark(0)));
    // The connection is as good as before.
    assert!(!world.conn.has_failed());
    let moved = world.batch(&[], &[right]).await;
    moved.unwrap();
}

#[tokio::test]
async fn the_same_offset_with_another_src_is_another_mark() {
    let mut world = World::new().await;
    let mut step = world.step(3, 0, 10);
    step.from.src = src(17);
    let moved = world.batch(&[], &[step]).await;
    assert!(matches!(moved, Err(UnreadError::MarksMoved)));
}

#[tokio::test]
async fn the_first_to_initialise_decides() {
    let world = World::new().await;
    let again = world.conn.initialise_marks(&[(99, src(98)); 64]).await;
    assert_eq!(again.unwrap(), world.generation);
    let marks = world.conn.read_marks().await.unwrap();
    assert_eq!(marks.get(partition(0)), Some(world.mark(0)));
}

#[tokio::test]
async fn an_emptied_node_begins_a_new_generation_and_nothing_before_that() {
    let mut world = World::new().await;
    world.load(ME, &[(BOSS, "1,0,0")]).await;
    let remembered = world.conn.read_marks().await.unwrap();
    world.redis::<String>("FLUSHALL").await;

    let found = world.conn.read_marks().await.unwrap();
    assert_eq!(found, Marks::NONE);
    assert_eq!(plan(&remembered, &found), MarkPlan::Initialise);
    let begun = world.conn.begin_rebuild(user(ME), 1_000).await;
    assert!(matches!(begun, Err(UnreadError::NotReady)));
    let step = world.step(3, 0, 10);
    let moved = world.batch(&[], &[step]).await;
    assert!(matches!(moved, Err(UnreadError::MarksMoved)));

    let ends = [(42, src(41)); 64];
    let generation = world.conn.initialise_marks(&ends).await.unwrap();
    assert_ne!(generation, world.generation);
    let found = world.conn.read_marks().await.unwrap();
    let resumed = MarkPlan::Resume {
        generation,
        behind: vec![],
        replaced: true,
    };
    assert_eq!(plan(&remembered, &found), resumed);
    world.load(ME, &[(BOSS, "2,0,0")]).await;
}

#[tokio::test]
async fn lost_marks_are_repaired_and_present_ones_stay() {
    let world = World::new().await;
    let remembered = world.conn.read_marks().await.unwrap();
    world
        .redis::<i64>("DEL tidemark:mark:5 tidemark:mark:6")
        .await;
    let begun = world.conn.begin_rebuild(user(ME), 1_000).await;
    assert!(matches!(begun, Err(UnreadError::NotReady)));

    let found = world.conn.read_marks().await.unwrap();
    let MarkPlan::Repair(mut repairs) = plan(&remembered, &found) else {
        panic!("no repair");
    };
    assert_eq!(repairs.len(), 2);
    repairs.push((partition(7), world.mark(99)));
    world.conn.repair_marks(&repairs).await.unwrap();
    assert_eq!(world.conn.read_marks().await.unwrap(), remembered);
}

#[tokio::test]
async fn lost_marks_that_nobody_remembers_begin_a_new_generation() {
    let world = World::new().await;
    world.redis::<i64>("DEL tidemark:mark:5").await;
    let found = world.conn.read_marks().await.unwrap();
    assert_eq!(plan(&Marks::NONE, &found), MarkPlan::Initialise);
    let generation = world
        .conn
        .initialise_marks(&[(1, src(0)); 64])
        .await
        .unwrap();
    assert_ne!(generation, world.generation);
    let found = world.conn.read_marks().await.unwrap();
    assert_eq!(found.generation(), Some(generation));
}

#[tokio::test]
async fn a_mark_that_is_not_ours_is_named() {
    let world = World::new().await;
    world.redis::<i64>("HSET tidemark:mark:5 offset soon").await;
    let error = world.conn.read_marks().await.unwrap_err().to_string();
    assert!(error.contains("tidemark:mark:5"), "{error}");
}

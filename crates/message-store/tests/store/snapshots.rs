use std::time::{Duration, Instant};

use message_store::Sink;
use schemas::{LogPosition, Mid};

use crate::support::{Fixture, conversation, message, resume, rows_of, step};

#[tokio::test]
async fn a_snapshot_stays_as_it_was() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(22);
    let partition = conversation(users).partition();
    let shard = fixture.shard(partition);
    let mut before = fixture.store.snapshot(shard).await.unwrap();
    let moves = [step(partition, LogPosition::default(), resume(2))];
    fixture
        .store
        .write_messages(
            shard,
            &fixture.topic,
            &rows_of(&[message(users, 1)], &[]),
            &moves,
        )
        .await
        .unwrap();
    let mut after = fixture.store.snapshot(shard).await.unwrap();
    for (snapshot, expected, rows) in [
        (&mut before, LogPosition::default(), 0),
        (&mut after, resume(2), 1),
    ] {
        let watermarks = snapshot
            .resume_offsets(Sink::Messages, &fixture.topic, &[partition])
            .await
            .unwrap();
        assert_eq!(watermarks[partition], expected);
        let page = snapshot
            .page_before(conversation(users), None, Mid::ZERO, 10)
            .await
            .unwrap();
        assert_eq!(page.len(), rows);
    }
}

#[tokio::test]
async fn offsets_and_rows_agree_while_being_written() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(23);
    let partition = conversation(users).partition();
    let shard = fixture.shard(partition);
    let (store, topic) = (fixture.store.clone(), fixture.topic.clone());
    let writer = tokio::spawn(async move {
        let mut from = LogPosition::default();
        for batch in 0..60_i64 {
            let rows: Vec<_> = (1..=7).map(|i| message(users, batch * 7 + i)).collect();
            let to = resume((batch + 1) * 7);
            store
                .write_messages(
                    shard,
                    &topic,
                    &rows_of(&rows, &[]),
                    &[step(partition, from, to)],
                )
                .await
                .unwrap();
            from = to;
        }
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut seen = 0;
    while seen < 60 * 7 {
        let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
        // Rows first: a reader without a snapshot would see the offset run ahead of them.
        let rows = snapshot
            .page_before(conversation(users), None, Mid::ZERO, 1000)
            .await
            .unwrap();
        let watermarks = snapshot
            .resume_offsets(Sink::Messages, &fixture.topic, &[partition])
            .await
            .unwrap();
        seen = watermarks[partition].next.get();
        assert_eq!(rows.len() as i64, seen);
        assert!(Instant::now() < deadline, "the writer is stuck at {seen}");
    }
    writer.await.unwrap();
}

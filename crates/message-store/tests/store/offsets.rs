use message_store::{MessageStore, Resume, ResumeMove, Sink, StoreError};
use schemas::{Partition, event::SrcMark};

use crate::support::{Fixture, conversation, message, resume, step};

#[tokio::test]
async fn rows_and_offset_move_together() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(6);
    let partition = Partition::of(conversation(users));
    let shard = fixture.shard(partition);
    assert_eq!(
        fixture.resume(Sink::Messages, partition).await,
        Resume::START
    );

    let to = Resume {
        next_offset: i64::MAX,
        mark: SrcMark {
            epoch: u32::MAX,
            offset: i64::MAX - 1,
        },
    };
    let first = [step(partition, Resume::START, to)];
    let rows = [message(users, 1)];
    fixture
        .store
        .write_messages(shard, &fixture.topic, &rows, &first)
        .await
        .unwrap();
    assert_eq!(fixture.resume(Sink::Messages, partition).await, to);
    // The other sinks have offsets of their own.
    assert_eq!(
        fixture.resume(Sink::Contacts, partition).await,
        Resume::START
    );

    let stale = [step(partition, Resume::START, resume(2))];
    let rows = [message(users, 2)];
    let refused = fixture
        .store
        .write_messages(shard, &fixture.topic, &rows, &stale)
        .await;
    assert!(
        matches!(
            refused,
            Err(StoreError::Moved {
                sink: Sink::Messages,
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(fixture.resume(Sink::Messages, partition).await, to);
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    assert_eq!(
        snapshot
            .page_before(conversation(users), None, 10)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn the_mark_is_part_of_the_condition() {
    let fixture = Fixture::shared().await;
    let partition = Partition::all().next().unwrap();
    let shard = fixture.shard(partition);
    let write = async |from, to| {
        let moves = [step(partition, from, to)];
        fixture
            .store
            .write_reads(shard, &fixture.topic, &[], &moves)
            .await
    };
    write(Resume::START, resume(5)).await.unwrap();
    let other_mark = Resume {
        mark: SrcMark {
            epoch: 1,
            offset: 4,
        },
        ..resume(5)
    };
    assert!(matches!(
        write(other_mark, resume(6)).await,
        Err(StoreError::Moved { .. })
    ));
    // A batch that had nothing for this database, and not even progress, is no contradiction.
    write(resume(5), resume(5)).await.unwrap();
    write(resume(5), resume(6)).await.unwrap();
}

#[tokio::test]
async fn all_partitions_move_in_one_transaction_or_none() {
    let fixture = Fixture::shared().await;
    let shard = fixture.store.layout().shards().next().unwrap();
    let write = async |moves: &[ResumeMove]| {
        fixture
            .store
            .write_contacts(shard, &fixture.topic, &[], moves)
            .await
    };
    let moves = |from: fn(i64) -> Resume, to: i64| -> Vec<ResumeMove> {
        Partition::all()
            .map(|p| step(p, from(p.get().into()), resume(to + i64::from(p.get()))))
            .collect()
    };
    write(&moves(|_| Resume::START, 1)).await.unwrap();
    let mut second = moves(|n| resume(n + 1), 100);
    write(&second).await.unwrap();
    // One of 64 that is out of date stops the other 63.
    second = moves(|n| resume(n + 100), 200);
    second[40].from = resume(7);
    assert!(matches!(
        write(&second).await,
        Err(StoreError::Moved { .. })
    ));
    for p in Partition::all() {
        let shard_resume = fixture
            .store
            .read_resume(shard, Sink::Contacts, &fixture.topic, &[p])
            .await;
        assert_eq!(shard_resume.unwrap()[&p], resume(100 + i64::from(p.get())));
    }
}

#[tokio::test]
async fn of_two_writers_one_is_turned_away() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(7);
    let partition = Partition::of(conversation(users));
    let shard = fixture.shard(partition);
    let rival = MessageStore::connect(&fixture.config);
    let mut from = Resume::START;
    for round in 0..20_i64 {
        let to = resume((round + 1) * 10);
        let moves = [step(partition, from, to)];
        let rows: Vec<_> = (1..=10).map(|i| message(users, round * 10 + i)).collect();
        let (one, two) = tokio::join!(
            fixture
                .store
                .write_messages(shard, &fixture.topic, &rows, &moves),
            rival.write_messages(shard, &fixture.topic, &rows, &moves),
        );
        let won = [&one, &two]
            .into_iter()
            .filter(|outcome| outcome.is_ok())
            .count();
        assert_eq!(won, 1, "round {round}: {one:?} {two:?}");
        let lost = one.err().or(two.err()).unwrap();
        assert!(
            matches!(lost, StoreError::Moved { .. }),
            "round {round}: {lost}"
        );
        from = fixture.resume(Sink::Messages, partition).await;
        assert_eq!(from, to);
    }
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    assert_eq!(
        snapshot
            .page_before(conversation(users), None, 1000)
            .await
            .unwrap()
            .len(),
        200
    );
}

use message_store::{
    ChangeRow, MessageRow, MessageState, MessageStore, OffsetUpdate, Sink, StoreError,
};
use schemas::{
    Change, GroupId, LogPosition, Mid, NextOffset, Partition, UserId, event::SourceOffset,
};
use sqlx::AssertSqlSafe;

use crate::{
    changes::{change, edit},
    support::{Fixture, contacts, conversation, group, message, resume, rows_of, step, to_group},
};

#[tokio::test]
async fn rows_and_offset_move_together() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(6);
    let partition = conversation(users).partition();
    let shard = fixture.shard(partition);
    assert_eq!(
        fixture.resume(Sink::Messages, partition).await,
        LogPosition::default()
    );

    let to = LogPosition {
        next: NextOffset::new(i64::MAX),
        watermark: SourceOffset {
            epoch: u32::MAX,
            offset: i64::MAX - 1,
        },
    };
    let first = [step(partition, LogPosition::default(), to)];
    let rows = [message(users, 1)];
    fixture
        .store
        .write_messages(shard, &fixture.topic, &rows_of(&rows, &[]), &first)
        .await
        .unwrap();
    assert_eq!(fixture.resume(Sink::Messages, partition).await, to);
    // The other sinks have offsets of their own.
    assert_eq!(
        fixture.resume(Sink::Contacts, partition).await,
        LogPosition::default()
    );

    let stale = [step(partition, LogPosition::default(), resume(2))];
    let rows = [message(users, 2)];
    let refused = fixture
        .store
        .write_messages(shard, &fixture.topic, &rows_of(&rows, &[]), &stale)
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
            .page_before(conversation(users), None, Mid::ZERO, 10)
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
    write(LogPosition::default(), resume(5)).await.unwrap();
    let other_mark = LogPosition {
        watermark: SourceOffset {
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
    let write = async |moves: &[OffsetUpdate]| {
        fixture
            .store
            .write_user_rows(shard, &fixture.topic, contacts(&[]), moves)
            .await
    };
    let moves = |from: fn(i64) -> LogPosition, to: i64| -> Vec<OffsetUpdate> {
        Partition::all()
            .map(|p| step(p, from(p.get().into()), resume(to + i64::from(p.get()))))
            .collect()
    };
    write(&moves(|_| LogPosition::default(), 1)).await.unwrap();
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
            .read_resume_offsets(shard, Sink::Contacts, &fixture.topic, &[p])
            .await;
        assert_eq!(shard_resume.unwrap()[p], resume(100 + i64::from(p.get())));
    }
}

#[tokio::test]
async fn of_two_writers_one_is_turned_away() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(7);
    let partition = conversation(users).partition();
    let shard = fixture.shard(partition);
    let rival = MessageStore::connect(&fixture.config);
    let mut from = LogPosition::default();
    for round in 0..20_i64 {
        let to = resume((round + 1) * 10);
        let moves = [step(partition, from, to)];
        let rows: Vec<_> = (1..=10).map(|i| message(users, round * 10 + i)).collect();
        let rows = rows_of(&rows, &[]);
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
            .page_before(conversation(users), None, Mid::ZERO, 1000)
            .await
            .unwrap()
            .len(),
        200
    );
}

/// One partition that no other test writes to.
struct Lost {
    fixture: Fixture,
    users: (UserId, UserId),
    partition: Partition,
    /// The messages are a group's.
    gid: Option<GroupId>,
}

impl Lost {
    async fn new(n: u8) -> Self {
        let fixture = Fixture::shared().await;
        let users = fixture.users(n);
        let partition = conversation(users).partition();
        Self {
            fixture,
            users,
            partition,
            gid: None,
        }
    }

    async fn in_group(n: u8) -> Self {
        let lost = Self::new(n).await;
        Self {
            gid: Some(group(lost.users)),
            ..lost
        }
    }

    /// The log's rows at these offsets.
    fn log(&self, offsets: std::ops::Range<i64>) -> Vec<MessageRow> {
        let row = |offset| MessageRow {
            id: offset,
            ..message(self.users, offset + 1)
        };
        let row = |offset| match self.gid {
            None => row(offset),
            Some(gid) => to_group(gid, row(offset)),
        };
        offsets.map(row).collect()
    }

    async fn write(
        &self,
        rows: &[MessageRow],
        from: LogPosition,
        to: LogPosition,
    ) -> Result<(), StoreError> {
        self.write_both(rows, &[], from, to).await
    }

    async fn write_both(
        &self,
        rows: &[MessageRow],
        changes: &[ChangeRow],
        from: LogPosition,
        to: LogPosition,
    ) -> Result<(), StoreError> {
        let Self {
            fixture, partition, ..
        } = self;
        let moves = [step(*partition, from, to)];
        let shard = fixture.shard(*partition);
        let topic = &fixture.topic;
        fixture
            .store
            .write_messages(shard, topic, &rows_of(rows, changes), &moves)
            .await
    }

    async fn lose_offset(&self) {
        let database = self.fixture.database(self.fixture.shard(self.partition));
        let topic = &self.fixture.topic;
        let lost = self
            .delete(&format!(
                "{database}.resume_offset WHERE sink = 'messages' AND topic = '{topic}'"
            ))
            .await;
        assert_eq!(lost, 1);
    }

    async fn delete(&self, from: &str) -> u64 {
        let mut admin = self.fixture.admin().await;
        let sql = AssertSqlSafe(format!("DELETE FROM {from}"));
        let deleted = sqlx::raw_sql(sql).execute(&mut admin).await;
        deleted.unwrap().rows_affected()
    }

    async fn table(&self) -> Vec<MessageRow> {
        let shard = self.fixture.shard(self.partition);
        let mut snapshot = self.fixture.store.snapshot(shard).await.unwrap();
        let n = self.partition.into();
        let rows = match self.gid {
            None => snapshot.scan_messages(n, -1, 1000).await,
            Some(_) => snapshot.scan_group_messages(n, -1, 1000).await,
        };
        rows.unwrap()
    }

    /// The ids of the rows of `msg_change_<n>`.
    async fn changes(&self) -> Vec<i64> {
        let shard = self.fixture.shard(self.partition);
        let mut snapshot = self.fixture.store.snapshot(shard).await.unwrap();
        let rows = snapshot.scan_changes(self.partition.into(), None, 1000);
        rows.await.unwrap().iter().map(|row| row.id).collect()
    }

    async fn resume(&self) -> LogPosition {
        self.fixture.resume(Sink::Messages, self.partition).await
    }
}

#[tokio::test]
async fn rows_whose_offset_is_lost_are_replaced_by_the_logs() {
    let lost = Lost::new(50).await;
    let log = lost.log(0..200);
    lost.write(&log[..150], LogPosition::default(), resume(150))
        .await
        .unwrap();
    lost.lose_offset().await;
    // Some rows are gone too, so that the first INSERT is no repeat; and one is not the log's.
    let table = lost.fixture.table("chat_msg", lost.partition);
    assert_eq!(lost.delete(&format!("{table} WHERE id < 70")).await, 70);
    let mut foreign = message(lost.users, 1000);
    foreign.id = 20;
    foreign.ts.0 += 1;
    lost.fixture.write(&[foreign]).await.unwrap();

    lost.write(&log[..90], LogPosition::default(), resume(90))
        .await
        .unwrap();
    assert_eq!(lost.table().await, log[..150]);
    // These begin where nothing is in the way, and go on where the old rows end.
    lost.write(&log[90..], resume(90), resume(200))
        .await
        .unwrap();
    assert_eq!(lost.table().await, log);
    assert_eq!(lost.resume().await, resume(200));
}

#[tokio::test]
async fn a_former_owner_with_an_old_offset_removes_nothing() {
    let lost = Lost::new(51).await;
    let log = lost.log(0..20);
    lost.write(&log[..10], LogPosition::default(), resume(10))
        .await
        .unwrap();
    lost.write(&log[10..], resume(10), resume(20))
        .await
        .unwrap();
    for (rows, from, to) in [
        (&log[..10], LogPosition::default(), resume(10)),
        (&log[10..15], resume(10), resume(15)),
        (&[], LogPosition::default(), resume(20)),
    ] {
        let refused = lost.write(rows, from, to).await;
        assert!(matches!(refused, Err(StoreError::Moved { .. })));
    }
    assert_eq!(lost.table().await, log);
    assert_eq!(lost.resume().await, resume(20));
}

#[tokio::test]
async fn only_what_is_written_again_is_removed() {
    let lost = Lost::new(53).await;
    let log = lost.log(0..20);
    lost.write(&log, LogPosition::default(), resume(20))
        .await
        .unwrap();
    lost.lose_offset().await;
    lost.write(&log[5..10], LogPosition::default(), resume(15))
        .await
        .unwrap();
    assert_eq!(lost.table().await, log);
}

#[tokio::test]
async fn rows_below_the_offset_are_never_removed() {
    let lost = Lost::new(52).await;
    let log = lost.log(0..20);
    lost.write(&log[..10], LogPosition::default(), resume(10))
        .await
        .unwrap();
    let refused = lost.write(&log[9..12], resume(10), resume(12)).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, StoreError::Fatal(_)), "{refused}");
    let table = lost.fixture.table("chat_msg", lost.partition);
    assert!(refused.to_string().contains(&table), "{refused}");
    assert_eq!(lost.table().await, log[..10]);
    assert_eq!(lost.resume().await, resume(10));
}

#[tokio::test]
async fn changes_whose_offset_is_lost_are_written_again() {
    for lost in [Lost::new(54).await, Lost::in_group(55).await] {
        lose_and_write_again(&lost).await;
    }
}

async fn lose_and_write_again(lost: &Lost) {
    // Messages at offsets 0 to 9, and then their changes.
    let log = lost.log(0..10);
    let changes: Vec<ChangeRow> = (10..18)
        .zip([
            (1, edit("a secret")),
            (1, Change::Recall),
            (2, edit("once")),
            (2, edit("twice")),
            (3, Change::Delete),
            (4, Change::Hide),
            (5, Change::React("👍".to_owned())),
            (5, Change::Recall),
        ])
        .map(|(id, (of, what))| {
            let row = change(lost.users, id - 9, of, what);
            let conversation = lost.gid.map_or(row.conversation, Into::into);
            ChangeRow {
                id,
                conversation,
                ..row
            }
        })
        .collect();
    let start = LogPosition::default();
    lost.write_both(&log, &changes, start, resume(18))
        .await
        .unwrap();
    let expected = lost.table().await;
    assert_eq!(expected[0].state, MessageState::Recalled);

    // From the start, in other batches; one change is gone, so that not every INSERT is a repeat.
    lost.lose_offset().await;
    let table = lost.fixture.table("msg_change", lost.partition);
    assert_eq!(lost.delete(&format!("{table} WHERE id = 12")).await, 1);
    lost.write(&log, start, resume(10)).await.unwrap();
    // The log is read again from before the recalls: no text comes back until then.
    let meanwhile = lost.table().await;
    for gone in [0, 2, 4] {
        assert_eq!(meanwhile[gone], expected[gone]);
    }
    lost.write_both(&[], &changes[..4], resume(10), resume(14))
        .await
        .unwrap();
    lost.write_both(&[], &changes[4..], resume(14), resume(18))
        .await
        .unwrap();
    assert_eq!(lost.table().await, expected);
    assert_eq!(lost.changes().await, Vec::from_iter(10..18));

    // Only the changes are above the offset: a recalled text stays away meanwhile.
    lost.lose_offset().await;
    lost.write_both(&[], &[], start, resume(10)).await.unwrap();
    for (one, next) in changes.iter().zip(11..) {
        let one = std::slice::from_ref(one);
        lost.write_both(&[], one, resume(next - 1), resume(next))
            .await
            .unwrap();
        let texts = lost.table().await;
        assert!(texts.iter().all(|row| row.msg != "a secret"));
    }
    assert_eq!(lost.table().await, expected);

    // A change below the offset is never removed.
    let refused = lost.write_both(&[], &changes[7..], resume(18), resume(19));
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused, StoreError::Fatal(_)), "{refused}");
    assert!(refused.to_string().contains(&table), "{refused}");
    assert_eq!(lost.changes().await, Vec::from_iter(10..18));
}

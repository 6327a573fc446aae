use message_store::{MessageRow, StoreError};
use proptest::{
    prelude::any,
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use schemas::{Mid, TableNumber, TimestampMs};

use crate::support::{Fixture, NOW, conversation, message, mid, rows_of, user};

async fn round_trip(fixture: &Fixture, rows: &[MessageRow]) {
    fixture.write(rows).await.unwrap();
    let conversation = rows[0].conversation();
    let shard = fixture.shard(conversation.partition());
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let before_first = mid(rows[0].mid.get() - 1);
    let page = snapshot
        .page_after(conversation, before_first, 10_000)
        .await
        .unwrap();
    assert_eq!(page, rows);
}

#[tokio::test]
async fn texts_come_back_byte_for_byte() {
    let texts = [
        "it's",
        "''",
        "\\",
        "\\'",
        "'\\",
        "\\\\'; DROP TABLE x; --",
        "\"",
        "`",
        "\t\r\n\u{8}\u{1a}",
        "%_\\%",
        "?",
        ":1",
        "--",
        "/*",
        "\u{1f30a}\u{1f469}\u{200d}\u{1f680}",
        "\u{10ffff}",
        "\u{feff}",
        "zero\0byte",
        " ",
        "end  ",
        "汉字",
        "e\u{301}",
        "-- \n'",
    ];
    let fixture = Fixture::shared().await;
    let users = fixture.users(1);
    let rows: Vec<MessageRow> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| {
            let mut row = message(users, i as i64 + 1);
            row.msg = (*text).to_owned();
            row
        })
        .collect();
    round_trip(&fixture, &rows).await;
}

#[tokio::test]
async fn any_text_comes_back() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(2);
    let mut runner = TestRunner::deterministic();
    let texts = proptest::collection::vec(any::<String>(), 500);
    let texts = texts.new_tree(&mut runner).unwrap().current();
    let rows: Vec<MessageRow> = texts
        .into_iter()
        .zip(1..)
        .map(|(text, number)| {
            let mut row = message(users, number);
            row.msg = text;
            row
        })
        .collect();
    round_trip(&fixture, &rows).await;
}

#[tokio::test]
async fn the_largest_of_everything_fits() {
    let fixture = Fixture::shared().await;
    let (one, two) = (user(i64::MAX), user(i64::MAX - 1));
    let mut rows = [
        message((one, two), i64::MAX - 1),
        message((two, one), i64::MAX),
    ];
    rows[0].msg = "\u{1f30a}".repeat(65_535 / 4) + "end";
    assert_eq!(rows[0].msg.len(), 65_535);
    rows[1].msg = "'".repeat(65_535);
    rows[1].client_msg_id = "\u{1f30a}".repeat(16).try_into().unwrap();
    round_trip(&fixture, &rows).await;

    let mut too_long = message((one, two), i64::MAX - 2);
    too_long.msg = "x".repeat(65_536);
    let refused = fixture.write(&[too_long]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fatal(_)), "{refused}");
}

#[tokio::test]
async fn times_keep_their_milliseconds() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(3);
    let mut rows = [message(users, 1), message(users, 2), message(users, 3)];
    rows[0].ts = TimestampMs(1);
    rows[1].ts = TimestampMs(NOW.0 + 999);
    rows[2].ts = TimestampMs(NOW.0 + 1000);
    round_trip(&fixture, &rows).await;
}

#[tokio::test]
async fn a_large_batch_goes_into_many_tables() {
    let fixture = Fixture::shared().await;
    let first = fixture.shard(TableNumber::all().next().unwrap());
    let tables: Vec<TableNumber> = fixture.store.layout().tables_of(first).collect();
    let pairs: Vec<_> = tables
        .iter()
        .map(|table| fixture.users(table.get()))
        .collect();
    let mut rows: Vec<MessageRow> = (1..=5000)
        .map(|number| {
            let mut row = message(pairs[number as usize % pairs.len()], number);
            // An id is unique in a table, and other tests use small ones.
            row.id += 1_000_000;
            row
        })
        .collect();
    rows.reverse();
    fixture.write(&rows).await.unwrap();
    let mut found = 0;
    for pair in pairs {
        let mut snapshot = fixture
            .store
            .snapshot(fixture.shard(tables[0]))
            .await
            .unwrap();
        found += snapshot
            .page_before(conversation(pair), None, Mid::ZERO, 5000)
            .await
            .unwrap()
            .len();
    }
    assert_eq!(found, 5000);
}

#[tokio::test]
async fn a_row_that_is_there_already_or_elsewhere_is_fatal() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(4);
    fixture.write(&[message(users, 7)]).await.unwrap();
    let refused = fixture
        .write(&[message(users, 8), message(users, 7)])
        .await
        .unwrap_err();
    assert!(matches!(refused, StoreError::Fatal(_)), "{refused}");
    let shard = fixture.shard(conversation(users).partition());
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    assert_eq!(
        snapshot
            .page_before(conversation(users), None, Mid::ZERO, 10)
            .await
            .unwrap()
            .len(),
        1
    );

    let other_shard = fixture.store.layout().shards().last().unwrap();
    let refused = fixture
        .store
        .write_messages(
            other_shard,
            &fixture.topic,
            &rows_of(&[message(users, 9)], &[]),
            &[],
        )
        .await;
    assert!(matches!(refused, Err(StoreError::Fatal(_))));
    let mut snapshot = fixture.store.snapshot(other_shard).await.unwrap();
    assert!(
        snapshot
            .page_before(conversation(users), None, Mid::ZERO, 10)
            .await
            .is_err()
    );
}

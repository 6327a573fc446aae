use std::time::Instant;

use message_store::{MONTHS_AHEAD, MessageStore, StoreError};
use schemas::TimestampMs;
use sqlx::{AssertSqlSafe, Row as _};

use crate::support::{DAY_MS, Fixture, NOW, conversation, message, mids};

#[tokio::test]
async fn it_is_applied_once_however_often_and_by_however_many() {
    let fixture = Fixture::without_schema().await;
    let other = MessageStore::connect(&fixture.config);
    let began = Instant::now();
    let (one, two) = tokio::join!(fixture.store.apply_schema(NOW), other.apply_schema(NOW));
    println!("two programs applied the schema in {:?}", began.elapsed());
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.migrations + two.migrations, 2 * 4, "{one:?} {two:?}");
    assert_eq!((one.months, two.months), (0, 0));
    let again = fixture.store.apply_schema(NOW).await.unwrap();
    assert!(again.is_unchanged(), "{again}");

    let mut admin = fixture.admin().await;
    for shard in fixture.store.layout().shards() {
        let counts = sqlx::query(
            "SELECT COUNT(*) AS tables, CAST(SUM(TABLE_COLLATION <> 'utf8mb4_bin') AS SIGNED) AS other_text \
             FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?",
        )
        .bind(fixture.database(shard))
        .fetch_one(&mut admin)
        .await
        .unwrap();
        // 16 of each kind, and the three of the database itself.
        assert_eq!(counts.get::<i64, _>("tables"), 3 * 16 + 3);
        assert_eq!(counts.get::<i64, _>("other_text"), 0);
    }
}

#[tokio::test]
async fn a_missing_month_is_waited_for_and_then_there() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    assert!(
        fixture
            .store
            .missing_months(NOW, MONTHS_AHEAD)
            .await
            .unwrap()
            .is_empty()
    );

    let users = fixture.users(5);
    let mut row = message(users, 1);
    row.ts = TimestampMs(NOW.0 + 150 * DAY_MS);
    let refused = fixture.write(std::slice::from_ref(&row)).await.unwrap_err();
    assert!(refused.is_transient(), "{refused}");

    let ahead = MONTHS_AHEAD + 3;
    let missing = fixture.store.missing_months(NOW, ahead).await.unwrap();
    assert_eq!(missing.len(), 64);
    let names: Vec<String> = missing
        .values()
        .next()
        .unwrap()
        .iter()
        .map(|m| m.to_string())
        .collect();
    assert_eq!(names, ["2027-02", "2027-03", "2027-04"]);

    let other = MessageStore::connect(&fixture.config);
    let (one, two) = tokio::join!(
        fixture.store.ensure_months(NOW, ahead),
        other.ensure_months(NOW, ahead)
    );
    assert_eq!(one.unwrap() + two.unwrap(), 3 * 64);
    assert!(
        fixture
            .store
            .missing_months(NOW, ahead)
            .await
            .unwrap()
            .is_empty()
    );
    fixture.write(std::slice::from_ref(&row)).await.unwrap();
    let shard = fixture.shard(conversation(users).partition());
    let mut snapshot = fixture.store.snapshot(shard).await.unwrap();
    let found = snapshot
        .page_before(conversation(users), None, 10)
        .await
        .unwrap();
    assert_eq!(mids(&found), [1]);
}

#[tokio::test]
async fn a_newer_schema_is_left_alone() {
    let fixture = Fixture::without_schema().await;
    let mut admin = fixture.admin().await;
    let database = fixture.database(fixture.store.layout().shards().next().unwrap());
    let newer = format!(
        "CREATE DATABASE {database}; CREATE TABLE {database}.schema_version (version INT PRIMARY KEY, name VARCHAR(64)); \
         INSERT INTO {database}.schema_version VALUES (99, 'from the future')"
    );
    sqlx::raw_sql(AssertSqlSafe(newer))
        .execute(&mut admin)
        .await
        .unwrap();
    let refused = fixture.store.apply_schema(NOW).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fatal(_)), "{refused}");
    assert!(refused.to_string().contains("99"), "{refused}");
}

#[tokio::test]
async fn without_a_schema_everything_waits() {
    let fixture = Fixture::without_schema().await;
    let users = fixture.users(0);
    let refused = fixture.write(&[message(users, 1)]).await.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
}

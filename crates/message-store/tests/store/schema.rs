use std::{collections::BTreeMap, time::Instant};

use message_store::{MONTHS_AHEAD, MessageStore, MySqlConfig, StoreError};
use schemas::{Mid, TimestampMs};
use sqlx::{AssertSqlSafe, Row as _};

use crate::support::{DAY_MS, Fixture, NOW, conversation, message, mids};

/// How many versions the first database has.
async fn versions(fixture: &Fixture) -> usize {
    let database = fixture.database(fixture.store.layout().shards().next().unwrap());
    let sql = format!("SELECT COUNT(*) FROM {database}.schema_version");
    let count: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(&mut fixture.admin().await)
        .await
        .unwrap();
    count.try_into().unwrap()
}

#[tokio::test]
async fn it_is_applied_once_however_often_and_by_however_many() {
    let fixture = Fixture::without_schema().await;
    let other = MessageStore::connect(&fixture.config);
    let began = Instant::now();
    let (one, two) = tokio::join!(fixture.store.apply_schema(NOW), other.apply_schema(NOW));
    println!("two programs applied the schema in {:?}", began.elapsed());
    let (one, two) = (one.unwrap(), two.unwrap());
    let versions = versions(&fixture).await;
    assert_eq!(
        one.migrations + two.migrations,
        4 * versions,
        "{one:?} {two:?}"
    );
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
        // 16 of each kind, and the four of the database itself.
        assert_eq!(counts.get::<i64, _>("tables"), 11 * 16 + 4);
        assert_eq!(counts.get::<i64, _>("other_text"), 0);
    }
}

/// What was there after the first version, of an apply that did not come to its end.
#[tokio::test]
async fn all_tables_of_a_kind_are_alike_where_some_were_there() {
    let fixture = Fixture::without_schema().await;
    let mut admin = fixture.admin().await;
    let database = fixture.database(fixture.store.layout().shards().next().unwrap());
    let begun = include_str!("../../sql/schema/contact.sql").replace("{database}", &database);
    let [one, another] = ["0", "3"].map(|n| begun.replace("{n}", n));
    let begun = format!("CREATE DATABASE {database} COLLATE utf8mb4_bin; {one}; {another}");
    let run = sqlx::raw_sql(AssertSqlSafe(begun)).execute(&mut admin);
    run.await.unwrap();
    fixture.store.apply_schema(NOW).await.unwrap();

    let names = format!("SHOW TABLES IN {database}");
    let names: Vec<String> = sqlx::query_scalar(AssertSqlSafe(names))
        .fetch_all(&mut admin)
        .await
        .unwrap();
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        let made = format!("SHOW CREATE TABLE {database}.`{name}`");
        let made = sqlx::query(AssertSqlSafe(made));
        let made: String = made.fetch_one(&mut admin).await.unwrap().get(1);
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let made = made.replace(&format!("`{name}`"), stem);
        kinds.entry(stem.to_owned()).or_default().push(made);
    }
    kinds.retain(|_, made| made.len() > 1);
    assert_eq!(kinds.len(), 11);
    for (kind, mut made) in kinds {
        assert_eq!(made.len(), 16, "{kind}");
        made.dedup();
        assert_eq!(made.len(), 1, "{made:#?}");
    }
}

#[tokio::test]
async fn the_janitor_adds_the_months_ahead_once() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    let missing = fixture.store.missing_months(NOW, MONTHS_AHEAD).await;
    assert!(missing.unwrap().is_empty());

    let ahead = MONTHS_AHEAD + 3;
    let missing = fixture.store.missing_months(NOW, ahead).await.unwrap();
    assert_eq!(missing.len(), 64);
    let of_one = missing.values().next().unwrap().iter();
    let of_one: Vec<String> = of_one.map(ToString::to_string).collect();
    assert_eq!(of_one, ["2027-02", "2027-03", "2027-04"]);

    let other = MessageStore::connect(&fixture.config);
    let (one, two) = tokio::join!(
        fixture.store.ensure_months(NOW, ahead),
        other.ensure_months(NOW, ahead)
    );
    // Of direct messages and of groups.
    assert_eq!(one.unwrap() + two.unwrap(), 2 * 3 * 64);
    let missing = fixture.store.missing_months(NOW, ahead).await;
    assert!(missing.unwrap().is_empty());
}

#[tokio::test]
async fn a_month_that_no_janitor_added_yet_is_made_for_its_row() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    let users = fixture.users(5);
    let mut rows = [1, 2, 3].map(|id| message(users, id));
    rows[1].ts = TimestampMs(NOW.0 + 100 * DAY_MS);
    rows[2].ts = TimestampMs(NOW.0 + 29_300 * DAY_MS);
    fixture.write(&rows[..2]).await.unwrap();
    fixture.write(&rows[2..]).await.unwrap();

    let table = conversation(users).partition().into();
    let mut snapshot = fixture.store.snapshot(fixture.shard(table)).await.unwrap();
    let found = snapshot
        .page_before(conversation(users), None, Mid::ZERO, 10)
        .await;
    assert_eq!(mids(&found.unwrap()), [3, 2, 1]);
    let months = fixture.store.list_months().await.unwrap();
    let names = |n| {
        months[n]
            .keys()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let usual = ["2026-11", "2026-12", "2027-01"];
    // Too far ahead for all months in between.
    assert_eq!(
        names(&table),
        [&usual[..], &["2027-02", "2027-03", "2107-02"]].concat()
    );
    let others = months.keys().filter(|n| **n != table);
    assert!(others.map(names).all(|names| names == usual));
}

#[tokio::test]
async fn a_month_above_the_newest_message_is_no_reason_to_leave_rows_out() {
    let fixture = Fixture::without_schema().await;
    let store = &fixture.store;
    store.apply_schema(NOW).await.unwrap();
    let users = fixture.users(5);
    fixture.write(&[message(users, 10)]).await.unwrap();
    let mut admin = fixture.admin().await;
    let mut keep_from = async |month: &str| {
        for shard in store.layout().shards() {
            let database = fixture.database(shard);
            let sql =
                format!("REPLACE INTO {database}.retention VALUES ('chat_msg', '{month}-01')");
            sqlx::raw_sql(AssertSqlSafe(sql))
                .execute(&mut admin)
                .await
                .unwrap();
        }
    };
    // Of a month that was never made, so that the writer asks.
    let old = |id: i64| {
        let mut row = message(users, id);
        row.ts = TimestampMs(NOW.0 - (11 - id) * 40 * DAY_MS);
        row
    };

    keep_from("2099-01").await;
    let refused = fixture.write(&[old(8)]).await.unwrap_err();
    assert!(!refused.is_transient(), "{refused}");
    let database = fixture.database(fixture.shard(conversation(users).partition()));
    for said in [
        &format!("{database}.retention: kept_from"),
        "2099-01",
        "the newest message is of 2026-11",
    ] {
        assert!(refused.to_string().contains(said), "{refused}");
    }
    let refused = store.delete_old_changes().await.unwrap_err();
    assert!(refused.to_string().contains("2099-01"), "{refused}");

    let ids = async || {
        let table = conversation(users).partition().into();
        let mut snapshot = store.snapshot(fixture.shard(table)).await.unwrap();
        let rows = snapshot.scan_messages(table, -1, 10).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    keep_from("2026-01").await;
    fixture.write(&[old(8)]).await.unwrap();
    assert_eq!(ids().await, [8, 10]);
    // What may have been dropped is left out as ever.
    keep_from("2026-11").await;
    fixture.write(&[old(6)]).await.unwrap();
    assert_eq!(ids().await, [8, 10]);
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
async fn another_number_of_databases_is_refused_and_makes_nothing() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    for databases in [2, 8] {
        let config = MySqlConfig {
            databases,
            ..fixture.config.clone()
        };
        let store = MessageStore::connect(&config);
        let refused = store.apply_schema(NOW).await.unwrap_err();
        assert!(matches!(refused, StoreError::Fatal(_)), "{refused}");
        assert!(refused.to_string().contains("mysql.databases"), "{refused}");
    }
    let made = format!(
        "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE '{}%'",
        fixture.config.database_prefix
    );
    let made: i64 = sqlx::query_scalar(AssertSqlSafe(made))
        .fetch_one(&mut fixture.admin().await)
        .await
        .unwrap();
    assert_eq!(made, 4);
}

#[tokio::test]
async fn without_a_schema_everything_waits() {
    let fixture = Fixture::without_schema().await;
    let users = fixture.users(0);
    let refused = fixture.write(&[message(users, 1)]).await.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
}

/// A program that ended within a version runs all of it again.
#[tokio::test]
async fn a_version_that_was_applied_in_part_is_applied() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    let columns = async || {
        let sql = "SELECT CAST(GROUP_CONCAT(TABLE_NAME, '.', COLUMN_NAME ORDER BY 1) AS CHAR) AS columns \
             FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME IN ('contact_3', 'chat_msg_3')";
        let shard = fixture.store.layout().shards().next().unwrap();
        let row = sqlx::query(sql).bind(fixture.database(shard));
        let row = row.fetch_one(&mut fixture.admin().await).await.unwrap();
        row.get::<String, _>("columns")
    };
    let before = columns().await;
    let mut admin = fixture.admin().await;
    for shard in fixture.store.layout().shards() {
        let database = fixture.database(shard);
        let forget = format!("DELETE FROM {database}.schema_version WHERE version >= 4");
        let forget = sqlx::raw_sql(AssertSqlSafe(forget));
        forget.execute(&mut admin).await.unwrap();
    }
    // The last of the version's steps is missing in one table.
    let table = fixture.table("contact", crate::support::table_number(3));
    let undo = format!("ALTER TABLE {table} DROP KEY inx_2, ADD KEY inx_1 (uid, last_ts, peer)");
    let undo = sqlx::raw_sql(AssertSqlSafe(undo));
    undo.execute(&mut admin).await.unwrap();
    let report = fixture.store.apply_schema(NOW).await.unwrap();
    assert_eq!(report.migrations, 4 * (versions(&fixture).await - 3));
    assert_eq!(columns().await, before);
    let keys = format!(
        "SELECT COUNT(*) AS n FROM information_schema.STATISTICS WHERE CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) = '{table}' AND INDEX_NAME = 'inx_2'"
    );
    let keys = sqlx::query(AssertSqlSafe(keys));
    let keys = keys.fetch_one(&mut admin).await.unwrap();
    assert_eq!(keys.get::<i64, _>("n"), 4);
}

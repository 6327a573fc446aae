use std::time::{Duration, Instant};

use message_store::{ContactDelta, MessageStore, MySqlConfig, ServerConfig, Sink, StoreError};
use schemas::{Mid, TableNumber};
use sqlx::{AssertSqlSafe, MySqlConnection};
use tokio::time::{sleep, timeout};

use crate::support::{Fixture, NOW, contacts, conversation, message, mids, ordinal, rows_of, user};

async fn run(connection: &mut MySqlConnection, sql: String) -> sqlx::Result<u64> {
    let done = sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

/// Waits until an INSERT into this table waits for a lock; the id of its connection.
async fn waiting_insert(admin: &mut MySqlConnection, table: &str) -> i64 {
    let deadline = Instant::now() + Duration::from_secs(20);
    let sql = "SELECT CAST(ID AS SIGNED) AS id FROM information_schema.PROCESSLIST \
               WHERE INFO LIKE CONCAT('INSERT INTO ', ?, ' %') AND (STATE LIKE 'Waiting for %lock' OR ID IN \
               (SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'))";
    loop {
        let found = sqlx::query_scalar(sql).bind(table.to_owned());
        if let Some(id) = found.fetch_optional(&mut *admin).await.unwrap() {
            return id;
        }
        assert!(Instant::now() < deadline, "nobody waits for {table}");
        // InnoDB fills INNODB_TRX again only if nobody has read it for 100 ms.
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_reason_to_wait() {
    let config = MySqlConfig {
        servers: vec![ServerConfig {
            port: 1,
            ..ServerConfig::default()
        }],
        connect_timeout_ms: 200,
        ..MySqlConfig::default()
    };
    let store = MessageStore::connect(&config);
    let began = Instant::now();
    let refused = store.ping().await.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_wrong_password_is_fatal() {
    let mut config = Fixture::shared().await.config;
    config.servers[0].password = Some("wrong".into());
    let refused = MessageStore::connect(&config).ping().await.unwrap_err();
    assert!(matches!(refused, StoreError::Fatal(_)), "{refused}");
}

#[tokio::test]
async fn a_killed_connection_is_replaced() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(24);
    let partition = conversation(users).partition();
    let mut admin = fixture.admin().await;
    let table = fixture.table("chat_msg", partition);
    run(&mut admin, format!("LOCK TABLES {table} WRITE"))
        .await
        .unwrap();
    let (store, topic) = (fixture.store.clone(), fixture.topic.clone());
    let shard = fixture.shard(partition);
    let write = tokio::spawn(async move {
        store
            .write_messages(shard, &topic, &rows_of(&[message(users, 1)], &[]), &[])
            .await
    });
    let mut killer = fixture.admin().await;
    let id = waiting_insert(&mut killer, &table).await;
    run(&mut killer, format!("KILL {id}")).await.unwrap();
    let refused = write.await.unwrap().unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    run(&mut admin, "UNLOCK TABLES".to_owned()).await.unwrap();
    fixture.write(&[message(users, 1)]).await.unwrap();
}

#[tokio::test]
async fn a_dropped_write_goes_on_and_a_dropped_read_poisons_nothing() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(25);
    let partition = conversation(users).partition();
    let shard = fixture.shard(partition);
    let table = fixture.table("chat_msg", partition);
    let mut config = fixture.config.clone();
    config.connections_per_server = 2;
    let store = MessageStore::connect(&config);
    let mut admin = fixture.admin().await;
    let mut observer = fixture.admin().await;

    run(&mut admin, format!("LOCK TABLES {table} WRITE"))
        .await
        .unwrap();
    let (writing, topic) = (store.clone(), fixture.topic.clone());
    let write = tokio::spawn(async move {
        writing
            .write_messages(shard, &topic, &rows_of(&[message(users, 1)], &[]), &[])
            .await
    });
    waiting_insert(&mut observer, &table).await;
    write.abort();
    assert!(write.await.unwrap_err().is_cancelled());
    let mut snapshot = store.snapshot(shard).await.unwrap();
    let read = snapshot.page_before(conversation(users), None, Mid::ZERO, 10);
    assert!(
        timeout(Duration::from_millis(200), read).await.is_err(),
        "the table is locked"
    );
    drop(snapshot);
    run(&mut admin, "UNLOCK TABLES".to_owned()).await.unwrap();

    // Both connections are in use at once, so both must be fit for it.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (one, two) = tokio::join!(store.snapshot(shard), store.snapshot(shard));
        let (mut one, mut two) = (one.unwrap(), two.unwrap());
        let (one, two) = tokio::join!(
            one.page_before(conversation(users), None, Mid::ZERO, 10),
            two.page_before(conversation(users), None, Mid::ZERO, 10)
        );
        if mids(&one.unwrap()) == [1] && mids(&two.unwrap()) == [1] {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "the write was lost with its caller"
        );
    }
}

#[tokio::test]
async fn a_statement_without_an_answer_ends_at_its_deadline() {
    let fixture = Fixture::shared().await;
    let users = fixture.users(26);
    let partition = conversation(users).partition();
    let table = fixture.table("chat_msg", partition);
    let mut config = fixture.config.clone();
    config.statement_timeout_ms = 300;
    let impatient = MessageStore::connect(&config);
    let mut admin = fixture.admin().await;
    run(&mut admin, format!("LOCK TABLES {table} WRITE"))
        .await
        .unwrap();
    let shard = fixture.shard(partition);
    let refused = impatient
        .write_messages(
            shard,
            &fixture.topic,
            &rows_of(&[message(users, 1)], &[]),
            &[],
        )
        .await
        .unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    assert!(refused.to_string().contains("300 ms"), "{refused}");
    run(&mut admin, "UNLOCK TABLES".to_owned()).await.unwrap();
    impatient.ping().await.unwrap();
}

#[tokio::test]
async fn a_deadlock_is_a_reason_to_try_again() {
    let fixture = Fixture::shared().await;
    let (uid, first_peer) = fixture.users(27);
    let peer = |i: i64| user(first_peer.get() + i);
    let partition = TableNumber::of_user(uid);
    let shard = fixture.shard(partition);
    let table = fixture.table("contact", partition);
    let all: Vec<ContactDelta> = (0..100).map(|i| ContactDelta::new(uid, peer(i))).collect();
    fixture
        .store
        .write_user_rows(shard, &fixture.topic, contacts(&all), &[])
        .await
        .unwrap();

    // The rival has changed more, so the server prefers to end the store's transaction.
    let mut rival = fixture.admin().await;
    let of_uid = |condition: String| {
        format!("UPDATE {table} SET favourite = 1 WHERE uid = {uid} AND kind = 0 AND {condition}")
    };
    run(&mut rival, "START TRANSACTION".to_owned())
        .await
        .unwrap();
    assert_eq!(
        run(&mut rival, of_uid(format!("peer > {}", peer(0))))
            .await
            .unwrap(),
        99
    );
    let (store, topic) = (fixture.store.clone(), fixture.topic.clone());
    let mut news = vec![all[0].clone(), all[1].clone()];
    for delta in &mut news {
        delta.own_ordinal = ordinal(1);
    }
    let write = tokio::spawn(async move {
        store
            .write_user_rows(shard, &topic, contacts(&news), &[])
            .await
    });
    waiting_insert(&mut fixture.admin().await, &table).await;
    run(&mut rival, of_uid(format!("peer = {}", peer(0))))
        .await
        .unwrap();
    let refused = write.await.unwrap().unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    assert!(refused.to_string().contains("eadlock"), "{refused}");
    run(&mut rival, "COMMIT".to_owned()).await.unwrap();
}

#[tokio::test]
async fn a_database_that_can_only_be_read_is_told_by_a_probe() {
    let fixture = Fixture::without_schema().await;
    fixture.store.apply_schema(NOW).await.unwrap();
    let shard = fixture.store.layout().shards().next().unwrap();
    fixture.store.probe_write(shard).await.unwrap();
    let table = format!("{}.resume_offset", fixture.database(shard));
    let mut admin = fixture.admin().await;
    // What a read-only server answers.
    let trigger = format!(
        "CREATE TRIGGER {table}_refuses BEFORE INSERT ON {table} FOR EACH ROW \
         SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'read-only'"
    );
    run(&mut admin, trigger).await.unwrap();
    let topic = &fixture.topic;
    let read = fixture
        .store
        .read_resume_offsets(shard, Sink::Contacts, topic, &[]);
    read.await.unwrap();
    let refused = fixture.store.probe_write(shard).await.unwrap_err();
    assert!(refused.is_transient(), "{refused}");
    run(&mut admin, format!("DROP TRIGGER {table}_refuses"))
        .await
        .unwrap();
    fixture.store.probe_write(shard).await.unwrap();
    let left = sqlx::query(AssertSqlSafe(format!("SELECT * FROM {table}")));
    assert!(left.fetch_all(&mut admin).await.unwrap().is_empty());
}

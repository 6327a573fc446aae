//! Read positions that the sequencer could give no ordinal (PROTOCOL R5).

use message_store::ContactDelta;
use schemas::{DeviceClass, Ordinal, topics::Topic};
use sqlx::Connection as _;

use crate::{log::user, test_env::TestEnv};

#[tokio::test(flavor = "multi_thread")]
async fn the_ordinal_is_looked_up_among_the_messages() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    for _ in 0..3 {
        env.log.send(1001, 1000, "from the peer").await;
        env.log.send(1000, 1001, "an answer").await;
    }
    // mid 4 is an answer; the peer's newest at or below it is its second.
    env.log.read(1000, 1001, DeviceClass::Mobile, 4, None).await;
    env.assert_exact().await;
    let contact = contact_of(&env, 1000, 1001).await;
    assert_eq!(contact.read.mobile.ordinal.map(Ordinal::get), Some(2));
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_until_the_messages_are_written_and_nobody_else_does() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    let mut lock = env.admin().await;
    let prefix = &env.config.mysql.database_prefix;
    // Writers of partition 17 = (13 + 4) mod 64 wait, readers do not.
    let sql = format!("LOCK TABLES {prefix}0.chat_msg_17 READ");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(&mut lock)
        .await
        .unwrap();
    for _ in 0..3 {
        env.log.send(13, 4, "from the peer").await;
    }
    env.log.read(4, 13, DeviceClass::Pc, 2, None).await;
    // Of the same partition and database: it does not wait, and what is written of the read has no ordinal.
    let behind = env.log.send(2000, 1, "behind the read").await;
    env.until_contact_has(1, 2000, behind).await;
    let contact = contact_of(&env, 4, 13).await;
    assert_eq!(
        (contact.read.pc.mid.get(), contact.read.pc.ordinal),
        (2, None)
    );
    // The messages are in the first of two databases, the user's contacts in either.
    let (mut waits, topic) = (Vec::new(), env.config.kafka.topic(Topic::Events));
    for shard in env.store.layout().shards() {
        let messages = env.first_shard();
        let filled = mysql_sinks::fill_unresolved_reads(&env.store, shard, messages, &topic);
        waits.extend(filled.await.unwrap());
    }
    assert_eq!(
        waits,
        ["a read position waits until the messages of partition 17 are stored"]
    );
    lock.close().await.unwrap();
    env.assert_exact().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_unknown_where_the_messages_are_gone() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    for _ in 0..4 {
        env.log.send(1001, 1000, "old").await;
    }
    env.caught_up().await;
    // As a month that was dropped; partition (1001 + 1000) mod 64 = 17 is in the first of two databases.
    let prefix = &env.config.mysql.database_prefix;
    let mut connection = env.admin().await;
    let sql = format!("DELETE FROM {prefix}0.chat_msg_17 WHERE mid <= 3");
    sqlx::query(sqlx::AssertSqlSafe(sql))
        .execute(&mut connection)
        .await
        .unwrap();

    env.log.read(1000, 1001, DeviceClass::Pc, 2, None).await;
    env.caught_up().await;
    let contact = contact_of(&env, 1000, 1001).await;
    assert_eq!(
        (contact.read.pc.mid.get(), contact.read.pc.ordinal),
        (2, None)
    );
    // A later one that is known makes it known again.
    env.log.read(1000, 1001, DeviceClass::Pc, 4, None).await;
    env.caught_up().await;
    let contact = contact_of(&env, 1000, 1001).await;
    assert_eq!(contact.read.pc.ordinal.map(Ordinal::get), Some(4));
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_no_read_position_needs_keeps_nobodys_counts_away() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    for _ in 0..3 {
        env.log.send(1001, 1000, "from the peer").await;
    }
    env.log.read(1000, 1001, DeviceClass::Pc, 2, Some(2)).await;
    env.caught_up().await;
    let mut connection = env.admin().await;
    let prefix = &env.config.mysql.database_prefix;
    // 1000 has read mid 2 on pc, with its ordinal; 5 and 6 have no conversation. They wait for offsets that nobody reaches.
    let sql = format!(
        "INSERT INTO {prefix}1.unresolved_read VALUES ('contacts', 1000, 1001, 'pc', 2, 17, 1000000), \
         ('contacts', 1000, 1001, 'mobile', 3, 17, 1000000), ('contacts', 1000, 1001, 'tablet', 2, 17, 1000000), \
         ('contacts', 1000, 40, 'pc', 1, 200, 1000000), ('contacts', -7, 40, 'pc', 1, 33, 1000000), \
         ('contacts.new', 1000, 1001, 'pc', 2, 17, 1000000); \
         INSERT INTO {prefix}0.unresolved_read VALUES ('contacts', 5, 6, 'pc', 1, 11, 1000000)"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(&mut connection)
        .await
        .unwrap();
    let count = format!(
        "SELECT CAST((SELECT COUNT(*) FROM {prefix}0.unresolved_read) + COUNT(*) AS SIGNED) FROM {prefix}1.unresolved_read"
    );
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let left: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(count.clone()))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        // That of tables that are being built is left to who builds them.
        if left == 1 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{left} are left");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    service.stop().await;
}

async fn contact_of(env: &TestEnv, uid: i64, peer: i64) -> ContactDelta {
    let mut contacts = env.rows().await.contacts;
    contacts.remove(&(user(uid), user(peer))).unwrap()
}

//! Databases that answer, and refuse.

use std::time::{Duration, Instant};

use schemas::Mid;
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::test_env::{Service, TestEnv};

/// The second database of an environment: makes it refuse what is inserted into a table, as the server does for this reason.
struct Second {
    name: String,
    admin: MySqlConnection,
}

const READ_ONLY: u16 = 1290;
const TABLE_FULL: u16 = 1114;

impl Second {
    async fn of(env: &TestEnv) -> Self {
        Self {
            name: format!("{}1", env.config.mysql.database_prefix),
            admin: env.admin().await,
        }
    }

    async fn run(&mut self, sql: String) {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql));
        statement.execute(&mut self.admin).await.unwrap();
    }

    async fn refuse(&mut self, table: &str, number: u16) {
        let name = self.name.clone();
        for deed in ["INSERT", "UPDATE"] {
            self.run(format!(
                "CREATE TRIGGER {name}.{table}_{deed} BEFORE {deed} ON {name}.{table} FOR EACH ROW \
                 SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'refused'"
            ))
            .await;
        }
    }

    /// Moves the position of the contacts in partition 33, which is that of the messages from user 1 to user 32, in one of the databases.
    async fn move_partition_33(&mut self, database: u8, records: i64) {
        let prefix = self.name.trim_end_matches('1').to_owned();
        self.run(format!(
            "UPDATE {prefix}{database}.resume_offset SET next_offset = next_offset + {records} \
             WHERE sink = 'contacts' AND partition_no = 33"
        ))
        .await;
    }

    /// The connections of writers that wait for a lock on a table.
    async fn waiting(&mut self, table: &str) -> Vec<i64> {
        let waiting = "SELECT ID FROM information_schema.PROCESSLIST \
                       WHERE STATE LIKE 'Waiting%' AND INFO LIKE CONCAT('INSERT INTO ', ?, '%') ORDER BY ID";
        let waiting = sqlx::query_scalar(waiting).bind(format!("{}.{table}", self.name));
        waiting.fetch_all(&mut self.admin).await.unwrap()
    }

    async fn until_a_write_waits(&mut self, table: &str) -> i64 {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let [id] = self.waiting(table).await[..] {
                return id;
            }
            assert!(Instant::now() < deadline, "no write waits");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn accept(&mut self, table: &str) {
        let name = self.name.clone();
        for deed in ["INSERT", "UPDATE"] {
            self.run(format!("DROP TRIGGER {name}.{table}_{deed}"))
                .await;
        }
    }
}

/// Sends from user 1 to users whose contact rows are all in `contact_32`, the second database; the last one's uid and mid.
async fn send_many(env: &mut TestEnv, first: i64) -> (i64, Mid) {
    let mut last = (0, Mid::ZERO);
    for number in first..first + 100 {
        let peer = 32 + 64 * number;
        last = (peer, env.log.send(1, peer, "hello").await);
    }
    last
}

async fn until_contacts_gate_names_the_second(service: &Service) {
    until_contacts_gate_says(service, "going on without database 1").await;
}

async fn until_contacts_gate_says(service: &Service, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let named = || {
        let gates = service.health.readiness().checks;
        let gate = gates
            .into_iter()
            .find(|gate| gate.name == "projector-mysql.contacts");
        gate.and_then(|gate| gate.reason)
            .is_some_and(|reason| reason.contains(what))
    };
    while !named() {
        assert!(
            Instant::now() < deadline,
            "{:?}",
            service.health.readiness()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_take_writes_does_not_hold_up_the_other() {
    let mut env = TestEnv::new().await;
    // So few that one database's rows are soon all that may wait.
    env.config.projector_mysql.contacts_max_pending_rows = 20;
    let service = env.start().await;
    env.log.chatter(60, 50).await;
    env.assert_exact().await;
    let mut second = Second::of(&env).await;

    second.refuse("resume_offset", READ_ONLY).await;
    let (peer, mid) = send_many(&mut env, 0).await;
    env.until_contact_has(1, peer, mid).await;
    until_contacts_gate_names_the_second(&service).await;

    // Now it takes a small write, and no row.
    second.refuse("contact_32", TABLE_FULL).await;
    second.accept("resume_offset").await;
    let (peer, mid) = send_many(&mut env, 100).await;
    env.until_contact_has(1, peer, mid).await;

    // It comes back while partitions change hands.
    second.accept("contact_32").await;
    let other = env.start().await;
    env.assert_exact().await;
    service.ready().await;
    service.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_being_caught_up_holds_up_nobody() {
    let mut env = TestEnv::new().await;
    env.config.projector_mysql.contacts_max_pending_rows = 20;
    let service = env.start().await;
    env.log.chatter(61, 50).await;
    env.assert_exact().await;
    let mut second = Second::of(&env).await;
    second.refuse("resume_offset", READ_ONLY).await;
    send_many(&mut env, 0).await;
    until_contacts_gate_names_the_second(&service).await;

    // Now it takes a small write, and a row of a contact waits for up to 10 s.
    let mut lock = Second::of(&env).await;
    let table = format!("{}.contact_32", lock.name);
    lock.run(format!("LOCK TABLES {table} READ")).await;
    second.accept("resume_offset").await;
    let waiting = second.until_a_write_waits("contact_32").await;
    let (peer, mid) = send_many(&mut env, 100).await;
    env.until_contact_has(1, peer, mid).await;
    assert_eq!(second.waiting("contact_32").await, [waiting]);

    lock.run("UNLOCK TABLES".to_owned()).await;
    env.assert_exact().await;
    service.ready().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_position_the_log_does_not_have_is_not_caught_up() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    env.log.chatter(62, 50).await;
    let mut second = Second::of(&env).await;
    send_many(&mut env, 0).await;
    env.assert_exact().await;
    second.refuse("contact_32", TABLE_FULL).await;
    send_many(&mut env, 100).await;
    until_contacts_gate_names_the_second(&service).await;

    // As where an event was put before the position: the log lost its end, and it was decided again.
    second.move_partition_33(1, 1).await;
    second.accept("contact_32").await;
    until_contacts_gate_says(&service, "the end of the log was lost").await;
    // It is used again, and that partition goes on in the first.
    let in_second = env.log.send(2, 32, "another partition").await;
    env.until_contact_has(32, 2, in_second).await;
    until_contacts_gate_says(&service, "partition 33 of database 1").await;
    let (peer, mid) = send_many(&mut env, 200).await;
    env.until_contact_has(1, peer, mid).await;

    second.move_partition_33(1, -1).await;
    env.assert_exact().await;
    service.ready().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_partition_alone_stays_behind_in_a_database_that_returns() {
    let mut env = TestEnv::new().await;
    let service = env.start().await;
    let mut second = Second::of(&env).await;
    second.refuse("resume_offset", READ_ONLY).await;
    let (peer, mid) = send_many(&mut env, 0).await;
    env.until_contact_has(1, peer, mid).await;
    until_contacts_gate_names_the_second(&service).await;

    // As where the log lost its end.
    second.move_partition_33(0, 1).await;
    until_contacts_gate_says(&service, "partition 33 is halted").await;
    let in_second = env.log.send(2, 32, "another partition").await;
    second.accept("resume_offset").await;
    env.until_contact_has(32, 2, in_second).await;

    second.move_partition_33(0, -1).await;
    env.assert_exact().await;
    service.ready().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_the_schemas_lock() {
    let env = TestEnv::new().await;
    let mut holder = env.admin().await;
    let lock = format!(
        "SELECT GET_LOCK('tidemark.schema.{}0', 10)",
        env.config.mysql.database_prefix
    );
    sqlx::raw_sql(AssertSqlSafe(lock))
        .execute(&mut holder)
        .await
        .unwrap();
    let service = env.start().await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let waiting = "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO LIKE CONCAT('SELECT GET_LOCK(''tidemark.schema.', ?, '0%')";
    loop {
        let found = sqlx::query(waiting)
            .bind(&env.config.mysql.database_prefix)
            .fetch_all(&mut holder)
            .await
            .unwrap();
        if !found.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "the janitor does not wait");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stopping = Instant::now();
    service.stop().await;
    assert!(
        stopping.elapsed() < Duration::from_secs(9),
        "{:?}",
        stopping.elapsed()
    );
}

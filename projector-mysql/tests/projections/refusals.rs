//! Databases that answer, and refuse.

use std::time::{Duration, Instant};

use schemas::Mid;
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::world::World;

/// The second database of a world: makes it refuse what is inserted into a table, as the server does for this reason.
struct Second {
    name: String,
    admin: MySqlConnection,
}

const READ_ONLY: u16 = 1290;
const TABLE_FULL: u16 = 1114;

impl Second {
    async fn of(world: &World) -> Self {
        Self {
            name: format!("{}1", world.config.mysql.database_prefix),
            admin: world.admin().await,
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

    async fn accept(&mut self, table: &str) {
        let name = self.name.clone();
        for deed in ["INSERT", "UPDATE"] {
            self.run(format!("DROP TRIGGER {name}.{table}_{deed}"))
                .await;
        }
    }
}

/// Sends from user 1 to users whose contact rows are all in `contact_32`, the second database; the last one's uid and mid.
async fn send_many(world: &mut World, first: i64) -> (i64, Mid) {
    let mut last = (0, Mid::ZERO);
    for number in first..first + 100 {
        let peer = 32 + 64 * number;
        last = (peer, world.log.send(1, peer, "hello").await);
    }
    last
}

async fn until_contacts_gate_names_the_second(service: &crate::world::Service) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let named = || {
        let gates = service.health.readiness().gates;
        let gate = gates
            .into_iter()
            .find(|gate| gate.name == "projector-mysql.contacts");
        gate.and_then(|gate| gate.reason)
            .is_some_and(|reason| reason.starts_with("going on without database 1"))
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
    let mut world = World::new().await;
    // So few that one database's rows are soon all that may wait.
    world.config.projector_mysql.contacts_max_pending_rows = 20;
    let service = world.start().await;
    world.log.chatter(60, 50).await;
    world.assert_exact().await;
    let mut second = Second::of(&world).await;

    second.refuse("resume_offset", READ_ONLY).await;
    let (peer, mid) = send_many(&mut world, 0).await;
    world.until_contact_has(1, peer, mid).await;
    until_contacts_gate_names_the_second(&service).await;

    // Now it takes a small write, and no row.
    second.refuse("contact_32", TABLE_FULL).await;
    second.accept("resume_offset").await;
    let (peer, mid) = send_many(&mut world, 100).await;
    world.until_contact_has(1, peer, mid).await;

    // It comes back while partitions change hands.
    second.accept("contact_32").await;
    let other = world.start().await;
    world.assert_exact().await;
    service.ready().await;
    service.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_the_schemas_lock() {
    let world = World::new().await;
    let mut holder = world.admin().await;
    let lock = format!(
        "SELECT GET_LOCK('tidemark.schema.{}0', 10)",
        world.config.mysql.database_prefix
    );
    sqlx::raw_sql(AssertSqlSafe(lock))
        .execute(&mut holder)
        .await
        .unwrap();
    let service = world.start().await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let waiting = "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO LIKE CONCAT('SELECT GET_LOCK(''tidemark.schema.', ?, '0%')";
    loop {
        let found = sqlx::query(waiting)
            .bind(&world.config.mysql.database_prefix)
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

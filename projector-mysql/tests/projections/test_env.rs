//! A deployment of its own, and the service in it.

use std::{
    future::pending,
    time::{Duration, Instant},
};

use dev_stack::{Endpoints, TestServers};
use event_log::{LogReader, TestTopics};
use message_store::{MessageStore, MySqlConfig, ReadTx, Shard, Sink, StoreError, TestDatabases};
use projector_mysql::{Config, ProjectorMySqlConfig};
use schemas::{Mid, Partition, PartitionMap, TableNumber, TimestampMs, topics::Topic};
use service_runtime::{Health, Supervisor};
use sqlx::{Connection as _, MySqlConnection, mysql::MySqlConnectOptions};

use crate::{
    fold::Rows,
    log::{EPOCH_MS, Log, user},
};

const PATIENCE: Duration = Duration::from_secs(90);

pub struct TestEnv {
    pub config: Config,
    pub store: MessageStore,
    pub log: Log,
    _topics: TestTopics,
    _databases: TestDatabases,
}

impl TestEnv {
    /// On the shared servers.
    pub async fn new() -> Self {
        let TestServers {
            kafka_brokers,
            redis_url,
            mysql_url,
        } = TestServers::shared();
        let endpoints = Endpoints {
            kafka_brokers: kafka_brokers.clone(),
            redis_url: redis_url.clone(),
            mysql_url: mysql_url.clone(),
        };
        Self::on(&endpoints, None).await
    }

    /// On servers of the test's own; `second_mysql` holds the upper half of the databases.
    pub async fn on(endpoints: &Endpoints, second_mysql: Option<&str>) -> Self {
        let topics = TestTopics::create(&endpoints.kafka_brokers).await;
        let kafka = topics.config().clone();
        let urls = [Some(endpoints.mysql_url.as_str()), second_mysql];
        let urls: Vec<&str> = urls.into_iter().flatten().collect();
        let databases = TestDatabases::new(&urls, 2);
        let mysql = MySqlConfig {
            connect_timeout_ms: 500,
            ..databases.config().clone()
        };
        let store = MessageStore::connect(&mysql);
        store.apply_schema(TimestampMs(EPOCH_MS)).await.unwrap();
        let projector_mysql = ProjectorMySqlConfig {
            reads_interval_ms: 300,
            contacts_interval_ms: 100,
            verify_interval_ms: 300,
            // Whoever shares a database must not be in another's way.
            messages_writers: 2,
            ..ProjectorMySqlConfig::default()
        };
        Self {
            log: Log::new(&kafka),
            config: Config {
                projector_mysql,
                kafka,
                mysql,
            },
            store,
            _topics: topics,
            _databases: databases,
        }
    }

    pub async fn start(&self) -> Service {
        Service::start(self.config.clone()).await
    }

    /// A plain connection, for what the store does not do.
    pub async fn admin(&self) -> MySqlConnection {
        let server = &self.config.mysql.servers[0];
        let options = MySqlConnectOptions::new()
            .host(&server.host)
            .port(server.port)
            .username(server.user.as_deref().unwrap())
            .password(server.password.as_ref().unwrap().expose());
        MySqlConnection::connect_with(&options).await.unwrap()
    }

    /// Waits until every database has taken in the whole log, for every sink.
    pub async fn caught_up(&self) {
        let reader = std::sync::Arc::new(LogReader::new(&self.config.kafka).unwrap());
        let ends = reader.ends(Topic::Events).await.unwrap();
        let deadline = Instant::now() + PATIENCE;
        while let Some(behind) = self.behind(&ends).await {
            assert!(Instant::now() < deadline, "not in time: {behind}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn behind(&self, ends: &PartitionMap<i64>) -> Option<String> {
        let topic = self.config.kafka.topic(Topic::Events);
        for shard in self.store.layout().shards() {
            for sink in Sink::ALL {
                // Reads and messages of a partition go to the one database that has its tables.
                let concerned = |p: &Partition| {
                    sink == Sink::Contacts || self.store.layout().shard_of(*p) == shard
                };
                let partitions: Vec<_> = Partition::all().filter(concerned).collect();
                let found = match self
                    .store
                    .read_resume_offsets(shard, sink, &topic, &partitions)
                    .await
                {
                    Ok(found) => found,
                    Err(error) => return Some(error.to_string()),
                };
                let late = found.iter().find(|(p, at)| at.next.get() < ends[*p]);
                let open = self.store.unresolved_reads(shard, None, None, 1).await;
                match open.as_deref() {
                    Ok([]) => {}
                    open => return Some(format!("{open:?} in {shard:?}")),
                }
                if let Some((partition, at)) = late {
                    return Some(format!(
                        "{sink:?} of {partition:?} in {shard:?}: {at:?}, end {}",
                        ends[partition]
                    ));
                }
            }
        }
        None
    }

    /// Where the lower half of the tables is.
    pub fn first_shard(&self) -> Shard {
        self.store.layout().shards().next().unwrap()
    }

    /// Waits until a contact has this newest message.
    pub async fn until_contact_has(&self, uid: i64, peer: i64, mid: Mid) {
        let table = TableNumber::of_user(user(uid));
        let shard = self.store.layout().shard_of(table);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut snapshot = self.store.snapshot(shard).await.unwrap();
            let row = snapshot.contact(user(uid), user(peer)).await.unwrap();
            if row.and_then(|row| row.contact.last).map(|last| last.mid) == Some(mid) {
                return;
            }
            assert!(Instant::now() < deadline, "the contact was not written");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no read position in a database lacks its ordinal.
    pub async fn until_all_are_resolved(&self, shard: Shard) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.store.unresolved_reads(shard, None, None, 10).await;
            let left = left.unwrap();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "not in time: {left:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A server that has just started may not accept a connection in time.
    async fn snapshot(&self, shard: Shard) -> ReadTx {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.store.snapshot(shard).await {
                Err(StoreError::Transient(_)) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                opened => return opened.unwrap(),
            }
        }
    }

    pub async fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        for shard in self.store.layout().shards() {
            let mut tx = self.snapshot(shard).await;
            for table in self.store.layout().tables_of(shard) {
                for row in tx.scan_messages(table, -1, 100_000).await.unwrap() {
                    rows.messages.insert((table, row.id), row);
                }
                for row in tx.scan_changes(table, None, 100_000).await.unwrap() {
                    rows.changes.insert((row.conversation, row.number()), row);
                }
                let hidden = tx.scan_hidden(table, None, 100_000).await.unwrap();
                rows.hidden.extend(hidden);
                for row in tx.scan_profiles(table, None, 100_000).await.unwrap() {
                    rows.profiles.insert(row.profile.uid, row);
                }
                for stored in tx.scan_reads(table, 0, 100_000).await.unwrap() {
                    rows.reads
                        .insert((stored.row.uid, stored.row.conversation), stored.row.mids);
                }
                for row in tx.scan_contacts(table, None, 100_000).await.unwrap() {
                    rows.contacts
                        .insert((row.contact.uid, row.contact.peer), row.contact);
                }
            }
        }
        rows
    }

    /// The rows are exactly the fold of what was appended.
    pub async fn assert_exact(&self) {
        self.caught_up().await;
        let found = self.rows().await.without_cleared();
        let wanted = Rows::of(&self.log.events).without_cleared();
        for (key, row) in &wanted.contacts {
            assert_eq!(found.contacts.get(key), Some(row));
        }
        assert_eq!(found.reads, wanted.reads);
        assert_eq!(found.messages.len(), wanted.messages.len());
        assert!(found == wanted, "{found:#?}\n{wanted:#?}");
    }
}

/// The service in this process.
pub struct Service {
    supervisor: Supervisor,
    pub health: Health,
}

impl Service {
    pub async fn start(config: Config) -> Self {
        let supervisor = Supervisor::new("test", Duration::from_secs(10));
        let health = Health::new();
        let start = projector_mysql::start(config, &supervisor, &health);
        drop(start.await.unwrap());
        Self { supervisor, health }
    }

    pub async fn ready(&self) {
        self.until("ready", |ready| ready).await;
    }

    pub async fn until(&self, what: &str, condition: impl Fn(bool) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition(self.health.readiness().ready) {
            let now = self.health.readiness();
            assert!(Instant::now() < deadline, "not {what} in time: {now:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// As a signal would.
    pub async fn stop(self) {
        self.supervisor.shutdown().begin();
        self.supervisor.run(pending).await.unwrap();
    }
}

/// A service that can be ended in the middle of whatever it does.
pub struct Doomed(Option<tokio::runtime::Runtime>);

impl Doomed {
    pub fn start(config: Config) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.spawn(async move {
            let service = Service::start(config).await;
            pending::<()>().await;
            drop(service);
        });
        Self(Some(runtime))
    }

    pub fn kill(mut self) {
        self.0.take().unwrap().shutdown_background();
    }
}

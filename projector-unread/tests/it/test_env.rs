use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use dev_stack::TestServers;
use event_log::{KafkaConfig, LogReader, TestTopics};
use message_store::{MessageStore, MySqlConfig};
use projector_unread::ProjectorUnreadConfig;
use schemas::{DeviceClass, UserId, event::SourceOffset, topics::Topic};
use service_runtime::{Health, Shutdown, Supervisor};
use tokio::{
    sync::OnceCell,
    task::JoinHandle,
    time::{Instant, sleep},
};
use unread_rebuild::{RebuildConfig, Rebuilder};
use unread_store::{
    Connection, Expiry, RedisConfig, SharedConnections, UnreadError, UnreadStore, UnreadView,
    UserView,
};

use crate::{
    server::RedisServer,
    story::{self, Counts, Story},
};

/// Long enough for a slow machine; a test that waits this long fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A deployment of one test: topics, a Redis, and uids of its own.
pub struct TestEnv {
    pub redis: RedisServer,
    pub story: Story,
    kafka: KafkaConfig,
    redis_config: RedisConfig,
    mysql: MySqlConfig,
    /// As query-api has them.
    pub reader: SharedConnections,
    rebuilder: Rebuilder,
    _contacts: Service,
    topics: TestTopics,
}

/// A running service; it stops with the value.
pub struct Service {
    health: Health,
    shutdown: Shutdown,
    ended: JoinHandle<()>,
}

impl TestEnv {
    /// With contact rows being written, and nobody who writes to Redis yet.
    pub async fn new() -> Self {
        let start = tokio::task::spawn_blocking(RedisServer::start);
        Self::with(start.await.unwrap(), false).await
    }

    /// The same, with a cluster of one node.
    pub async fn in_cluster() -> Self {
        Self::with(RedisServer::start_cluster().await, true).await
    }

    async fn with(redis: RedisServer, cluster: bool) -> Self {
        let servers = tokio::task::spawn_blocking(TestServers::shared)
            .await
            .unwrap();
        let topics = TestTopics::create(&servers.kafka_brokers).await;
        let kafka = topics.config().clone();
        let redis_config = RedisConfig {
            url: redis.url(),
            cluster,
            ..RedisConfig::default()
        };
        let mysql = databases(servers).await;
        let unread = UnreadStore::new(&redis_config).unwrap();
        let log = Arc::new(LogReader::new(&kafka).unwrap());
        let rebuilder = Rebuilder::new(
            &MessageStore::connect(&mysql),
            &log,
            &unread,
            &kafka.topic(Topic::Events),
            &RebuildConfig::default(),
        );
        Self {
            story: Story::new(&kafka),
            _contacts: contacts(&kafka, &mysql).await,
            reader: SharedConnections::new(unread),
            rebuilder,
            redis,
            kafka,
            redis_config,
            mysql,
            topics,
        }
    }

    /// Starts a projector, and returns when it is ready.
    pub async fn project(&self) -> Service {
        self.project_and_verify_every(100).await
    }

    /// The same, and it looks at the positions in Redis every so many milliseconds.
    pub async fn project_and_verify_every(&self, verify_interval_ms: u32) -> Service {
        let config = projector_unread::Config {
            projector_unread: ProjectorUnreadConfig {
                verify_interval_ms,
                rebuild: RebuildConfig {
                    lease_ms: 2_000,
                    ..RebuildConfig::default()
                },
                ..ProjectorUnreadConfig::default()
            },
            kafka: self.kafka.clone(),
            redis: self.redis_config.clone(),
            mysql: self.mysql.clone(),
        };
        let (supervisor, health) = parts("projector-unread");
        let start = projector_unread::start(config, &supervisor, &health);
        drop(start.await.unwrap());
        let service = Service::run(supervisor, health);
        service.becomes_ready().await;
        service
    }

    /// From now on no dead letter can be written. A projector that starts after that notices within a second.
    pub async fn delete_dead_letters(&mut self) {
        self.topics.delete_topic(Topic::DeadLetters).await;
        let notice = ("topic.metadata.propagation.max.ms", "1000");
        self.kafka.properties = [(notice.0.to_owned(), notice.1.to_owned())]
            .into_iter()
            .collect();
    }

    /// Sends a plain command to Redis.
    pub async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.redis.command(words).await
    }

    /// A view as `redis-cli` shows it.
    pub async fn raw(&self, device: DeviceClass, uid: UserId) -> Counts {
        let key = self.reader.store().slot_of(uid).keys().view(device, uid);
        let fields: BTreeMap<String, i64> = self.command(&["HGETALL", &key]).await;
        let parse = |(peer, n): (String, i64)| (peer.parse().unwrap(), n);
        fields.into_iter().map(parse).collect()
    }

    /// Waits until a raw view is what the story says.
    pub async fn shows(&self, device: DeviceClass, uid: UserId) {
        let expected = self.story.unread(uid, device);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let raw = self.raw(device, uid).await;
            if raw == expected {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{device}-{uid}: {raw:?}, not {expected:?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Reads a user as query-api does: everything on the log is applied, absent keys are rebuilt.
    pub async fn read(&self, uid: UserId, device: DeviceClass) -> Counts {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.try_read(uid).await {
                Ok(Some(UserView::Complete(state))) => {
                    match UserView::Complete(state).unread(device) {
                        UnreadView::Complete { counts, unknown } if unknown.is_empty() => {
                            return counts;
                        }
                        other => panic!("{uid} is {other:?}"),
                    }
                }
                Ok(Some(_)) => {
                    // Failing here is for the next turn to try again.
                    let _ = self.rebuilder.rebuild(&[uid], deadline).await;
                }
                Ok(None) | Err(_) => sleep(Duration::from_millis(10)).await,
            }
            assert!(Instant::now() < deadline, "{uid} cannot be read");
        }
    }

    async fn try_read(&self, uid: UserId) -> Result<Option<UserView>, UnreadError> {
        let needed: Vec<_> = self.needed();
        let connection = self.reader.of(uid).await?;
        let fresh = connection.read_user_after(uid, Expiry::Keep, &needed);
        let fresh = fresh.await?;
        Ok(fresh.reached.then_some(fresh.view))
    }

    fn needed(&self) -> Vec<(schemas::Partition, SourceOffset)> {
        self.story.sources.iter().map(|(p, m)| (p, *m)).collect()
    }

    /// Every user has what the story says, on both classes.
    pub async fn assert_exact(&self, users: &[UserId]) {
        for uid in users {
            for device in DeviceClass::ALL {
                let expected = self.story.unread(*uid, device);
                assert_eq!(self.read(*uid, device).await, expected, "{device}-{uid}");
            }
        }
    }

    /// Waits until everything on the log is applied.
    pub async fn applied(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_applied().await.unwrap_or(false) {
            assert!(
                Instant::now() < deadline,
                "the watermarks do not reach the events"
            );
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn is_applied(&self) -> Result<bool, UnreadError> {
        for slot in 0..self.reader.store().slots().len() {
            let positions = self.reader.get(slot).await?.read_positions().await?;
            let reached = |(p, src): &(schemas::Partition, SourceOffset)| {
                let stored = positions.get(*p);
                stored.is_some_and(|stored| stored.position.watermark >= *src)
            };
            if !self.needed().iter().all(reached) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub async fn connection(&self) -> Connection {
        self.reader.get(0).await.unwrap()
    }
}

impl Service {
    fn run(supervisor: Supervisor, health: Health) -> Self {
        let shutdown = supervisor.shutdown();
        let ended = tokio::spawn(async move {
            supervisor
                .run(async || std::future::pending().await)
                .await
                .unwrap();
        });
        Self {
            health,
            shutdown,
            ended,
        }
    }

    async fn becomes_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.health.readiness().ready {
            let readiness = self.health.readiness();
            assert!(Instant::now() < deadline, "{readiness:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether a gate is open.
    pub fn is_open(&self, gate: &str) -> bool {
        let gates = self.health.readiness().checks;
        gates.iter().find(|g| g.name == gate).unwrap().ready
    }

    /// Why a gate is closed, if it is.
    pub fn reason(&self, gate: &str) -> Option<String> {
        let mut gates = self.health.readiness().checks.into_iter();
        gates.find(|g| g.name == gate).unwrap().reason
    }

    /// Stops it as a signal would.
    pub async fn stop(self) {
        self.shutdown.begin();
        let Self { ended, .. } = self;
        ended.await.unwrap();
    }
}

fn parts(name: &str) -> (Supervisor, Health) {
    (
        Supervisor::new(name, Duration::from_secs(10)),
        Health::new(),
    )
}

async fn contacts(kafka: &KafkaConfig, mysql: &MySqlConfig) -> Service {
    let mut config = projector_mysql::Config {
        kafka: kafka.clone(),
        mysql: mysql.clone(),
        ..projector_mysql::Config::default()
    };
    config.projector_mysql.contacts_interval_ms = 100;
    let (supervisor, health) = parts("projector-mysql");
    let start = projector_mysql::start(config, &supervisor, &health);
    drop(start.await.unwrap());
    Service::run(supervisor, health)
}

/// Databases that all tests share: topics, uids and times tell them apart.
async fn databases(servers: &TestServers) -> MySqlConfig {
    static SHARED: OnceCell<MySqlConfig> = OnceCell::const_new();
    let config = SHARED.get_or_init(|| async {
        let config = MySqlConfig {
            servers: vec![servers.mysql_url.parse().unwrap()],
            databases: 1,
            database_prefix: format!("p{}_", &uuid::Uuid::new_v4().simple().to_string()[..16]),
            connections_per_server: 6,
            ..MySqlConfig::default()
        };
        let store = MessageStore::connect(&config);
        store.apply_schema(story::now()).await.unwrap();
        store.close().await;
        config
    });
    config.await.clone()
}

/// So many users that no other test has.
pub fn users(count: i64) -> Vec<UserId> {
    static NEXT: AtomicI64 = AtomicI64::new(1_000_000);
    let first = NEXT.fetch_add(count, Ordering::Relaxed);
    (first..first + count)
        .map(|uid| uid.try_into().unwrap())
        .collect()
}

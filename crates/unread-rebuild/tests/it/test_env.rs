use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use dev_stack::TestServers;
use event_log::{AppendRecord, Appender, LogReader, ProducerSettings, TestTopics};
use message_store::{
    ContactDelta, MessageStore, MySqlConfig, OffsetUpdate, ReadUpTo, Shard, Sink, UnresolvedRead,
    UserRows,
};
use schemas::{
    DeviceClass, DirectConversation, LogPosition, Mid, NextOffset, Ordinal, Partition,
    PartitionMap, PerDevice, TimestampMs, UserId, event::SourceOffset, topics::Topic,
};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};
use unread_rebuild::{RebuildConfig, Rebuilder};
use unread_store::{Connection, Expiry, RedisConfig, UnreadStore, UnreadView, UserView};

use crate::server::RedisServer;

/// Long enough for a slow machine; a test that waits this long fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A log, a Redis and contact rows of one test.
pub struct TestEnv {
    pub redis: RedisServer,
    pub unread: UnreadStore,
    pub store: MessageStore,
    pub topic: String,
    pub log: Arc<LogReader>,
    appender: Appender,
    _topics: TestTopics,
}

impl TestEnv {
    /// With an empty log, and a Redis that has its positions.
    pub async fn new() -> Self {
        let env = Self::without_positions().await;
        env.initialise_positions().await;
        env
    }

    pub async fn without_positions() -> Self {
        let redis = tokio::task::spawn_blocking(RedisServer::start);
        Self::with(redis.await.unwrap(), false).await
    }

    /// With a Redis Cluster of one node, without positions.
    pub async fn in_cluster() -> Self {
        Self::with(RedisServer::start_cluster().await, true).await
    }

    async fn with(redis: RedisServer, cluster: bool) -> Self {
        let servers = tokio::task::spawn_blocking(TestServers::shared)
            .await
            .unwrap();
        let topics = TestTopics::create(&servers.kafka_brokers).await;
        let kafka = topics.config();
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 10_000,
            queue_bytes: 1 << 20,
            max_message_bytes: 1_000_000,
            gapless: false,
        };
        let config = RedisConfig {
            url: redis.url(),
            cluster,
            ..RedisConfig::default()
        };
        Self {
            unread: UnreadStore::new(&config).unwrap(),
            redis,
            store: MessageStore::connect(&databases(servers).await),
            topic: kafka.topic(Topic::Events),
            log: Arc::new(LogReader::new(kafka).unwrap()),
            appender: Appender::new(kafka, &settings).unwrap(),
            _topics: topics,
        }
    }

    pub async fn initialise_positions(&self) {
        self.connection()
            .await
            .initialise_positions(&PartitionMap::new())
            .await
            .unwrap();
    }

    pub async fn connection(&self) -> Connection {
        self.unread.slots()[0].connect().await.unwrap()
    }

    /// What a process has.
    pub fn rebuilder(&self) -> Rebuilder {
        self.rebuilder_with(&self.store, RebuildConfig::default())
    }

    pub fn rebuilder_with(&self, store: &MessageStore, config: RebuildConfig) -> Rebuilder {
        Rebuilder::new(store, &self.log, &self.unread, &self.topic, &config)
    }

    /// Puts something on the log that the contact rows do not have yet. Only offsets matter here.
    pub async fn append(&self, a: UserId, b: UserId) {
        let record = AppendRecord {
            topic: &self.topic,
            partition: DirectConversation::new(a, b).partition(),
            key: b"",
            value: Some(b"an event"),
            timestamp: Some(TimestampMs(1)),
            headers: &[],
        };
        self.appender.append(record).await.unwrap();
    }

    /// Writes rows, and has every database reach the end of the log. Ordinals that rows lack cannot be looked up.
    pub async fn contacts_catch_up(&self, rows: &[ContactDelta]) {
        self.write_contacts(rows).await;
        for row in rows {
            for read in self.unresolved_reads(row.uid).await {
                self.look_up(read, None).await;
            }
        }
    }

    pub async fn unresolved_reads(&self, uid: UserId) -> Vec<UnresolvedRead> {
        let open = self
            .store
            .unresolved_reads(self.shard_of(uid), None, None, 1_000);
        let open = open.await.unwrap().into_iter();
        open.filter(|read| read.uid == uid).collect()
    }

    pub async fn look_up(&self, read: UnresolvedRead, n: Option<Ordinal>) {
        let (shard, found) = (self.shard_of(read.uid), [(read, n)]);
        self.store
            .fill_unresolved_reads(shard, &found)
            .await
            .unwrap();
    }

    /// The same; ordinals that rows lack are yet to be looked up.
    pub async fn write_contacts(&self, rows: &[ContactDelta]) {
        for shard in self.store.layout().shards() {
            let own: Vec<ContactDelta> = rows
                .iter()
                .filter(|row| self.shard_of(row.uid) == shard)
                .cloned()
                .collect();
            self.database_catches_up(shard, &own).await;
        }
    }

    /// Writes rows of one database, and has it reach the end of the log.
    pub async fn database_catches_up(&self, shard: Shard, rows: &[ContactDelta]) {
        let ends = self.log.ends(Topic::Events).await.unwrap();
        let moves = self.moves_to(shard, &ends).await;
        let rows = UserRows {
            contacts: rows.iter().collect(),
            ..UserRows::default()
        };
        let write = self.store.write_user_rows(shard, &self.topic, rows, &moves);
        write.await.unwrap();
    }

    async fn moves_to(&self, shard: Shard, ends: &PartitionMap<i64>) -> Vec<OffsetUpdate> {
        let all: Vec<Partition> = Partition::all().collect();
        let found = self
            .store
            .read_resume_offsets(shard, Sink::Contacts, &self.topic, &all)
            .await
            .unwrap();
        let step = |(partition, from): (Partition, &LogPosition)| OffsetUpdate {
            partition,
            from: *from,
            to: LogPosition {
                next: NextOffset::new(ends[partition]),
                watermark: SourceOffset {
                    epoch: 0,
                    offset: ends[partition],
                },
            },
        };
        found.iter().map(step).filter(|m| m.from != m.to).collect()
    }

    pub fn shard_of(&self, uid: UserId) -> Shard {
        self.store.layout().shard_of_user(uid)
    }

    pub async fn view(&self, uid: UserId) -> UserView {
        let connection = self.connection().await;
        connection.read_user(uid, Expiry::Keep).await.unwrap()
    }

    /// Unread messages on both classes, as Redis has them.
    pub async fn unread(&self, uid: UserId) -> (BTreeMap<UserId, i64>, BTreeMap<UserId, i64>) {
        let view = self.view(uid).await;
        let counts = |device| match view.unread(device) {
            UnreadView::Complete { counts, .. } => counts,
            other => panic!("{uid} is {other:?}"),
        };
        (counts(DeviceClass::Pc), counts(DeviceClass::Mobile))
    }

    /// Redis lets every write wait at its door, for as long as a test may take.
    pub async fn hold_writes(&self) {
        let held: String = self
            .redis
            .command(&["CLIENT", "PAUSE", "60000", "WRITE"])
            .await;
        assert_eq!(held, "OK");
    }

    pub async fn release_writes(&self) {
        let released: String = self.redis.command(&["CLIENT", "UNPAUSE"]).await;
        assert_eq!(released, "OK");
    }

    /// Waits until a script waits there.
    pub async fn write_is_held(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let clients: String = self.redis.command(&["CLIENT", "LIST"]).await;
            let is_held =
                |client: &str| client.contains(" flags=b") && client.contains(" cmd=evalsha");
            if clients.lines().any(is_held) {
                return;
            }
            assert!(Instant::now() < deadline, "nobody writes: {clients}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a state has been begun.
    pub async fn begun(&self, uid: UserId) {
        let deadline = Instant::now() + PATIENCE;
        while self.view(uid).await != UserView::Rebuilding {
            assert!(Instant::now() < deadline, "nobody begins {uid}");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Databases that all tests share: topics and uids tell them apart.
async fn databases(servers: &TestServers) -> MySqlConfig {
    static SHARED: OnceCell<MySqlConfig> = OnceCell::const_new();
    let config = SHARED.get_or_init(|| async {
        let config = MySqlConfig {
            servers: vec![servers.mysql_url.parse().unwrap()],
            databases: 2,
            database_prefix: format!("r{}_", uuid::Uuid::new_v4().simple()),
            ..MySqlConfig::default()
        };
        let store = MessageStore::connect(&config);
        // The log's times do not matter here.
        store
            .apply_schema(TimestampMs(1_795_219_200_000))
            .await
            .unwrap();
        store.close().await;
        config
    });
    let mut config = config.await.clone();
    config.connections_per_server = 4;
    config
}

/// Users that no other test has, spread over all tables.
pub fn users<const N: usize>() -> [UserId; N] {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    std::array::from_fn(|_| NEXT.fetch_add(1, Ordering::Relaxed).try_into().unwrap())
}

/// What the contact rows say of a peer: how many messages it sent, and how many of them were read.
pub fn row(
    uid: UserId,
    peer: UserId,
    n: i64,
    pc: Option<i64>,
    mobile: Option<i64>,
) -> ContactDelta {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let mid: Mid = NEXT.fetch_add(1, Ordering::Relaxed).try_into().unwrap();
    let read = |n: Option<i64>| ReadUpTo {
        mid,
        ordinal: n.map(|n| n.try_into().unwrap()),
    };
    ContactDelta {
        peer_ordinal: n.try_into().unwrap(),
        read: PerDevice {
            pc: read(pc),
            mobile: read(mobile),
        },
        ..ContactDelta::new(uid, peer)
    }
}

pub fn soon() -> Instant {
    Instant::now() + PATIENCE
}

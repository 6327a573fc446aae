//! Topics, databases and keys of a test's own, and what projectors would write there.

use std::time::{Duration, SystemTime};

use dev_stack::TestServers;
use event_log::{Admin, AppendRecord, Appender, KafkaConfig, ProducerSettings};
use futures::future::join_all;
use message_store::{
    ChangeRow, ContactDelta, ConversationRows, MessageRow, MessageStore, MySqlConfig, OffsetUpdate,
    ReadRow, Shard, Sink, UserRows,
};
use query_api::Config;
use schemas::{
    InboundPosition, LogPosition, NextOffset, Partition, TableNumber, TimestampMs, UserId,
    command::{Command, InboundValue},
    event::{Event, SourceOffset},
    topics::Topic,
};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, mysql::MySqlConnectOptions};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};
use unread_store::RedisConfig;

/// Longer than anything here takes; a test that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Deployment {
    pub config: Config,
    appender: Appender,
}

impl Deployment {
    /// For tests that keep to users and partitions of their own. Nothing in it waits for the whole log.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Deployment> = OnceCell::const_new();
        SHARED
            .get_or_init(async || {
                let deployment = Self::new();
                deployment.apply_topics().await;
                deployment.apply_schema().await;
                deployment.fill_inbound().await;
                deployment
            })
            .await
    }

    /// What is above the end of the log is not waited for: these positions are below it, in every partition.
    pub async fn fill_inbound(&self) {
        let all = Partition::all().flat_map(|partition| [partition; 64]);
        let fill = all.map(|partition| self.append(Topic::Inbound, partition, b"", None, &[]));
        join_all(fill).await;
    }

    /// Names that nobody else has; nothing is there yet.
    pub fn new() -> Self {
        let servers = TestServers::shared();
        let id = uuid::Uuid::new_v4().simple().to_string();
        let mut config = Config {
            kafka: KafkaConfig {
                brokers: servers.kafka_brokers.clone(),
                prefix: format!("t{id}."),
                ..KafkaConfig::default()
            },
            mysql: MySqlConfig {
                servers: vec![servers.mysql_url.parse().unwrap()],
                database_prefix: format!("q{}_", &id[..12]),
                ..MySqlConfig::default()
            },
            redis: RedisConfig {
                url: servers.redis_url.clone(),
                key_prefix: format!("q{id}:"),
                ..RedisConfig::default()
            },
            ..Config::default()
        };
        config.mysql.connections_per_server = 4;
        let settings = ProducerSettings {
            linger_ms: 0,
            message_timeout_ms: 20_000,
            queue_bytes: 1 << 20,
            max_message_bytes: 1_000_000,
            gapless: false,
        };
        let appender = Appender::new(&config.kafka, &settings).unwrap();
        Self { config, appender }
    }

    pub async fn apply_topics(&self) {
        let admin = Admin::new(&self.config.kafka).unwrap();
        admin.apply().await.unwrap();
    }

    /// Months from two before this one.
    pub async fn apply_schema(&self) {
        let from = TimestampMs(now().0 - 62 * 24 * 3600 * 1000);
        self.store().apply_schema(from).await.unwrap();
    }

    pub fn store(&self) -> MessageStore {
        MessageStore::connect(&self.config.mysql)
    }

    pub fn shard_of(&self, table: impl Into<TableNumber>) -> Shard {
        self.store().layout().shard_of(table)
    }

    /// The database of a user's own rows.
    pub fn shard_of_user(&self, uid: UserId) -> Shard {
        self.store().layout().shard_of_user(uid)
    }

    pub fn events(&self) -> String {
        self.config.kafka.topic(Topic::Events)
    }

    /// Stores messages of one conversation.
    pub async fn write_messages(&self, rows: &[MessageRow]) {
        let shard = self.shard_of(rows[0].conversation().partition());
        for rows in rows.chunks(500) {
            let rows = ConversationRows {
                messages: rows.to_vec(),
                ..ConversationRows::default()
            };
            self.write_rows(shard, &rows).await;
        }
    }

    /// Stores changes of one conversation, and makes them to its messages.
    pub async fn write_changes(&self, changes: &[ChangeRow]) {
        let shard = self.shard_of(changes[0].conversation.partition());
        let rows = ConversationRows {
            changes: changes.to_vec(),
            ..ConversationRows::default()
        };
        self.write_rows(shard, &rows).await;
    }

    /// Stores rows of one database.
    pub async fn write_rows(&self, shard: Shard, rows: &ConversationRows) {
        self.store()
            .write_messages(shard, &self.events(), rows, &[])
            .await
            .unwrap();
    }

    /// Stores contacts of one user.
    pub async fn write_contacts(&self, rows: &[ContactDelta]) {
        let shard = self.shard_of_user(rows[0].uid);
        let rows = UserRows {
            contacts: rows.iter().collect(),
            ..UserRows::default()
        };
        self.store()
            .write_user_rows(shard, &self.events(), rows, &[])
            .await
            .unwrap();
    }

    pub async fn write_read(&self, row: ReadRow) {
        let shard = self.shard_of(row.conversation.partition());
        self.store()
            .write_reads(shard, &self.events(), &[row], &[])
            .await
            .unwrap();
    }

    /// Moves a sink's watermark in one database to the source `offset` of epoch 0, as if the events up to there had been taken in.
    pub async fn advance(&self, sink: Sink, shard: Shard, partition: Partition, offset: i64) {
        let (store, topic) = (self.store(), self.events());
        let partitions = [partition];
        let found = store.read_resume_offsets(shard, sink, &topic, &partitions);
        let from = found.await.unwrap()[partition];
        let to = LogPosition {
            next: NextOffset::after(from.next.get()),
            watermark: SourceOffset { epoch: 0, offset },
        };
        let moves = [OffsetUpdate {
            partition,
            from,
            to,
        }];
        let moved = match sink {
            Sink::Messages => {
                let none = ConversationRows::default();
                store.write_messages(shard, &topic, &none, &moves).await
            }
            Sink::Reads => store.write_reads(shard, &topic, &[], &moves).await,
            Sink::Contacts => {
                let none = UserRows::default();
                store.write_user_rows(shard, &topic, none, &moves).await
            }
        };
        moved.unwrap();
    }

    /// Keeps everybody from reading contacts of this table until it is dropped.
    pub async fn lock_contacts_of(&self, uid: UserId) -> MySqlConnection {
        let mut connection = self.admin().await;
        self.run(
            &mut connection,
            &format!("LOCK TABLES {} WRITE", self.contacts_of(uid)),
        )
        .await;
        connection
    }

    /// Returns once somebody waits for that lock.
    pub async fn until_it_is_waited_for(&self, uid: UserId) {
        let mut connection = self.admin().await;
        let table = format!("%{}%", self.contacts_of(uid));
        let sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%' AND INFO LIKE ?";
        let deadline = Instant::now() + PATIENCE;
        loop {
            let waiting = sqlx::query_scalar(sql).bind(&table);
            let waiting: i64 = waiting.fetch_one(&mut connection).await.unwrap();
            if waiting > 0 {
                return;
            }
            assert!(Instant::now() < deadline, "nobody waits");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a statement without an answer.
    pub async fn run(&self, connection: &mut MySqlConnection, sql: &str) {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        statement.execute(connection).await.unwrap();
    }

    /// A connection to the server of the databases.
    pub async fn admin(&self) -> MySqlConnection {
        let server = &self.config.mysql.servers[0];
        let options = MySqlConnectOptions::new()
            .host(&server.host)
            .port(server.port)
            .username(server.user.as_deref().unwrap())
            .password(server.password.as_ref().unwrap().expose());
        MySqlConnection::connect_with(&options).await.unwrap()
    }

    fn contacts_of(&self, uid: UserId) -> String {
        let prefix = &self.config.mysql.database_prefix;
        let n = TableNumber::of_user(uid);
        format!("{prefix}{}.contact_{n}", self.shard_of(n).get())
    }

    /// Posts a command as ingest would.
    pub async fn post(&self, partition: Partition, command: Command) -> InboundPosition {
        self.post_value(partition, command.into()).await
    }

    /// Appends a command with its id.
    pub async fn post_value(&self, partition: Partition, value: InboundValue) -> InboundPosition {
        let offset = self
            .append(Topic::Inbound, partition, &value.encode(), None, &[])
            .await;
        InboundPosition { partition, offset }
    }

    /// Appends an event as the sequencer would.
    pub async fn emit(&self, partition: Partition, event: Event) -> i64 {
        let ts = event.ts;
        self.append(Topic::Events, partition, &event.encode(), Some(ts), &[])
            .await
    }

    pub async fn append(
        &self,
        topic: Topic,
        partition: Partition,
        value: &[u8],
        timestamp: Option<TimestampMs>,
        headers: &[(String, Option<Vec<u8>>)],
    ) -> i64 {
        let record = AppendRecord {
            topic: &self.config.kafka.topic(topic),
            partition,
            key: b"",
            value: Some(value),
            timestamp,
            headers,
        };
        self.appender.append(record).await.unwrap()
    }
}

pub fn now() -> TimestampMs {
    SystemTime::now().into()
}

pub fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

pub fn partition(n: i64) -> Partition {
    n.try_into().unwrap()
}

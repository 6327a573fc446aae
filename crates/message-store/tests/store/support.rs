use std::{
    mem::ManuallyDrop,
    sync::atomic::{AtomicU32, Ordering},
};

use dev_stack::TestServers;
use message_store::{
    ChangeRow, ContactDelta, ConversationRows, MessageRow, MessageStore, MySqlConfig, OffsetUpdate,
    Shard, Sink, StoreError, TestDatabases, UserRows,
};
use schemas::{
    DirectConversation, GroupId, LogPosition, Mid, NextOffset, Ordinal, Partition, Recipient,
    TableNumber, TimestampMs, UserId,
    event::{Message, SourceOffset},
};
use sqlx::{Connection as _, MySqlConnection, mysql::MySqlConnectOptions};

/// 2026-11-21 00:00:00 UTC
pub const NOW: TimestampMs = TimestampMs(1_795_219_200_000);
pub const DAY_MS: i64 = 24 * 3600 * 1000;

/// A store for one test: its own connections, and a topic name that no other test uses.
pub struct Fixture {
    pub store: MessageStore,
    pub config: MySqlConfig,
    pub topic: String,
    _databases: Option<TestDatabases>,
}

impl Fixture {
    /// With databases that all tests share: they are told apart by uids (see [`Fixture::users`]) and topics.
    pub async fn shared() -> Self {
        static SHARED: tokio::sync::OnceCell<MySqlConfig> = tokio::sync::OnceCell::const_new();
        let config = SHARED.get_or_init(|| async {
            let databases = ManuallyDrop::new(own_databases().await);
            MessageStore::connect(databases.config())
                .apply_schema(NOW)
                .await
                .unwrap();
            databases.config().clone()
        });
        Self::new(config.await.clone(), None)
    }

    /// With databases of its own, which do not exist yet.
    pub async fn without_schema() -> Self {
        let databases = own_databases().await;
        Self::new(databases.config().clone(), Some(databases))
    }

    fn new(config: MySqlConfig, databases: Option<TestDatabases>) -> Self {
        Self {
            store: MessageStore::connect(&config),
            config,
            topic: format!("test-{}.chat.events", unique()),
            _databases: databases,
        }
    }

    /// Two users that no other test has; their conversation is in partition `n`.
    pub fn users(&self, n: u8) -> (UserId, UserId) {
        let lo = i64::from(unique()) * 6400 + i64::from(n);
        (user(lo), user(lo * 64))
    }

    /// A plain connection, for what the store does not do.
    pub async fn admin(&self) -> MySqlConnection {
        let server = &self.config.servers[0];
        let options = MySqlConnectOptions::new()
            .host(&server.host)
            .port(server.port)
            .username(server.user.as_deref().unwrap())
            .password(server.password.as_ref().unwrap().expose());
        MySqlConnection::connect_with(&options).await.unwrap()
    }

    /// The full name of a table.
    pub fn table(&self, stem: &str, number: impl Into<TableNumber>) -> String {
        let number = number.into();
        format!("{}.{stem}_{number}", self.database(self.shard(number)))
    }

    pub fn database(&self, shard: Shard) -> String {
        format!("{}{}", self.config.database_prefix, shard.get())
    }

    pub fn shard(&self, table: impl Into<TableNumber>) -> Shard {
        self.store.layout().shard_of(table)
    }

    /// Writes rows of one conversation, whatever the offset row says.
    pub async fn write(&self, rows: &[MessageRow]) -> Result<(), StoreError> {
        let partition = rows[0].conversation().partition();
        let shard = self.shard(partition);
        self.store
            .write_messages(shard, &self.topic, &rows_of(rows, &[]), &[])
            .await
    }

    pub async fn resume(&self, sink: Sink, partition: Partition) -> LogPosition {
        let shard = self.shard(partition);
        let found = self
            .store
            .read_resume_offsets(shard, sink, &self.topic, &[partition])
            .await;
        found.unwrap()[partition]
    }
}

async fn own_databases() -> TestDatabases {
    // Starting servers blocks.
    let servers = tokio::task::spawn_blocking(TestServers::shared)
        .await
        .unwrap();
    TestDatabases::new(&[&servers.mysql_url], MySqlConfig::default().databases)
}

fn unique() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

pub fn mid(mid: i64) -> Mid {
    mid.try_into().unwrap()
}

pub fn ordinal(n: i64) -> Ordinal {
    n.try_into().unwrap()
}

pub fn conversation((a, b): (UserId, UserId)) -> DirectConversation {
    DirectConversation::new(a, b)
}

/// A message from the first to the second, with most of its values made up from its mid.
pub fn message((srcid, destid): (UserId, UserId), number: i64) -> MessageRow {
    let message = Message {
        srcid,
        to: Recipient::User(destid),
        client_msg_id: format!("c-{number}").try_into().unwrap(),
        msg: format!("text {number}"),
        mid: mid(number),
        ordinal: ordinal(number),
    };
    MessageRow::new(number, NOW, message)
}

/// A group that no other test has, in the partition of these users' conversation.
pub fn group((lo, _): (UserId, UserId)) -> GroupId {
    lo.get().try_into().unwrap()
}

/// The same message, sent to a group.
pub fn to_group(gid: GroupId, row: MessageRow) -> MessageRow {
    MessageRow {
        to: Recipient::Group(gid),
        ordinal: None,
        ..row
    }
}

/// What a write of messages takes.
pub fn rows_of(messages: &[MessageRow], changes: &[ChangeRow]) -> ConversationRows {
    ConversationRows {
        messages: messages.to_vec(),
        changes: changes.to_vec(),
        ..ConversationRows::default()
    }
}

/// What a write of contacts takes.
pub fn contacts(rows: &[ContactDelta]) -> UserRows<'_> {
    UserRows {
        contacts: rows.iter().collect(),
        ..UserRows::default()
    }
}

pub fn mids(rows: &[MessageRow]) -> Vec<i64> {
    rows.iter().map(|row| row.mid.get()).collect()
}

pub fn resume(next: i64) -> LogPosition {
    LogPosition {
        next: NextOffset::new(next),
        watermark: SourceOffset {
            epoch: 0,
            offset: next - 1,
        },
    }
}

pub fn step(partition: Partition, from: LogPosition, to: LogPosition) -> OffsetUpdate {
    OffsetUpdate {
        partition,
        from,
        to,
    }
}

pub fn table_number(number: i64) -> TableNumber {
    number.try_into().unwrap()
}

use std::collections::BTreeMap;

use redis::FromRedisValue;
use schemas::{
    DeviceClass, LogPosition, Mid, NextOffset, Ordinal, Partition, PartitionMap, Recipient, UserId,
    event::ReadPosition, event::SourceOffset,
};
use unread_store::{
    BatchOutcome, BeginOutcome, Connection, Expiry, Generation, PeerOrdinals, PositionMove,
    RawUser, Rebuild, RedisConfig, StoredPosition, UnreadError, UnreadStore, UnreadView,
    UserUpdate,
};

use crate::server::RedisServer;

pub const LEASE_MS: u64 = 60_000;
pub const ME: i64 = 1000;
pub const BOSS: i64 = 1001;

pub fn user(uid: i64) -> UserId {
    uid.try_into().unwrap()
}

pub fn n(n: i64) -> Ordinal {
    n.try_into().unwrap()
}

pub fn ordinals(text: &str) -> PeerOrdinals {
    text.parse().unwrap()
}

pub fn partition(p: i64) -> Partition {
    p.try_into().unwrap()
}

pub fn src(offset: i64) -> SourceOffset {
    SourceOffset { epoch: 0, offset }
}

/// The same position in all partitions.
pub fn ends(next: i64) -> PartitionMap<LogPosition> {
    PartitionMap::full(|_| position(next))
}

fn position(next: i64) -> LogPosition {
    LogPosition {
        next: NextOffset::new(next),
        watermark: src(next - 1),
    }
}

/// `n` messages of `peer` to `uid`.
pub fn messages(uid: i64, peer: i64, newest: i64) -> UserUpdate {
    let mut update = UserUpdate::new(user(uid));
    update.message(user(peer), n(newest));
    update
}

/// A read position of `uid` in the conversation with `peer`.
pub fn read(uid: i64, peer: i64, device: DeviceClass, ordinal: Option<i64>) -> UserUpdate {
    let mut update = UserUpdate::new(user(uid));
    update.read(&ReadPosition {
        uid: user(uid),
        to: Recipient::User(user(peer)),
        device,
        mid: Mid::ZERO.next(),
        ordinal: ordinal.map(n),
    });
    update
}

/// A server, a connection to it (of a cluster, to the slot of [`ME`]), and its first generation.
pub struct TestEnv {
    pub conn: Connection,
    pub generation: Generation,
    pub config: RedisConfig,
    pub server: RedisServer,
}

impl TestEnv {
    pub async fn new() -> Self {
        Self::with(RedisConfig::default()).await
    }

    pub async fn with(config: RedisConfig) -> Self {
        let server = if config.cluster {
            RedisServer::start_cluster().await
        } else {
            RedisServer::start()
        };
        let config = RedisConfig {
            url: server.url(),
            ..config
        };
        let conn = connect(&config).await;
        let generation = conn.initialise_positions(&ends(0)).await.unwrap();
        Self {
            conn,
            generation,
            config,
            server,
        }
    }

    /// Writes positions at `next` in all partitions, if there are none.
    pub async fn initialise_at(&self, next: i64) -> Generation {
        self.conn.initialise_positions(&ends(next)).await.unwrap()
    }

    /// Has the user's state say that it is of another generation.
    pub async fn put_into_another_generation(&self, uid: i64) {
        let other = Generation::fresh();
        let set = format!("HSET state-{uid} gen {other}");
        assert_eq!(self.redis::<i64>(&set).await, 0, "there is no state");
    }

    pub async fn reconnect(&mut self) {
        self.conn = connect(&self.config).await;
    }

    /// Sends any command.
    pub async fn redis<T: FromRedisValue>(&self, command: &str) -> T {
        let words: Vec<&str> = command.split_whitespace().collect();
        self.server.command(&words).await
    }

    pub async fn batch(
        &mut self,
        updates: &[UserUpdate],
        moves: &[PositionMove],
    ) -> Result<BatchOutcome, UnreadError> {
        self.conn.apply_batch(self.generation, updates, moves).await
    }

    /// Applies one update without moving a position; returns whether the user was absent.
    pub async fn apply(&mut self, update: UserUpdate) -> bool {
        let outcome = self.batch(&[update], &[]).await;
        !outcome.unwrap().absent.is_empty()
    }

    pub async fn begin(&self, uid: i64) -> Rebuild {
        self.begin_with_lease(uid, LEASE_MS).await
    }

    pub async fn begin_with_lease(&self, uid: i64, lease_ms: u64) -> Rebuild {
        match self.conn.begin_rebuild(user(uid), lease_ms).await.unwrap() {
            BeginOutcome::Begun(rebuild) => rebuild,
            other => panic!("not begun: {other:?}"),
        }
    }

    pub async fn complete(&self, rebuild: &Rebuild, peers: &[(i64, &str)]) -> bool {
        let peers: Vec<_> = peers
            .iter()
            .map(|(peer, text)| (user(*peer), ordinals(text)))
            .collect();
        self.conn.complete_rebuild(rebuild, &peers).await.unwrap()
    }

    /// A complete state with these peers.
    pub async fn load(&self, uid: i64, peers: &[(i64, &str)]) {
        let rebuild = self.begin(uid).await;
        assert!(self.complete(&rebuild, peers).await);
    }

    pub async fn raw(&self, uid: i64) -> RawUser {
        self.conn.read_state(user(uid)).await.unwrap()
    }

    pub async fn unread(&self, uid: i64, device: DeviceClass) -> UnreadView {
        let read = self.conn.read_unread(user(uid), device, Expiry::Keep);
        read.await.unwrap()
    }

    pub fn stored(&self, offset: i64) -> StoredPosition {
        StoredPosition {
            generation: self.generation,
            position: position(offset),
        }
    }

    pub fn step(&self, p: i64, from: i64, to: i64) -> PositionMove {
        PositionMove {
            partition: partition(p),
            from: self.stored(from),
            to: self.stored(to),
        }
    }
}

async fn connect(config: &RedisConfig) -> Connection {
    let store = UnreadStore::new(config).unwrap();
    store.slot_of(user(ME)).connect().await.unwrap()
}

pub fn counts(pairs: &[(i64, i64)]) -> BTreeMap<UserId, i64> {
    pairs.iter().map(|(peer, n)| (user(*peer), *n)).collect()
}

pub fn complete(pairs: &[(i64, i64)]) -> UnreadView {
    UnreadView::Complete {
        counts: counts(pairs),
        unknown: vec![],
    }
}

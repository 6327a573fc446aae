//! Redis as the projector would fill it.

use schemas::{LogPosition, NextOffset, Partition, PartitionMap, UserId, event::SourceOffset};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use unread_store::{
    BeginOutcome, Connection, Generation, PeerOrdinals, PositionMove, RawUser, RedisConfig,
    StoredPosition, UnreadStore,
};

/// How often each command was called, as Redis says it.
pub async fn command_stats(config: &RedisConfig) -> String {
    let address = config.url.strip_prefix("redis://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"INFO commandstats\r\nQUIT\r\n")
        .await
        .unwrap();
    let mut stats = String::new();
    stream.read_to_string(&mut stats).await.unwrap();
    stats
}

pub struct Redis {
    connection: Connection,
    generation: Generation,
}

impl Redis {
    /// Begins the first generation, with positions at the start of the log.
    pub async fn initialise(config: &RedisConfig) -> Self {
        let store = UnreadStore::new(config).unwrap();
        let connection = store.slots()[0].connect().await.unwrap();
        let ends = PartitionMap::new();
        let generation = connection.initialise_positions(&ends).await.unwrap();
        Self {
            connection,
            generation,
        }
    }

    /// A complete state, each peer as `n,pc_n,mobile_n`.
    pub async fn load(&self, uid: UserId, peers: &[(UserId, &str)]) {
        let begin = self.connection.begin_rebuild(uid, 60_000).await.unwrap();
        let BeginOutcome::Begun(rebuild) = begin else {
            panic!("not begun: {begin:?}");
        };
        let peers: Vec<(UserId, PeerOrdinals)> = peers
            .iter()
            .map(|(peer, ordinals)| (*peer, ordinals.parse().unwrap()))
            .collect();
        assert!(
            self.connection
                .complete_rebuild(&rebuild, &peers)
                .await
                .unwrap()
        );
    }

    /// Another process begins a rebuild and does not finish it.
    pub async fn begin_elsewhere(&self, uid: UserId) {
        let begin = self.connection.begin_rebuild(uid, 60_000).await.unwrap();
        assert!(matches!(begin, BeginOutcome::Begun(_)), "{begin:?}");
    }

    /// Moves a watermark to the source offset `offset` of epoch 0.
    pub async fn advance(&mut self, partition: Partition, offset: i64) {
        let positions = self.connection.read_positions().await.unwrap();
        let from = positions.get(partition).unwrap();
        let to = StoredPosition {
            position: LogPosition {
                next: NextOffset::after(from.position.next.get()),
                watermark: SourceOffset { epoch: 0, offset },
            },
            ..from
        };
        let moves = [PositionMove {
            partition,
            from,
            to,
        }];
        let moved = self.connection.apply_batch(self.generation, &[], &moves);
        moved.await.unwrap();
    }

    /// That of the cached profile.
    pub async fn nick(&self, uid: UserId) -> Option<String> {
        let read = self.connection.read_profiles(&[uid]).await.unwrap();
        let found = read.profiles.get(&uid)?;
        Some(found.profile.nick.clone())
    }

    pub async fn raw(&self, uid: UserId) -> RawUser {
        self.connection.read_state(uid).await.unwrap()
    }
}

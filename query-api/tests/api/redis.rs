//! Redis as the projector would fill it.

use schemas::{Partition, UserId, event::SourceOffset};
use unread_store::{
    Begin, Connection, Generation, Node, PeerOrdinals, RawUser, RedisConfig, Watermark,
    WatermarkMove,
};

pub struct Redis {
    connection: Connection,
    generation: Generation,
}

impl Redis {
    /// Begins the first generation, with watermarks before everything.
    pub async fn initialise(config: &RedisConfig) -> Self {
        let connection = Node::new(config).unwrap().connect().await.unwrap();
        let ends = [(0, SourceOffset::START); 64];
        let generation = connection.initialise_marks(&ends).await.unwrap();
        Self {
            connection,
            generation,
        }
    }

    /// A complete state, each peer as `n,pc_n,mobile_n`.
    pub async fn load(&self, uid: UserId, peers: &[(UserId, &str)]) {
        let begin = self.connection.begin_rebuild(uid, 60_000).await.unwrap();
        let Begin::Begun(rebuild) = begin else {
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

    /// Somebody else begins a rebuild and does not finish it.
    pub async fn begin_elsewhere(&self, uid: UserId) {
        let begin = self.connection.begin_rebuild(uid, 60_000).await.unwrap();
        assert!(matches!(begin, Begin::Begun(_)), "{begin:?}");
    }

    /// Moves a watermark to the source `offset` of epoch 0.
    pub async fn advance(&mut self, partition: Partition, offset: i64) {
        let watermarks = self.connection.read_marks().await.unwrap();
        let from = watermarks.get(partition).unwrap();
        let to = Watermark {
            offset: from.offset + 1,
            src: SourceOffset { epoch: 0, offset },
            ..from
        };
        let moves = [WatermarkMove {
            partition,
            from,
            to,
        }];
        let moved = self.connection.apply_batch(self.generation, &[], &moves);
        moved.await.unwrap();
    }

    pub async fn raw(&self, uid: UserId) -> RawUser {
        self.connection.read_state(uid).await.unwrap()
    }
}

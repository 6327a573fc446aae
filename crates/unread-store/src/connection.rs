use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult,
    ServerErrorKind, aio::MultiplexedConnection,
};

use crate::{KeyNames, RedisConfig, UnreadError, scripts};

/// A Redis server with its settings. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    settings: Arc<Settings>,
}

struct Settings {
    client: redis::Client,
    timeouts: AsyncConnectionConfig,
    keys: KeyNames,
    expiry_ms: u64,
}

impl Node {
    /// Does not connect yet.
    ///
    /// # Errors
    /// [`UnreadError::Url`], [`UnreadError::Tls`].
    pub fn new(config: &RedisConfig) -> Result<Self, UnreadError> {
        let settings = Settings {
            client: config.client()?,
            timeouts: config.timeouts(),
            keys: config.key_names(),
            expiry_ms: config.expiry_ms,
        };
        Ok(Self {
            settings: Arc::new(settings),
        })
    }

    /// The names of its keys.
    #[must_use]
    pub fn keys(&self) -> &KeyNames {
        &self.settings.keys
    }

    /// A new connection, with the scripts loaded. A writer reads the positions first (PROTOCOL R1).
    ///
    /// # Errors
    /// [`UnreadError::Transient`].
    pub async fn connect(&self) -> Result<Connection, UnreadError> {
        let settings = &self.settings;
        let connect = settings
            .client
            .get_multiplexed_async_connection_with_config(&settings.timeouts);
        let mut redis = connect.await.map_err(UnreadError::Transient)?;
        scripts::load(&mut redis)
            .await
            .map_err(UnreadError::Transient)?;
        Ok(Connection {
            node: self.clone(),
            redis,
            failed: Arc::default(),
        })
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.settings.client.get_connection_info().addr();
        write!(f, "Node({address})")
    }
}

/// One connection to one node. It never reconnects: after a [`UnreadError::Transient`] every call returns
/// [`UnreadError::Broken`]. Clones share the connection and its failure.
#[derive(Clone)]
pub struct Connection {
    node: Node,
    redis: MultiplexedConnection,
    failed: Arc<AtomicBool>,
}

impl Connection {
    /// Whether it has failed, so that a new one is needed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns once Redis has responded.
    ///
    /// # Errors
    /// [`UnreadError::Transient`] where it does not respond.
    pub async fn ping(&self) -> Result<(), UnreadError> {
        let mut pipe = redis::pipe();
        pipe.cmd("PING").ignore();
        self.run(&pipe).await
    }

    pub(crate) fn keys(&self) -> &KeyNames {
        self.node.keys()
    }

    pub(crate) fn expiry_ms(&self) -> u64 {
        self.node.settings.expiry_ms
    }

    /// Runs one command.
    pub(crate) async fn run_one<T: FromRedisValue>(&self, cmd: Cmd) -> Result<T, UnreadError> {
        let mut pipe = redis::pipe();
        pipe.add_command(cmd);
        let (response,) = self.run(&pipe).await?;
        Ok(response)
    }

    /// Runs a pipeline. Where the server has lost the scripts (`SCRIPT FLUSH`, a failover), they are loaded and the
    /// pipeline is sent again: every script here may run twice.
    pub(crate) async fn run<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T, UnreadError> {
        if self.has_failed() {
            return Err(UnreadError::Broken);
        }
        let mut redis = self.redis.clone();
        let outcome = match pipe.query_async(&mut redis).await {
            Err(error) if lacks_scripts(&error) => reload_and_repeat(&mut redis, pipe).await,
            outcome => outcome,
        };
        outcome.map_err(|error| {
            self.failed.store(true, Ordering::Relaxed);
            UnreadError::Transient(error)
        })
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("node", &self.node)
            .field("failed", &self.has_failed())
            .finish_non_exhaustive()
    }
}

async fn reload_and_repeat<T: FromRedisValue>(
    redis: &mut MultiplexedConnection,
    pipe: &Pipeline,
) -> RedisResult<T> {
    tracing::info!("redis has lost the scripts; loading them again");
    scripts::load(redis).await?;
    pipe.query_async(redis).await
}

fn lacks_scripts(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

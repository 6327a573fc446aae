use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redis::{
    Client, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind,
    aio::MultiplexedConnection,
};

use crate::{KeyNames, Slot, UnreadError, scripts};

/// One connection to the server that has a slot. It never reconnects: after a [`UnreadError::Transient`] every call returns
/// [`UnreadError::Broken`]. Clones share the connection and its failure.
#[derive(Clone)]
pub struct Connection {
    slot: Slot,
    redis: MultiplexedConnection,
    failed: Arc<AtomicBool>,
}

impl Connection {
    pub(crate) async fn open(slot: Slot, client: &Client) -> Result<Self, UnreadError> {
        let connect =
            client.get_multiplexed_async_connection_with_config(&slot.settings().timeouts);
        let mut redis = connect.await.map_err(UnreadError::Transient)?;
        scripts::load(&mut redis)
            .await
            .map_err(UnreadError::Transient)?;
        Ok(Self {
            slot,
            redis,
            failed: Arc::default(),
        })
    }

    /// Whether the connection has failed, so that a new one is needed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns once Redis has responded.
    ///
    /// # Errors
    /// [`UnreadError::Transient`] if it does not respond.
    pub async fn ping(&self) -> Result<(), UnreadError> {
        let mut pipe = redis::pipe();
        pipe.cmd("PING").ignore();
        self.run(&pipe).await
    }

    /// Returns once Redis has taken a write that leaves nothing behind. Redis may serve reads and refuse writes: if it is out of memory, lacks
    /// replicas, or cannot store them.
    ///
    /// # Errors
    /// [`UnreadError::Transient`] if it does not take the write.
    pub async fn probe_write(&self) -> Result<(), UnreadError> {
        let key = self.keys().write_probe();
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("HSET").arg(&key).arg("probe").arg(1).ignore();
        pipe.cmd("DEL").arg(&key).ignore();
        self.run(&pipe).await
    }

    pub(crate) fn keys(&self) -> &KeyNames {
        self.slot.keys()
    }

    pub(crate) fn expiry_ms(&self) -> u64 {
        self.slot.settings().expiry_ms
    }

    /// Runs one command.
    pub(crate) async fn run_one<T: FromRedisValue>(&self, cmd: Cmd) -> Result<T, UnreadError> {
        let mut pipe = redis::pipe();
        pipe.add_command(cmd);
        let (response,) = self.run(&pipe).await?;
        Ok(response)
    }

    /// Runs a pipeline. If the server has lost the scripts (`SCRIPT FLUSH`, a failover), they are loaded and the pipeline is sent again: every script
    /// here may run twice.
    pub(crate) async fn run<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T, UnreadError> {
        if self.has_failed() {
            return Err(UnreadError::Broken);
        }
        let mut redis = self.redis.clone();
        let outcome = match pipe.query_async(&mut redis).await {
            Err(error) if lacks_scripts(&error) => reload_and_repeat(&mut redis, pipe).await,
            outcome => outcome,
        };
        outcome.map_err(|error| self.fail(error))
    }

    /// Marks the connection as unusable.
    pub(crate) fn fail(&self, error: RedisError) -> UnreadError {
        self.failed.store(true, Ordering::Relaxed);
        UnreadError::Transient(error)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("slot", &self.slot)
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

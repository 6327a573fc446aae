use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use sqlx::MySqlPool;

use crate::{
    Layout, Month, MySqlConfig, Shard, Sink, StoreError,
    names::Names,
    session::{self, Session},
};

/// The message store: the databases of one deployment. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct MessageStore {
    inner: Arc<Inner>,
    names: Names,
}

#[derive(Debug)]
struct Inner {
    pools: Vec<MySqlPool>,
    /// The first month that each database keeps, if it is known. A month here never moves back.
    kept_from_cache: Mutex<BTreeMap<Shard, Month>>,
    statement_timeout: Duration,
}

impl MessageStore {
    /// A store that connects when it is first used.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn connect(config: &MySqlConfig) -> Self {
        let pools = config
            .servers
            .iter()
            .map(|server| session::lazy_pool(server, config))
            .collect();
        Self {
            inner: Arc::new(Inner {
                pools,
                kept_from_cache: Mutex::default(),
                statement_timeout: Duration::from_millis(config.statement_timeout_ms),
            }),
            names: Names::new(config),
        }
    }

    /// The first database of each server.
    pub(crate) fn shards_of_servers(&self) -> Vec<Shard> {
        let mut shards: Vec<Shard> = self.layout().shards().collect();
        shards.dedup_by_key(|shard| self.layout().server_of(*shard));
        shards
    }

    /// The same store, with the shadow tables of `sink` and their offsets in place of the live ones.
    #[must_use]
    pub fn shadow(&self, sink: Sink) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            names: self.names.with_shadow(sink),
        }
    }

    /// The assignment of tables to databases and of databases to servers.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.names.layout()
    }

    /// Whether every server answers.
    ///
    /// # Errors
    /// The error of the first server that does not answer.
    pub async fn ping(&self) -> Result<(), StoreError> {
        for pool in &self.inner.pools {
            let mut session = Session::acquire(pool, self.inner.statement_timeout).await?;
            session.execute("DO 0".to_owned()).await?;
        }
        Ok(())
    }

    /// Waits until the connections are unused, and closes them.
    pub async fn close(&self) {
        for pool in &self.inner.pools {
            pool.close().await;
        }
    }

    /// The first month that a database keeps, as last read from it.
    pub(crate) fn known_kept_from(&self, shard: Shard) -> Option<Month> {
        self.inner.kept_from_cache.lock().get(&shard).copied()
    }

    pub(crate) fn learn_kept_from(&self, shard: Shard, kept_from: Option<Month>) {
        if let Some(month) = kept_from {
            let mut cache = self.inner.kept_from_cache.lock();
            let known = cache.entry(shard).or_insert(month);
            *known = month.max(*known);
        }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn pool(&self, shard: Shard) -> &MySqlPool {
        &self.inner.pools[self.layout().server_of(shard)]
    }

    pub(crate) fn statement_timeout(&self) -> Duration {
        self.inner.statement_timeout
    }

    pub(crate) async fn session(&self, shard: Shard) -> Result<Session, StoreError> {
        Session::acquire(self.pool(shard), self.inner.statement_timeout).await
    }
}

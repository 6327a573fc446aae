//! Databases for tests that share a server.

use std::thread;

use crate::{MessageStore, MySqlConfig, StoreError};

/// Databases of one test, under a unique prefix. They are dropped after the value, if the process lasts: those of a run of all tests would take ten
/// gigabytes.
pub struct TestDatabases {
    config: MySqlConfig,
}

impl TestDatabases {
    /// Names for `databases` databases on `servers` (`mysql://user:password@host:port`), which [`MessageStore::apply_schema`] creates.
    ///
    /// # Panics
    /// If a URL is invalid.
    #[must_use]
    pub fn new(servers: &[&str], databases: u8) -> Self {
        let urls = servers.iter().map(|url| url.parse());
        let id = uuid::Uuid::new_v4().simple().to_string();
        let config = MySqlConfig {
            servers: urls.collect::<Result<_, _>>().expect("URLs of servers"),
            databases,
            database_prefix: format!("t{}_", &id[..12]),
            ..MySqlConfig::default()
        };
        Self { config }
    }

    /// A configuration with these servers, databases and prefix, and defaults for the rest.
    #[must_use]
    pub fn config(&self) -> &MySqlConfig {
        &self.config
    }
}

impl Drop for TestDatabases {
    fn drop(&mut self) {
        let config = self.config.clone();
        // The thread is not joined: snapshots that the test has dropped end with the test's runtime, which must not be blocked.
        thread::spawn(move || {
            if let Err(error) = drop_databases(&config) {
                tracing::warn!(%error, "databases of a test stay");
            }
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn drop_databases(config: &MySqlConfig) -> Result<(), StoreError> {
    let store = MessageStore::connect(config);
    for shard in store.layout().shards() {
        let database = store.names().database(shard);
        let sql = format!("DROP DATABASE IF EXISTS {database}");
        store.session(shard).await?.execute(sql).await?;
    }
    Ok(())
}

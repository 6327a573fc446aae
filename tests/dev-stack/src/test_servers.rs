//! The servers that all tests of one process share.

use std::env;
use std::sync::OnceLock;

use crate::throw_away::ThrowAwayServers;
use crate::{Endpoints, FreshServers, StackError};

pub(crate) const ENV_KAFKA: &str = "TIDEMARK_TEST_KAFKA";
pub(crate) const ENV_REDIS: &str = "TIDEMARK_TEST_REDIS";
pub(crate) const ENV_MYSQL: &str = "TIDEMARK_TEST_MYSQL";

/// Real servers for tests. Each test must keep to a topic prefix, databases and keys of its own.
#[derive(Debug)]
pub struct TestServers {
    /// Kafka's bootstrap addresses, `host:port`, separated by commas.
    pub kafka_brokers: String,
    /// `redis://host:port`.
    pub redis_url: String,
    /// `mysql://user:password@host:port`, without a database, for a user who may create databases.
    pub mysql_url: String,
}

impl TestServers {
    /// The servers named by `TIDEMARK_TEST_KAFKA`, `TIDEMARK_TEST_REDIS` and `TIDEMARK_TEST_MYSQL` if all three are set (`tidemark stack exec` does),
    /// else servers of this process's own: the first call starts them, which takes some seconds, and they end with the process. With the feature
    /// `docker` they are containers if a Docker engine answers; `TIDEMARK_TEST_SERVERS=native` or `=docker` decides otherwise.
    ///
    /// # Panics
    /// If the servers cannot be started; the message says why. No test can continue then.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TestServers> = OnceLock::new();
        SHARED.get_or_init(|| {
            from_env().unwrap_or_else(|| match own() {
                Ok(servers) => servers,
                Err(error) => panic!("no servers for the tests: {error}"),
            })
        })
    }
}

fn from_env() -> Option<TestServers> {
    Some(TestServers {
        kafka_brokers: env::var(ENV_KAFKA).ok()?,
        redis_url: env::var(ENV_REDIS).ok()?,
        mysql_url: env::var(ENV_MYSQL).ok()?,
    })
}

fn own() -> Result<TestServers, StackError> {
    let servers = ThrowAwayServers::start(FreshServers::start)?;
    let Endpoints {
        kafka_brokers,
        redis_url,
        mysql_url,
    } = servers.endpoints();
    // Never dropped: the servers are to live exactly as long as this process.
    std::mem::forget(servers);
    Ok(TestServers {
        kafka_brokers,
        redis_url,
        mysql_url,
    })
}

//! Closed loops: a connection sends again as soon as it has the answer.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use system_tests::TestEnv;

use super::{connection::Connection, post::Post, traffic::Traffic};
use crate::warm;

const WARM_UP_STEP: Duration = Duration::from_secs(10);

/// Posts until an environment's broker is warm.
///
/// # Errors
/// If a message is not accepted.
pub(crate) async fn warm_up(env: &TestEnv, traffic: &Traffic) -> Result<()> {
    let clients = ClosedLoop {
        port: env.port("ingest")?,
        connections: 64,
        post: Post::Single,
    };
    let post = async || clients.run(traffic, WARM_UP_STEP).await.map(drop);
    warm::warm_up(env, post).await
}

/// Clients of ingest, each with its own connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedLoop {
    pub(crate) port: u16,
    pub(crate) connections: usize,
    pub(crate) post: Post,
}

impl ClosedLoop {
    /// Posts for `length`. Returns how many messages were accepted.
    ///
    /// # Errors
    /// If a message is not accepted.
    pub(crate) async fn run(self, traffic: &Traffic, length: Duration) -> Result<u64> {
        let clients = (0..self.connections).map(|_| {
            let client = self.client(traffic.clone(), length);
            async { tokio::spawn(client).await? }
        });
        Ok(try_join_all(clients).await?.into_iter().sum())
    }

    /// Posts at least `count` messages over one connection.
    ///
    /// # Errors
    /// If a message is not accepted.
    pub(crate) async fn count(self, traffic: &Traffic, count: u64) -> Result<u64> {
        let mut connection = Connection::open(self.port).await?;
        let mut accepted = 0;
        while accepted < count {
            accepted += self.post.post(&mut connection, traffic).await?;
        }
        Ok(accepted)
    }

    async fn client(self, traffic: Traffic, length: Duration) -> Result<u64> {
        let mut connection = Connection::open(self.port).await?;
        let began = Instant::now();
        let mut accepted = 0;
        while began.elapsed() < length {
            accepted += self.post.post(&mut connection, &traffic).await?;
        }
        Ok(accepted)
    }
}

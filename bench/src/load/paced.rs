//! Open loops: requests at scheduled times. A connection that waits for an answer is late for its next request, whose time counts from when it was
//! due, so that no waiting is left out.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use tokio::time::{Instant, sleep_until};

use super::{connection::Connection, post::Post, traffic::Traffic};

/// Clients of ingest that together keep to a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacedLoop {
    pub(crate) port: u16,
    pub(crate) connections: usize,
    pub(crate) post: Post,
    /// Messages a second, over all connections.
    pub(crate) rate: f64,
}

/// The results of the clients.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// How many messages were accepted.
    pub(crate) accepted: u64,
    /// From the scheduled time of each request until its answer, milliseconds.
    pub(crate) waited_ms: Vec<f64>,
}

impl PacedLoop {
    /// Posts for `length`. A client that is late catches up; the waiting times count from its schedule.
    ///
    /// # Errors
    /// If a message is not accepted.
    pub(crate) async fn run(self, traffic: &Traffic, length: Duration) -> Result<Answered> {
        let began = Instant::now();
        let clients = (0..self.connections).map(|i| {
            let client = self.client(i, traffic.clone(), began, length);
            async { tokio::spawn(client).await? }
        });
        let mut all = Answered::default();
        for answered in try_join_all(clients).await? {
            all.accepted += answered.accepted;
            all.waited_ms.extend(answered.waited_ms);
        }
        Ok(all)
    }

    async fn client(
        self,
        index: usize,
        traffic: Traffic,
        began: Instant,
        length: Duration,
    ) -> Result<Answered> {
        let mut connection = Connection::open(self.port).await?;
        let between = Duration::from_secs_f64(self.post.count() as f64 / self.rate);
        let mut answered = Answered::default();
        for turn in 0_u32.. {
            let nth = turn as f64 * self.connections as f64 + index as f64;
            let due = between.mul_f64(nth);
            if due >= length {
                break;
            }
            sleep_until(began + due).await;
            answered.accepted += self.post.post(&mut connection, &traffic).await?;
            let waited = (began + due).elapsed();
            answered.waited_ms.push(waited.as_secs_f64() * 1e3);
        }
        Ok(answered)
    }
}

//! Readers: closed loops.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::future::try_join_all;

use super::connection::Connection;

/// Requests the paths in turn, over several connections, for `length`. Returns how many answers there were; all of them were 200.
///
/// # Errors
/// If an answer is not 200.
pub(crate) async fn read(
    port: u16,
    connections: usize,
    paths: Arc<[String]>,
    length: Duration,
) -> Result<u64> {
    let readers = (0..connections).map(|i| {
        let reader = reader(port, i, Arc::clone(&paths), length);
        async { tokio::spawn(reader).await? }
    });
    Ok(try_join_all(readers).await?.into_iter().sum())
}

async fn reader(port: u16, from: usize, paths: Arc<[String]>, length: Duration) -> Result<u64> {
    let mut connection = Connection::open(port).await?;
    let began = Instant::now();
    let mut answers = 0;
    // Readers should not request the same path at the same time.
    let mut paths = paths.iter().cycle().skip(from * 31);
    while began.elapsed() < length {
        let Some(path) = paths.next() else { break };
        connection.get(path).await?;
        answers += 1;
    }
    Ok(answers)
}

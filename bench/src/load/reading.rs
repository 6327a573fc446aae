//! Readers: closed loops, and one at a rate.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::future::try_join_all;

use super::connection::Connection;

/// Asks for the paths in turn over so many connections, for so long; gives how many answers there were, all of them 200.
///
/// # Errors
/// One is not.
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
    // Readers are not to ask for the same at the same time.
    let mut paths = paths.iter().cycle().skip(from * 31);
    while began.elapsed() < length {
        let Some(path) = paths.next() else { break };
        connection.get(path).await?;
        answers += 1;
    }
    Ok(answers)
}

/// Asks for a path so many times a second, for so long; gives how long each answer took from when it was due, milliseconds.
///
/// # Errors
/// An answer is not 200.
pub(crate) async fn paced(port: u16, path: &str, rate: u32, length: Duration) -> Result<Vec<f64>> {
    let mut connection = Connection::open(port).await?;
    let began = tokio::time::Instant::now();
    let mut waited_ms = Vec::new();
    for nth in 0.. {
        let due = began + Duration::from_secs(nth) / rate;
        if due >= began + length {
            break;
        }
        tokio::time::sleep_until(due).await;
        connection.get(path).await?;
        waited_ms.push(due.elapsed().as_secs_f64() * 1e3);
    }
    Ok(waited_ms)
}

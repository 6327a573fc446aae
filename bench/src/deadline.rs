//! Waiting, with a deadline, for a stage to be done.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

/// How often a stage checks whether something is done.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Work that takes longer than this is stuck: minutes on a slow machine are usual.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Repeats `done` until it is true.
///
/// # Errors
/// Those of `done`, and a timeout after [`TIMEOUT`].
pub(crate) async fn wait_until(what: &str, done: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    poll_until(what, POLL_INTERVAL, done).await
}

/// As [`wait_until`], with another poll interval.
///
/// # Errors
/// As [`wait_until`].
pub(crate) async fn poll_until(
    what: &str,
    every: Duration,
    mut done: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while !done().await? {
        ensure!(
            Instant::now() < deadline,
            "{what}: not within {} s",
            TIMEOUT.as_secs()
        );
        sleep(every).await;
    }
    Ok(())
}

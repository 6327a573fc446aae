//! Waiting for what a stage began, with a deadline.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

/// How often a stage looks whether something is done.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What takes longer than this is stuck: minutes on a slow machine are usual.
const PATIENCE: Duration = Duration::from_secs(600);

/// Asks until it is done.
///
/// # Errors
/// Those of `done`, and that it is not done after [`PATIENCE`].
pub(crate) async fn wait_until(what: &str, done: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    ask_until(what, LOOK_EVERY, done).await
}

/// The same, for one who asks so often.
///
/// # Errors
/// As [`wait_until`].
pub(crate) async fn ask_until(
    what: &str,
    every: Duration,
    mut done: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !done().await? {
        ensure!(
            Instant::now() < deadline,
            "{what}: not within {} s",
            PATIENCE.as_secs()
        );
        sleep(every).await;
    }
    Ok(())
}

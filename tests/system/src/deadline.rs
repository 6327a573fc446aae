//! Waiting for a condition, with a deadline.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// How long anything may take on a small, busy machine before it counts as failed.
pub const TIMEOUT: Duration = Duration::from_secs(180);

pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Calls `ask` until it returns `Ok`; `Err` says what is still missing.
///
/// # Errors
/// What was still missing at the last call, after [`TIMEOUT`].
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> Result<T> {
    let deadline = Deadline::start(what);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(missing) => deadline.pause(missing).await?,
        }
    }
}

/// The deadline of [`until`], for a loop of the caller's own: futures of async closures cannot be spawned.
pub(crate) struct Deadline<'a> {
    what: &'a str,
    at: Instant,
}

impl<'a> Deadline<'a> {
    pub(crate) fn start(what: &'a str) -> Self {
        Self {
            what,
            at: Instant::now() + TIMEOUT,
        }
    }

    /// Pauses before the next attempt; fails after the deadline.
    pub(crate) async fn pause(&self, missing: impl std::fmt::Display) -> Result<()> {
        if Instant::now() >= self.at {
            let (what, waited) = (self.what, TIMEOUT.as_secs());
            bail!("{what}: not within {waited} s; at last: {missing}");
        }
        sleep(POLL_INTERVAL).await;
        Ok(())
    }
}

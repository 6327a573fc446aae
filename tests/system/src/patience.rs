//! Waiting for a condition, with a deadline.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// How long anything may take on a small, busy machine before it counts as not happening.
pub const PATIENCE: Duration = Duration::from_secs(180);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Asks until `ask` has an answer: `Ok` ends the wait, `Err` says what is still missing.
///
/// # Errors
/// What was missing at the last look, after [`PATIENCE`].
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> Result<T> {
    let wait = Wait::begin(what);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(missing) => wait.again(missing).await?,
        }
    }
}

/// The same for a loop of the caller's: futures of async closures cannot be spawned.
pub(crate) struct Wait<'a> {
    what: &'a str,
    deadline: Instant,
}

impl<'a> Wait<'a> {
    pub(crate) fn begin(what: &'a str) -> Self {
        Self {
            what,
            deadline: Instant::now() + PATIENCE,
        }
    }

    /// Pauses before another look, unless it is too late for one.
    pub(crate) async fn again(&self, missing: impl std::fmt::Display) -> Result<()> {
        if Instant::now() >= self.deadline {
            let (what, waited) = (self.what, PATIENCE.as_secs());
            bail!("{what}: not within {waited} s; at last: {missing}");
        }
        sleep(LOOK_EVERY).await;
        Ok(())
    }
}

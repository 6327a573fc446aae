use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::{Instant, sleep};

use crate::UnreadRebuildError;

const MIN_DELAY: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = Duration::from_millis(100);

/// Pauses between attempts, until a deadline.
#[derive(Debug)]
pub(crate) struct Backoff {
    deadline: Instant,
    delays: ExponentialBackoff,
}

impl Backoff {
    pub(crate) fn until(deadline: Instant) -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(MIN_DELAY)
            .with_max_delay(MAX_DELAY)
            .without_max_times();
        Self {
            deadline,
            delays: delays.build(),
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// [`UnreadRebuildError::TimedOut`] if the next attempt would come after the deadline.
    pub(crate) async fn pause(&mut self) -> Result<(), UnreadRebuildError> {
        let delay = self.delays.next().unwrap_or(MAX_DELAY);
        if Instant::now() + delay > self.deadline {
            return Err(UnreadRebuildError::TimedOut);
        }
        sleep(delay).await;
        Ok(())
    }
}

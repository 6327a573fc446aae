use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::UnreadRebuildError;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How long something is tried again, with pauses that grow from 10 to 100 ms.
#[derive(Debug)]
pub(crate) struct Patience {
    give_up: Instant,
    pause: Duration,
}

impl Patience {
    pub(crate) fn until(give_up: Instant) -> Self {
        Self {
            give_up,
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// [`UnreadRebuildError::TimedOut`] where there is to be none.
    pub(crate) async fn pause(&mut self) -> Result<(), UnreadRebuildError> {
        if Instant::now() + self.pause > self.give_up {
            return Err(UnreadRebuildError::TimedOut);
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

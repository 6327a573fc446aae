//! The deadline of a call, and waiting until the deadline.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use tokio::time::{Instant, timeout_at};

use crate::{
    error::{Lag, QueryError},
    parameters::TimeoutMs,
};

/// The pause before the first retry; each further pause is twice as long.
const MIN_DELAY: Duration = Duration::from_millis(5);

const MAX_DELAY: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    timeout: TimeoutMs,
}

impl Deadline {
    pub(crate) fn in_time(timeout: Option<TimeoutMs>) -> Self {
        let timeout = timeout.unwrap_or_default();
        Self {
            at: Instant::now() + timeout.duration(),
            timeout,
        }
    }

    pub(crate) fn at(self) -> Instant {
        self.at
    }

    /// Waits for `work`, which is dropped at the deadline.
    ///
    /// # Errors
    /// [`QueryError::TimedOut`] at the deadline.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = T>) -> Result<T, QueryError> {
        timeout_at(self.at, work)
            .await
            .map_err(|_elapsed| self.timed_out())
    }

    /// Repeats `attempt` until no store lags; `lag` is what the first attempt found. Before each repetition `wait`, which is given a pause and the
    /// lag, has to finish.
    ///
    /// # Errors
    /// Those of `attempt` and `wait`; at the deadline, which store lags ([`QueryError::StoreLags`]).
    pub(crate) async fn repeat<T, F, W>(
        self,
        mut lag: Lag,
        attempt: impl Fn() -> F,
        wait: impl Fn(Duration, Lag) -> W,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = Result<T, QueryError>>,
        W: Future<Output = Result<(), QueryError>>,
    {
        let mut delays = ExponentialBuilder::default()
            .with_min_delay(MIN_DELAY)
            .with_max_delay(MAX_DELAY)
            .without_max_times()
            .build();
        loop {
            let delay = delays.next().unwrap_or(MAX_DELAY);
            let again = async {
                wait(delay, lag.clone()).await?;
                attempt().await
            };
            match timeout_at(self.at, again).await {
                Ok(Err(QueryError::Lagging(newer))) => lag = newer,
                Ok(outcome) => return outcome,
                Err(_elapsed) => return Err(self.store_lags(lag)),
            }
        }
    }

    pub(crate) fn timed_out(self) -> QueryError {
        QueryError::TimedOut {
            timeout_ms: self.timeout.get(),
        }
    }

    fn store_lags(self, lag: Lag) -> QueryError {
        QueryError::StoreLags {
            lag,
            timeout_ms: self.timeout.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending};

    use tokio::time::sleep;

    use super::*;
    use crate::{after::RequiredWatermarks, error::LaggingStore};

    fn deadline(ms: u16) -> Deadline {
        Deadline::in_time(Some(ms.to_string().try_into().unwrap()))
    }

    fn lag() -> Lag {
        Lag {
            store: LaggingStore::Redis,
            missing: RequiredWatermarks::parse(&["3:7".to_owned()], 0).unwrap(),
        }
    }

    async fn pause(delay: Duration, _: Lag) -> Result<(), QueryError> {
        sleep(delay).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_catches_up_in_time_is_read() {
        let attempts = Cell::new(0);
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 20 {
                return Err(QueryError::Lagging(lag()));
            }
            Ok("here")
        };
        let answer = deadline(5_000).repeat(lag(), attempt, pause);
        assert_eq!(answer.await.unwrap(), "here");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_lags_is_named_at_the_deadline() {
        let begun = Instant::now();
        let attempt = async || Err::<(), _>(QueryError::Lagging(lag()));
        let error = deadline(1_000).repeat(lag(), attempt, pause).await;
        assert_eq!(begun.elapsed().as_secs(), 1);
        let message = error.unwrap_err().to_string();
        assert_eq!(message, "Redis has not reached 3:7 within 1000 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_is_named_too_where_waiting_for_it_hangs() {
        let attempt = async || Err::<(), _>(QueryError::Lagging(lag()));
        let error = deadline(1_000).repeat(lag(), attempt, |_, _| pending());
        let message = error.await.unwrap_err().to_string();
        assert_eq!(message, "Redis has not reached 3:7 within 1000 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_not_repeated() {
        let attempts = Cell::new(0);
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            Err::<(), _>(QueryError::TimedOut { timeout_ms: 1 })
        };
        assert!(deadline(1_000).repeat(lag(), attempt, pause).await.is_err());
        assert_eq!(attempts.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_does_not_respond_times_out() {
        let error = deadline(1_000).bound(pending::<()>()).await.unwrap_err();
        assert!(matches!(error, QueryError::TimedOut { timeout_ms: 1_000 }));
    }
}

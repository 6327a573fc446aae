//! How long a call may take, and waiting within that time.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    error::{Lagging, QueryError},
    parameters::TimeoutMs,
};

/// Between the first two looks at a store that lags; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Pauses grow no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// When a call has to be answered, whatever is known by then.
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
    /// [`QueryError::Stalled`] at the deadline.
    pub(crate) async fn bound<T>(self, work: impl Future<Output = T>) -> Result<T, QueryError> {
        timeout_at(self.at, work)
            .await
            .map_err(|_elapsed| self.stalled())
    }

    /// Repeats `attempt` until it does not lag any more. Each time that it does, there is a pause, and then `come_on` is waited for.
    ///
    /// # Errors
    /// Those of `attempt` and `come_on`; at the deadline, which store lags ([`QueryError::TooLate`]) or that none answered
    /// ([`QueryError::Stalled`]).
    pub(crate) async fn poll<T, F, W>(
        self,
        attempt: impl Fn() -> F,
        come_on: impl Fn(Lagging) -> W,
    ) -> Result<T, QueryError>
    where
        F: Future<Output = Result<T, QueryError>>,
        W: Future<Output = Result<(), QueryError>>,
    {
        let mut pause = FIRST_PAUSE;
        let mut last_seen = None;
        loop {
            let lagging = match (timeout_at(self.at, attempt()).await, last_seen) {
                (Ok(Err(QueryError::Lagging(lagging))), _) => lagging,
                (Ok(outcome), _) => return outcome,
                (Err(_elapsed), Some(lagging)) => return Err(self.too_late(lagging)),
                (Err(_elapsed), None) => return Err(self.stalled()),
            };
            let wait = async {
                sleep(pause).await;
                come_on(lagging.clone()).await
            };
            match timeout_at(self.at, wait).await {
                Ok(waited) => waited?,
                Err(_elapsed) => return Err(self.too_late(lagging)),
            }
            last_seen = Some(lagging);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(crate) fn stalled(self) -> QueryError {
        QueryError::Stalled {
            timeout_ms: self.timeout.get(),
        }
    }

    fn too_late(self, lagging: Lagging) -> QueryError {
        QueryError::TooLate {
            lagging,
            timeout_ms: self.timeout.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending};

    use super::*;
    use crate::{after::Needed, error::LaggingStore};

    fn deadline(ms: u16) -> Deadline {
        Deadline::in_time(Some(ms.to_string().try_into().unwrap()))
    }

    fn lagging() -> QueryError {
        QueryError::Lagging(Lagging {
            store: LaggingStore::Redis,
            needed: Needed::parse(&["3:7".to_owned()], 0).unwrap(),
        })
    }

    async fn at_once(_: Lagging) -> Result<(), QueryError> {
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_in_time_is_answered() {
        let attempts = Cell::new(0);
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 20 {
                return Err(lagging());
            }
            Ok("here")
        };
        let answer = deadline(5_000).poll(attempt, at_once);
        assert_eq!(answer.await.unwrap(), "here");
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_named_at_the_deadline() {
        let begun = Instant::now();
        let error = deadline(1_000)
            .poll::<(), _, _>(async || Err(lagging()), at_once)
            .await;
        assert_eq!(begun.elapsed().as_secs(), 1);
        let words = error.unwrap_err().to_string();
        assert_eq!(words, "Redis has not reached 3:7 within 1000 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_named_too_where_nothing_comes_on() {
        let attempt = async || Err(lagging());
        let error = deadline(1_000).poll::<(), _, _>(attempt, |_| pending());
        let words = error.await.unwrap_err().to_string();
        assert_eq!(words, "Redis has not reached 3:7 within 1000 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_does_not_answer_ends_at_the_deadline_too() {
        let error = deadline(1_000)
            .poll::<(), _, _>(pending, at_once)
            .await
            .unwrap_err();
        assert!(matches!(error, QueryError::Stalled { timeout_ms: 1_000 }));
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_not_repeated() {
        let attempts = Cell::new(0);
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            Err(QueryError::Stalled { timeout_ms: 1 })
        };
        let outcome = deadline(1_000).poll::<(), _, _>(attempt, at_once);
        assert!(outcome.await.is_err());
        assert_eq!(attempts.get(), 1);
    }
}

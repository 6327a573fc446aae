use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable as _};

use crate::ClientError;

/// For how long a call is repeated while it may still succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// No attempt begins later than this after the first one.
    pub within: Duration,
    /// The pause before the second attempt; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause, also if a problem's `retry_after_s` says more.
    pub longest_pause: Duration,
}

impl Default for Retry {
    /// Half a minute, with pauses from 100 ms to 5 s.
    fn default() -> Self {
        Self {
            within: Duration::from_secs(30),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
        }
    }
}

impl Retry {
    /// One attempt.
    pub const NEVER: Self = Self {
        within: Duration::ZERO,
        first_pause: Duration::ZERO,
        longest_pause: Duration::ZERO,
    };

    /// Calls until it succeeds, fails with an error after which it may not be repeated, or time is up; the last error is returned.
    pub(crate) async fn run<T, F>(
        self,
        may_repeat: impl FnMut(&ClientError) -> bool,
        call: impl FnMut() -> F,
    ) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let began = Instant::now();
        call.retry(self.pauses())
            .when(may_repeat)
            .adjust(|error, pause| self.pause(pause?, error, began))
            .await
    }

    /// The pause after this error: `pause`, or what the service asks for. `None` if time is up.
    pub(crate) fn pause(
        self,
        pause: Duration,
        error: &ClientError,
        began: Instant,
    ) -> Option<Duration> {
        let pause = pause.max(asked_for(error)).min(self.longest_pause);
        (began.elapsed() + pause < self.within).then_some(pause)
    }

    /// The pauses, without end.
    pub(crate) fn pauses(self) -> ExponentialBuilder {
        ExponentialBuilder::default()
            .with_min_delay(self.first_pause)
            .with_max_delay(self.longest_pause)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times()
    }
}

fn asked_for(error: &ClientError) -> Duration {
    let seconds = error.problem().and_then(|problem| problem.retry_after_s);
    Duration::from_secs(seconds.unwrap_or(0))
}

//! A readiness check that polls a server.

use std::{convert::Infallible, pin::pin, time::Duration};

use tokio::time::{sleep, timeout};

use crate::ReadinessCheck;

const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// After this long without an answer the check fails.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl ReadinessCheck {
    /// Calls `probe` every two seconds and sets the check by its result: an error's text becomes the reason. After five seconds without
    /// a result the check fails, but the call goes on: a second one would only add to the load of a slow server.
    pub async fn poll<A>(&self, server: &str, mut probe: impl FnMut() -> A) -> Infallible
    where
        A: Future<Output = Result<(), String>>,
    {
        loop {
            let mut answer = pin!(probe());
            let answer = match timeout(ANSWER_TIMEOUT, answer.as_mut()).await {
                Ok(answer) => answer,
                Err(_elapsed) => {
                    self.not_ready(format!("{server} does not answer"));
                    answer.await
                }
            };
            match answer {
                Ok(()) => self.ready(),
                Err(reason) => self.not_ready(reason),
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Mutex};

    use super::*;
    use crate::Health;

    /// Records the state of the check before every probe; the last probe never returns.
    #[tokio::test(start_paused = true)]
    async fn a_check_follows_what_its_server_answers() {
        let health = Health::new();
        let check = health.check("service.server");
        let reason = || health.readiness().checks[0].reason.clone();
        let answers = Mutex::new(vec![Err("it is full".to_owned()), Ok(())]);
        let seen = Mutex::new(Vec::new());
        let polling = check.poll("the server", || async {
            seen.lock().unwrap().push(reason());
            let answer = answers.lock().unwrap().pop();
            match answer {
                Some(answer) => answer,
                None => pending().await,
            }
        });
        assert!(timeout(Duration::from_secs(60), polling).await.is_err());
        let failed = |text: &str| Some(text.to_owned());
        assert_eq!(
            *seen.lock().unwrap(),
            [failed("starting"), None, failed("it is full")]
        );
        assert_eq!(reason(), failed("the server does not answer"));
    }
}

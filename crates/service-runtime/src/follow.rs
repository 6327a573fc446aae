//! Gates that open and close with the answers of a server.

use std::{convert::Infallible, pin::pin, time::Duration};

use tokio::time::{sleep, timeout};

use crate::Gate;

/// Between two questions.
const INTERVAL: Duration = Duration::from_secs(2);

/// After this long without an answer a server counts as away.
const PATIENCE: Duration = Duration::from_secs(5);

impl Gate {
    /// Asks `server` every two seconds: an `Ok` opens the gate; an error, whose text becomes the reason, or five seconds without an answer
    /// close it. A late answer is waited for: another question would only add to what hangs already.
    pub async fn follow<A>(&self, server: &str, mut ask: impl FnMut() -> A) -> Infallible
    where
        A: Future<Output = Result<(), String>>,
    {
        loop {
            let mut answer = pin!(ask());
            let answer = match timeout(PATIENCE, answer.as_mut()).await {
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
            sleep(INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Mutex};

    use super::*;
    use crate::Health;

    /// What the gate says after every answer, and while the last one does not come.
    #[tokio::test(start_paused = true)]
    async fn a_gate_says_what_its_server_answers() {
        let health = Health::new();
        let gate = health.gate("service.server");
        let reason = || health.readiness().gates[0].reason.clone();
        let answers = Mutex::new(vec![Err("it is full".to_owned()), Ok(())]);
        let seen = Mutex::new(Vec::new());
        let following = gate.follow("the server", || async {
            seen.lock().unwrap().push(reason());
            let answer = answers.lock().unwrap().pop();
            match answer {
                Some(answer) => answer,
                None => pending().await,
            }
        });
        assert!(timeout(Duration::from_secs(60), following).await.is_err());
        let told = |text: &str| Some(text.to_owned());
        assert_eq!(
            *seen.lock().unwrap(),
            [told("starting"), None, told("it is full")]
        );
        assert_eq!(reason(), told("the server does not answer"));
    }
}

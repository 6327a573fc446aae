//! What the readers of `chat.events` and of the dead letters share.

use std::time::Duration;

use anyhow::Context as _;
use event_log::{FetchError, Fetched, Fetcher};
use schemas::topics::Topic;
use service_runtime::{ReadinessCheck, Shutdown};
use tokio::time::sleep;

const RETRY: Duration = Duration::from_millis(500);

/// Waits until it is known where to begin. Until then the gateway is not ready. `None` at the shutdown.
pub(crate) async fn beginning<T, F: Future<Output = anyhow::Result<T>>>(
    shutdown: &Shutdown,
    check: &ReadinessCheck,
    find: impl Fn() -> F,
) -> Option<T> {
    loop {
        match shutdown.soft().run_until_cancelled(find()).await? {
            Ok(begin) => return Some(begin),
            Err(error) => check.not_ready(format!("where to begin is not known: {error:#}")),
        }
        let pause = shutdown.soft().run_until_cancelled(sleep(RETRY));
        pause.await?;
    }
}

/// Hands what comes within `timeout` to `take`; false if nothing came. Blocks.
///
/// # Errors
/// Those of `take`; Kafka's client is no longer usable, or what is to be read is gone.
pub(crate) fn poll(
    topic: Topic,
    fetcher: &mut Fetcher,
    timeout: Duration,
    take: impl FnOnce(Fetched<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let topic = topic.name();
    match fetcher.poll(timeout, take) {
        Ok(Some(taken)) => taken.map(|()| true),
        Ok(None) => Ok(false),
        Err(FetchError::Transient(why)) => {
            tracing::debug!(why, topic, "a topic is not read");
            Ok(false)
        }
        Err(error) => Err(error).context(format!("reading {topic}")),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use service_runtime::Health;

    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_store_that_does_not_answer_stops_at_the_shutdown() {
        let shutdown = Shutdown::new();
        let check = Health::new().check("test");
        shutdown.begin();
        let begun = beginning(&shutdown, &check, pending::<anyhow::Result<()>>).await;
        assert!(begun.is_none());
    }
}

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use message_store::{MessageStore, StoreError};
use schemas::TimestampMs;
use service_runtime::Gate;
use tokio_util::sync::CancellationToken;

use crate::metrics;

/// How soon it tries again while something is wrong.
const RETRY: Duration = Duration::from_secs(5);

/// Adds months ahead of time, and says when one is missing.
pub(crate) struct Janitor {
    pub(crate) store: MessageStore,
    pub(crate) months_ahead: u8,
    pub(crate) interval: Duration,
    pub(crate) gate: Gate,
}

impl Janitor {
    pub(crate) async fn run(self, soft: CancellationToken) -> anyhow::Result<()> {
        loop {
            // Another program may hold the schema's lock for minutes.
            let looked = tokio::select! {
                () = soft.cancelled() => return Ok(()),
                looked = self.look_after(now()) => looked,
            };
            let next = match looked {
                Ok(()) => {
                    self.gate.ready();
                    self.interval
                }
                Err(why) => {
                    self.gate.not_ready(why);
                    RETRY
                }
            };
            tokio::select! {
                () = soft.cancelled() => return Ok(()),
                () = tokio::time::sleep(next) => {}
            }
        }
    }

    /// Adds what is missing; where that fails, says what stays missing.
    async fn look_after(&self, now: TimestampMs) -> Result<(), String> {
        let added = self.store.ensure_months(now, self.months_ahead).await;
        if let Ok(added) = &added
            && *added > 0
        {
            tracing::info!(added, "months added");
        }
        let missing = self.missing(now).await.map_err(|error| error.to_string())?;
        metrics::missing_months(missing.len());
        added.map_err(|error| format!("months cannot be added: {error}"))?;
        match missing.first() {
            None => Ok(()),
            Some(first) => Err(format!(
                "{} months are missing, {first} among them",
                missing.len()
            )),
        }
    }

    async fn missing(&self, now: TimestampMs) -> Result<Vec<String>, StoreError> {
        let by_table = self.store.missing_months(now, self.months_ahead).await?;
        Ok(by_table
            .into_iter()
            .flat_map(|(n, months)| {
                months
                    .into_iter()
                    .map(move |month| format!("{month} of chat_msg_{n}"))
            })
            .collect())
    }
}

/// Log time follows the brokers' clocks, which are this one's but for their error; months are added well ahead of that.
fn now() -> TimestampMs {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    TimestampMs(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

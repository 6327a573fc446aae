//! The readiness of ingest: whether Kafka answers.

use std::sync::Arc;

use event_log::{EventLogError, LogReader};
use schemas::{PARTITIONS, topics::Topic};
use service_runtime::{ReadinessCheck, Shutdown};

/// Polls the end offsets of `chat.inbound`, for which each of its partitions needs a leader.
pub(crate) async fn watch(
    reader: Arc<LogReader>,
    check: ReadinessCheck,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let ask = || async { reason(reader.ends(Topic::Inbound).await.map(|ends| ends.len())) };
    tokio::select! {
        _ = check.poll("Kafka", ask) => {}
        () = shutdown.soft().cancelled() => {}
    }
    Ok(())
}

fn reason(partitions: Result<usize, EventLogError>) -> Result<(), String> {
    match partitions {
        Ok(found) if found == usize::from(PARTITIONS) => Ok(()),
        Ok(found) => Err(format!(
            "{found} of {PARTITIONS} partitions of the inbound topic answer"
        )),
        Err(fault) => Err(fault.to_string()),
    }
}

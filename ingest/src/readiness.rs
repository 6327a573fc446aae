//! Whether Kafka answers: the only thing that ingest needs.

use std::sync::Arc;

use event_log::{EventLogError, LogReader};
use schemas::{PARTITIONS, topics::Topic};
use service_runtime::{Gate, Shutdown};

/// Asks again and again for the ends of `chat.inbound`, which takes a leader for each of its partitions.
pub(crate) async fn watch(
    reader: Arc<LogReader>,
    gate: Gate,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let ask = || async { reason(reader.ends(Topic::Inbound).await.map(|ends| ends.len())) };
    tokio::select! {
        _ = gate.follow("Kafka", ask) => {}
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

//! Whether Kafka answers: the only thing that ingest needs.

use std::{pin::pin, sync::Arc, time::Duration};

use event_log::{KafkaFault, LogReader};
use schemas::{PARTITIONS, topics::Topic};
use service_runtime::{Gate, Shutdown};
use tokio::time::{sleep, timeout};

const INTERVAL: Duration = Duration::from_secs(2);

/// After this long without an answer Kafka counts as away.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks again and again for the ends of `chat.inbound`, which takes a leader for each of its partitions.
pub(crate) async fn watch(
    reader: Arc<LogReader>,
    gate: Gate,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let watching = async {
        loop {
            ask(&reader, &gate).await;
            sleep(INTERVAL).await;
        }
    };
    tokio::select! {
        () = watching => {}
        () = shutdown.soft().cancelled() => {}
    }
    Ok(())
}

/// A question that is late is waited for: asking once more would only add a blocked thread.
async fn ask(reader: &Arc<LogReader>, gate: &Gate) {
    let mut answer = pin!(reader.ends(Topic::Inbound));
    let answered = match timeout(PATIENCE, answer.as_mut()).await {
        Ok(answered) => answered,
        Err(_elapsed) => {
            gate.not_ready("Kafka does not answer");
            answer.await
        }
    };
    match reason(answered.map(|ends| ends.len())) {
        None => gate.ready(),
        Some(reason) => gate.not_ready(reason),
    }
}

fn reason(partitions: Result<usize, KafkaFault>) -> Option<String> {
    match partitions {
        Ok(found) if found == usize::from(PARTITIONS) => None,
        Ok(found) => Some(format!(
            "{found} of {PARTITIONS} partitions of the inbound topic answer"
        )),
        Err(fault) => Some(fault.to_string()),
    }
}

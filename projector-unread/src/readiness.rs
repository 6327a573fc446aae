//! Whether Kafka answers and the group has given this process its share.

use std::{sync::Arc, time::Duration};

use event_log::LogReader;
use projection::Status;
use schemas::topics::Topic;
use service_runtime::ReadinessCheck;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

const INTERVAL: Duration = Duration::from_secs(2);

/// After this long without an answer Kafka counts as away.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeps the gate until the projection has ended.
pub(crate) async fn watch(
    mut status: watch::Receiver<Status>,
    log: Arc<LogReader>,
    gate: ReadinessCheck,
) {
    loop {
        let joined = status.borrow_and_update().joined;
        match reason(joined, &log).await {
            None => gate.ready(),
            Some(reason) => gate.not_ready(reason),
        }
        tokio::select! {
            () = sleep(INTERVAL) => {}
            changed = status.changed() => if changed.is_err() { return },
        }
    }
}

/// What is missing.
async fn reason(joined: bool, log: &Arc<LogReader>) -> Option<String> {
    if !joined {
        return Some("waiting for partitions".to_owned());
    }
    match timeout(PATIENCE, log.ends(Topic::Events)).await {
        Ok(Ok(_ends)) => None,
        Ok(Err(fault)) => Some(fault.to_string()),
        Err(_elapsed) => Some("Kafka does not answer".to_owned()),
    }
}

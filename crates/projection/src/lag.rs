//! How far a projection lags, for operators: group offsets and metrics. Nothing resumes from either.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use event_log::{GroupMember, KafkaConfig, LogReader};
use metrics::Counter;
use schemas::{NextOffset, PartitionMap, topics::Topic};
use tokio::{sync::watch, time::timeout};

use crate::brokers::Brokers;

const REPORT_EVERY: Duration = Duration::from_secs(2);

/// After this long without an answer the brokers count as unavailable.
const BROKER_TIMEOUT: Duration = Duration::from_secs(5);

/// The stored offset of each owned partition.
pub(crate) type StoredOffsets = PartitionMap<NextOffset>;

/// Commits the stored offsets and sets the lag gauges; leaves the group when the last worker has ended.
pub(crate) async fn report(
    (reader, kafka): (Arc<LogReader>, KafkaConfig),
    group: String,
    member: GroupMember,
    brokers: Brokers,
    mut stored: watch::Receiver<StoredOffsets>,
) {
    let mut more = true;
    while more {
        more = still_running(&mut stored).await;
        let now = stored.borrow_and_update().clone();
        member.commit_offsets(now.clone());
        // Without the brokers there is no lag to report.
        if more && let Some(ends) = fetch_ends(&reader, &brokers).await {
            set_gauges(&kafka, &group, &now, &ends);
        }
    }
    member.leave().await;
}

/// Where the log ends. If the brokers do not answer: `None`, and a fault of the brokers.
async fn fetch_ends(reader: &Arc<LogReader>, brokers: &Brokers) -> Option<PartitionMap<i64>> {
    let asked = Instant::now();
    let why = match timeout(BROKER_TIMEOUT, reader.ends(Topic::Events)).await {
        Ok(Ok(ends)) => {
            brokers.answered(asked);
            return Some(ends);
        }
        Ok(Err(fault)) => fault.to_string(),
        Err(_elapsed) => "Kafka does not answer".to_owned(),
    };
    brokers.failed(why);
    None
}

/// Waits until the next report is due; `false` once every worker has ended.
async fn still_running(stored: &mut watch::Receiver<StoredOffsets>) -> bool {
    let every_worker_ended = async { while stored.changed().await.is_ok() {} };
    timeout(REPORT_EVERY, every_worker_ended).await.is_err()
}

/// Counts the events that sinks took, written or not. If a projection coalesces for long, this counter shows whether it keeps up, and the lag shows
/// for how long it holds events.
pub(crate) fn events_counter(kafka: &KafkaConfig, group: &str) -> Counter {
    const EVENTS: &str = "tidemark_projection_events_total";
    metrics::describe_counter! { EVENTS, "Events that a projection took in, written or not, repeats of a start too" }
    metrics::counter!(EVENTS, "consumergroup" => kafka.group(group))
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
fn set_gauges(kafka: &KafkaConfig, group: &str, stored: &StoredOffsets, ends: &PartitionMap<i64>) {
    for (partition, next) in stored.iter() {
        let lag = ends
            .get(partition)
            .map_or(0, |end| (end - next.get()).max(0));
        metrics::gauge!(
            "kafka_consumergroup_lag",
            "consumergroup" => kafka.group(group),
            "topic" => kafka.topic(Topic::Events),
            "partition" => partition.to_string(),
        )
        .set(lag as f64);
    }
}

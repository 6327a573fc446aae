//! How far a projection is behind, for people: group offsets and metrics. Nothing resumes from either.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use event_log::{GroupMember, KafkaConfig, LogReader};
use metrics::Counter;
use schemas::{NextOffset, Partition, topics::Topic};
use tokio::{sync::watch, time::timeout};

use crate::brokers::Brokers;

const REPORT_EVERY: Duration = Duration::from_secs(2);

/// After this long without an answer the brokers count as away.
const PATIENCE: Duration = Duration::from_secs(5);

/// What each owned partition has in the store.
pub(crate) type Done = BTreeMap<Partition, NextOffset>;

/// Commits what is done, and sets the lag gauges; leaves the group when the last lane has ended.
pub(crate) async fn report(
    (reader, kafka): (Arc<LogReader>, KafkaConfig),
    group: String,
    member: GroupMember,
    brokers: Brokers,
    mut done: watch::Receiver<Done>,
) {
    let mut more = true;
    while more {
        more = still_running(&mut done).await;
        let now = done.borrow_and_update().clone();
        for (partition, next) in &now {
            member.note(*partition, *next);
        }
        member.commit_noted();
        // Brokers that are away have no lag to tell.
        if more && let Some(ends) = ask_ends(&reader, &brokers).await {
            set_gauges(&kafka, &group, &now, &ends);
        }
    }
    member.leave().await;
}

/// Where the log ends, if the brokers answer; that they do not is noted.
async fn ask_ends(reader: &Arc<LogReader>, brokers: &Brokers) -> Option<BTreeMap<Partition, i64>> {
    let asked = Instant::now();
    let why = match timeout(PATIENCE, reader.ends(Topic::Events)).await {
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

/// Waits for the next report's time; `false` once every lane has ended.
async fn still_running(done: &mut watch::Receiver<Done>) -> bool {
    let every_lane_ended = async { while done.changed().await.is_ok() {} };
    timeout(REPORT_EVERY, every_lane_ended).await.is_err()
}

/// Counts events that sinks took in, which they may not have written yet: where a projection coalesces for long, this tells whether
/// it keeps up, and the lag how long it holds things.
pub(crate) fn events_counter(kafka: &KafkaConfig, group: &str) -> Counter {
    const EVENTS: &str = "tidemark_projection_events_total";
    metrics::describe_counter!(
        EVENTS,
        "Events that a projection took in, written or not, repeats of a start too"
    );
    metrics::counter!(EVENTS, "consumergroup" => kafka.group(group))
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
fn set_gauges(kafka: &KafkaConfig, group: &str, done: &Done, ends: &BTreeMap<Partition, i64>) {
    for (partition, next) in done {
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

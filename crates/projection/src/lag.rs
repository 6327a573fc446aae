//! How far a projection is behind, for people: group offsets and gauges. Nothing resumes from either.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use event_log::{GroupMember, KafkaConfig, KafkaFault, LogReader, NextOffset};
use schemas::{Partition, topics::Topic};
use tokio::sync::watch;

const REPORT_EVERY: Duration = Duration::from_secs(2);

/// What each owned partition has in the store.
pub(crate) type Done = BTreeMap<Partition, NextOffset>;

/// Commits what is done, and sets the lag gauges; leaves the group when the last lane has ended.
pub(crate) async fn report(
    kafka: KafkaConfig,
    group: String,
    member: GroupMember,
    mut done: watch::Receiver<Done>,
) -> Result<(), KafkaFault> {
    let reader = Arc::new(LogReader::new(&kafka)?);
    let mut more = true;
    while more {
        more = still_running(&mut done).await;
        let now = done.borrow_and_update().clone();
        for (partition, next) in &now {
            member.note(*partition, *next);
        }
        member.commit_noted();
        // A broker that is away has no lag to tell.
        if more && let Ok(ends) = reader.ends(Topic::Events).await {
            set_gauges(&kafka, &group, &now, &ends);
        }
    }
    member.leave().await;
    Ok(())
}

/// Waits for the next report's time; `false` once every lane has ended.
async fn still_running(done: &mut watch::Receiver<Done>) -> bool {
    let every_lane_ended = async { while done.changed().await.is_ok() {} };
    tokio::time::timeout(REPORT_EVERY, every_lane_ended)
        .await
        .is_err()
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

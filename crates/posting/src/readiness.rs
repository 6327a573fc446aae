//! The readiness of ingest: whether Kafka answers, and whether its topic is as safe as declared.

use std::{sync::Arc, time::Duration};

use event_log::{Admin, EventLogError, LogReader, TopicDifference};
use schemas::{PARTITIONS, topics::Topic};
use service_runtime::{ReadinessCheck, Shutdown};

use crate::Poster;

const TOPIC_INTERVAL: Duration = Duration::from_secs(10);

/// Polls the end offsets of `chat.inbound`, for which each of its partitions needs a leader, and the connection of single posts.
pub async fn watch(
    reader: Arc<LogReader>,
    poster: Poster,
    check: ReadinessCheck,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let ask = || async {
        reason(reader.ends(Topic::Inbound).await.map(|ends| ends.len()))?;
        match poster.connection_error() {
            Some(why) => Err(format!("single posts: {why}")),
            None => Ok(()),
        }
    };
    tokio::select! {
        _ = check.poll("Kafka", ask) => {}
        () = shutdown.soft().cancelled() => {}
    }
    Ok(())
}

/// Warns if `chat.inbound` is weaker than declared: a 202 would rest on fewer disks than it should. Posts are accepted all the same.
pub async fn watch_topic(
    admin: Admin,
    check: ReadinessCheck,
    shutdown: Shutdown,
) -> anyhow::Result<()> {
    let watching = async {
        loop {
            check.warn(weakness(admin.diff_of(Topic::Inbound).await));
            tokio::time::sleep(TOPIC_INTERVAL).await;
        }
    };
    tokio::select! {
        () = watching => {}
        () = shutdown.soft().cancelled() => {}
    }
    Ok(())
}

fn weakness(differences: Result<Vec<TopicDifference>, EventLogError>) -> Option<String> {
    let differences = match differences {
        Ok(differences) => differences,
        Err(fault) => {
            return Some(format!(
                "how safe the inbound topic is, is unknown: {fault}"
            ));
        }
    };
    let weak: Vec<String> = differences
        .iter()
        .filter(|difference| difference.weakens())
        .map(ToString::to_string)
        .collect();
    (!weak.is_empty()).then(|| {
        format!(
            "{}; `tidemark topics apply` changes settings",
            weak.join(", ")
        )
    })
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

//! How many messages each consumer has yet to take in.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use event_log::LogReader;
use schemas::topics::Topic;
use system_tests::TestEnv;

/// The consumer groups that read `chat.events`.
const GROUPS: [&str; 4] = [
    "projector-mysql-messages",
    "projector-mysql-reads",
    "projector-mysql-contacts",
    "projector-unread",
];
const SEQUENCER: &str = "sequencer";

/// By consumer group: how many of all records of `chat.inbound` it has not taken in. A projection has taken in records that it holds to write later.
/// The absolute figure includes records that caused no event; these do not make it grow.
pub(crate) type Backlog = BTreeMap<String, f64>;

/// Reads the backlog of the consumers of a test environment, each of which was started once.
pub(crate) struct BacklogReader<'a> {
    env: &'a TestEnv,
    log: Arc<LogReader>,
}

impl<'a> BacklogReader<'a> {
    /// Connects.
    ///
    /// # Errors
    /// If librdkafka refuses a setting.
    pub(crate) fn at(env: &'a TestEnv) -> Result<Self> {
        let log = Arc::new(LogReader::new(env.events.config())?);
        Ok(Self { env, log })
    }

    /// The backlog according to the services.
    ///
    /// # Errors
    /// If a service does not answer.
    pub(crate) async fn backlog(&self) -> Result<Backlog> {
        let mut taken = self.taken_by_projections().await?;
        taken.insert(SEQUENCER.to_owned(), self.sequenced().await?);
        let appended: i64 = self.log.ends(Topic::Inbound).await?.values().sum();
        let left = |taken| appended as f64 - taken;
        Ok(taken
            .into_iter()
            .map(|(who, taken)| (who, left(taken)))
            .collect())
    }

    async fn taken_by_projections(&self) -> Result<BTreeMap<String, f64>> {
        let mut taken = BTreeMap::new();
        for projector in ["projector-mysql", "projector-unread"] {
            let metrics = self.env.metrics(projector).await?;
            for (labels, value) in values(&metrics, "tidemark_projection_events_total") {
                let group = label(labels, "consumergroup").context("events of no group")?;
                taken.insert(group.to_owned(), value);
            }
        }
        for group in GROUPS {
            ensure!(
                taken.contains_key(group),
                "the events of {group} are missing"
            );
        }
        Ok(taken)
    }

    async fn sequenced(&self) -> Result<f64> {
        let metrics = self.env.metrics(SEQUENCER).await?;
        let records = values(&metrics, "tidemark_sequencer_records_total");
        let records = records.filter(|(labels, _)| label(labels, "outcome") != Some("progress"));
        Ok(records.map(|(_, value)| value).sum())
    }
}

/// The labels and values of a metric in Prometheus' text format.
fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    text.lines().filter_map(move |line| {
        let labels = line.strip_prefix(name)?.strip_prefix('{')?;
        let (labels, value) = labels.rsplit_once("} ")?;
        Some((labels, value.parse().ok()?))
    })
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, from) = labels.split_once(&format!("{name}=\""))?;
    from.split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_metric_are_found_with_their_labels() {
        let text = "# TYPE lag gauge\nlag{group=\"a\",partition=\"1\"} 2\nlag{group=\"a\"} 3\nlags{group=\"b\"} 7\n";
        let found: Vec<_> = values(text, "lag")
            .map(|(labels, value)| (label(labels, "group"), value))
            .collect();
        assert_eq!(found, [(Some("a"), 2.0), (Some("a"), 3.0)]);
    }
}

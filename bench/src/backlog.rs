//! How many records each consumer has still before it.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use event_log::LogReader;
use schemas::topics::Topic;
use system_tests::World;

/// Those that read `chat.events`.
const GROUPS: [&str; 4] = [
    "projector-mysql-messages",
    "projector-mysql-reads",
    "projector-mysql-contacts",
    "projector-unread",
];

/// By consumer group; of a world in which the sequencer was started once.
pub(crate) type Backlog = BTreeMap<String, f64>;

/// As the services tell it now.
///
/// # Errors
/// One does not answer.
pub(crate) async fn now(world: &World) -> Result<Backlog> {
    let mut backlog = Backlog::new();
    for projector in ["projector-mysql", "projector-unread"] {
        let metrics = world.metrics(projector).await?;
        for (labels, value) in values(&metrics, "kafka_consumergroup_lag") {
            let group = label(labels, "consumergroup").context("a lag of no group")?;
            *backlog.entry(group.to_owned()).or_default() += value;
        }
    }
    for group in GROUPS {
        ensure!(backlog.contains_key(group), "no lag of {group} is told");
    }
    let reader = Arc::new(LogReader::new(world.events.config())?);
    let appended: i64 = reader.ends(Topic::Inbound).await?.values().sum();
    let metrics = world.metrics("sequencer").await?;
    let sequenced: f64 = values(&metrics, "sequencer_records_total")
        .filter(|(labels, _)| label(labels, "outcome") != Some("progress"))
        .map(|(_, value)| value)
        .sum();
    backlog.insert(
        "sequencer".to_owned(),
        (appended as f64 - sequenced).max(0.0),
    );
    Ok(backlog)
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

//! The alert rules speak of metrics that are there.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use schemas::Partition;
use system_tests::{SERVICES, Servers, TestEnv, run, until};

const RULES: &str = include_str!("../../../../compose/alerts.yml");

#[test]
fn every_metric_that_an_alert_speaks_of_is_exposed() {
    run(Servers::Shared, async |env| {
        let named = metrics_in(RULES);
        ensure!(named.len() > 4, "{named:?}");
        // A counter is there once it has counted.
        let partition = Partition::all().next().context("there are 64")?;
        env.events.append_inbound(partition, b"junk", &[]).await?;
        let all_exposed = async || {
            let exposed = exposed(env).await.map_err(|error| format!("{error:#}"))?;
            let missing: Vec<_> = named.difference(&exposed).collect();
            if missing.is_empty() {
                Ok(())
            } else {
                Err(format!("{missing:?} are not there"))
            }
        };
        until("every metric of the alerts", all_exposed).await
    });
}

/// The names in the expressions. Only they have an underscore in them: functions, labels and `up` are one word each.
fn metrics_in(rules: &str) -> BTreeSet<String> {
    let expressions = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    let words = expressions.flat_map(|expression| {
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
        expression.split(move |c| !is_part(c))
    });
    words
        .filter(|word| word.contains('_'))
        .map(str::to_owned)
        .collect()
}

async fn exposed(env: &TestEnv) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for service in SERVICES {
        let text = env.metrics(service).await?;
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        names.extend(samples.filter_map(|line| Some(line.split(['{', ' ']).next()?.to_owned())));
    }
    Ok(names)
}

//! The programs that read the whole log again: the audit and a rebuild.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use event_log::LogReader;
use schemas::topics::Topic;
use system_tests::{Settings, TestEnv};

use super::{EVERYTHING, Plan, sequenced};
use crate::{
    load::traffic::Traffic,
    meter::Meter,
    pair::Pair,
    progress::everywhere,
    raw::load_data::{self, Files, Numbers},
    results::Row,
    sample::Sample,
};

const MESSAGES: u64 = 300_000;
const ROWS: u64 = 500_000;
const OURS: &str = "im_0";
const RAW: &str = "raw";

/// Everything in the stores against a fold of the log.
pub(super) async fn audit(plan: &Plan) -> Result<Vec<Row>> {
    let env = filled(&Traffic::real()?, MESSAGES).await?;
    let records = records(&env).await?;
    let pair = Pair::run(
        plan.rounds,
        async || {
            let meter = Meter::start(&env)?;
            env.tidemark(&["audit"]).await?.expect(0)?;
            meter.stop(records)
        },
        async || consumed(&env, records).await,
    )
    .await?;
    Ok(vec![Row::of_pair(
        format!("audit of {MESSAGES} messages in all stores, records of both topics"),
        "Kafka's ConsumerPerformance, both topics",
        &pair,
        0.3,
    )])
}

/// A shadow table, built beside the live one, compared and swapped in.
pub(super) async fn rebuild(plan: &Plan) -> Result<Vec<Row>> {
    let traffic = Traffic::of_partitions(1);
    let env = filled(&traffic, ROWS).await?;
    load_data::make_tables(&env, RAW, OURS, 1).await?;
    let files = Files::write(&env, &traffic, ROWS, 1, &mut Numbers::default())?;
    let pair = Pair::run(
        plan.rounds,
        async || {
            let meter = Meter::start(&env)?;
            let args = ["rebuild", "messages", "--partition", "0"];
            env.tidemark(&args).await?.expect(0)?;
            meter.stop(ROWS)
        },
        async || {
            load_data::empty(&env, RAW, 1).await?;
            let meter = Meter::start(&env)?;
            files.load(&env, RAW).await?;
            meter.stop(files.rows)
        },
    )
    .await?;
    Ok(vec![Row::of_pair(
        format!("rebuild messages, {ROWS} rows of one table, compared and switched"),
        "LOAD DATA INFILE of 5,000-row files",
        &pair,
        0.8,
    )])
}

/// Kafka's own consumer of as many records of both topics, at the rate that it reports.
async fn consumed(env: &TestEnv, records: u64) -> Result<Sample> {
    let count = records.to_string();
    let consume = [
        "--include",
        r"chat\.(inbound|events)",
        "--num-records",
        &count,
        "--hide-header",
    ];
    let meter = Meter::start(env)?;
    let said = env.kafka_tool("ConsumerPerformance", &consume).await?;
    let rate = rate_of_consumer(&said).with_context(|| format!("no rate in: {said}"))?;
    Ok(meter.stop(records)?.at_rate(rate))
}

/// How many records both topics have.
async fn records(env: &TestEnv) -> Result<u64> {
    let reader = Arc::new(LogReader::new(env.events.config())?);
    let mut records = 0;
    for topic in [Topic::Inbound, Topic::Events] {
        let ends = reader.ends(topic).await?;
        records += ends.values().map(|end| end.cast_unsigned()).sum::<u64>();
    }
    Ok(records)
}

/// An environment in which `count` messages have passed everything.
async fn filled(traffic: &Traffic, count: u64) -> Result<TestEnv> {
    let env = TestEnv::start(Settings {
        // Read positions would otherwise dominate the time here.
        overrides: &["projector_mysql.reads_interval_ms=1000"],
        ..EVERYTHING
    })
    .await?;
    sequenced(&env, traffic, count).await?;
    everywhere(&env).await?;
    Ok(env)
}

/// Reads the tenth column of the output of Kafka's benchmark: records per second while fetching.
fn rate_of_consumer(said: &str) -> Option<f64> {
    let line = said.lines().rfind(|line| line.matches(", ").count() == 9)?;
    line.rsplit(", ").next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kafkas_benchmark_says_is_read() {
        let said = "2026-11-22 09:00:00:000, 2026-11-22 09:00:03:000, 190.7, 63.5, 1000000, 333333.3, 350, 1200, 158.9, 818330.6\n";
        assert_eq!(rate_of_consumer(said), Some(818_330.6));
        assert_eq!(rate_of_consumer("nothing, here"), None);
    }
}

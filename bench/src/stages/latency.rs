//! How long a message takes, under load that does not wait for answers.

use anyhow::{Context as _, Result};
use serde_json::Value;
use system_tests::World;

use super::{EVERYTHING, Plan, SERVERS};
use crate::{
    curve::Percentiles,
    load::{closed, messages::Messages, paced::PacedLoop, post::Post},
    results::{Bound, Row},
    sample::Spread,
};

const SECONDS: &str = "20";

/// ingest by itself at 5,000 single posts a second.
pub(super) async fn accepted(stage: &'static str, plan: &Plan) -> Result<Vec<Row>> {
    let world = World::start(SERVERS).await?;
    world.start_services(&["ingest"]).await?;
    let clients = PacedLoop {
        port: world.port("ingest")?,
        connections: 64,
        post: Post::Single,
        rate: 5_000.0,
    };
    let messages = Messages::new();
    closed::warm_up(&world, &messages).await?;
    let mut p99 = Vec::new();
    for _ in 0..plan.rounds {
        let answered = clients.run(&messages, plan.length).await?;
        p99.push(Percentiles::of(answered.waited_ms).p99);
    }
    let what = "single posts at 5,000/s, ingest alone: accepted, p99";
    let most = Some(Bound::AtMost(10.0));
    Ok(vec![Row::of_value(
        stage,
        what,
        "ms",
        Spread::of(p99),
        most,
        &[],
    )])
}

/// Everything on, at 1,000 messages a second.
pub(super) async fn readable(stage: &'static str, plan: &Plan) -> Result<Vec<Row>> {
    let world = World::start(EVERYTHING).await?;
    closed::warm_up(&world, &Messages::real()?).await?;
    world.all_partitions_pass().await?;
    let args = ["--json", "measure", "--rate", "1000", "--seconds", SECONDS];
    let mut reports = Vec::new();
    for _ in 0..plan.rounds {
        reports.push(world.tidemark(&args).await?.expect(0)?.json()?);
    }
    let row = |what: &str, most: f64, p99: &dyn Fn(&Value) -> Option<f64>| {
        let values: Option<Vec<f64>> = reports.iter().map(p99).collect();
        let values = values.with_context(|| format!("no {what} in {reports:?}"))?;
        let what = format!("everything on, 1,000/s: {what}, p99");
        let most = Some(Bound::AtMost(most));
        anyhow::Ok(Row::of_value(
            stage,
            what,
            "ms",
            Spread::of(values),
            most,
            &[],
        ))
    };
    let of_stage = |report: &Value, name: &str| {
        let stages = report["latency_stages"].as_array()?;
        stages.iter().find(|one| one["stage"] == name)?["p99_ms"].as_f64()
    };
    Ok(vec![
        row("send → accepted", 10.0, &|report| {
            report["accepted_p99_ms"].as_f64()
        })?,
        row("send → in Redis", 50.0, &|report| {
            of_stage(report, "Redis")
        })?,
        row("send → in MySQL", 500.0, &|report| {
            of_stage(report, "Messages")
        })?,
    ])
}

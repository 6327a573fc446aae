//! ingest alone: HTTP on one side, `chat.inbound` on the other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use schemas::topics::Topic;
use system_tests::World;

use super::{Plan, SERVERS};
use crate::{
    load::{
        closed::{self, ClosedLoop},
        post::Post,
        traffic::Traffic,
    },
    meter::Meter,
    pair::Pair,
    raw::{
        in_flight::InFlight,
        producer::{LINGER_MS, PlainProducer},
    },
    results::Row,
    sample::Sample,
};

const LINES: usize = 500;
const BATCH_CONNECTIONS: usize = 64;
const SINGLE_CONNECTIONS: usize = 64;
const MANY_CONNECTIONS: usize = 1_024;
/// So many different records go round and round through the plain producer.
const RECORDS: usize = 20_000;
/// These connect it to every partition's broker.
const CONNECTING_RECORDS: usize = 1_000;
const RECORD_BYTES: &str = "200";
const PERFORMANCE_RECORDS: u64 = 1_000_000;

/// Batches of NDJSON, against a plain producer and against Kafka's own benchmark.
pub(super) async fn ndjson(stage: &'static str, plan: &Plan) -> Result<Vec<Row>> {
    let traffic = Traffic::new();
    let world = world(&traffic).await?;
    let post = async || batches(&world, Post::Ndjson(LINES), &traffic, plan.length).await;
    let plain = async || plain(&world, &traffic, plan.length);
    let against_plain = Pair::run(plan.rounds, post, plain).await?;
    let performance = async || producer_performance(&world).await;
    let against_performance = Pair::run(plan.rounds, post, performance).await?;
    let what = format!("NDJSON, {LINES} lines a request, {BATCH_CONNECTIONS} connections");
    Ok(vec![
        Row::of_pair(stage, &what, PLAIN, &against_plain, 0.6),
        Row::of_pair(
            stage,
            &what,
            "Kafka's ProducerPerformance, acks=all, idempotent",
            &against_performance,
            2.0,
        ),
    ])
}

const PLAIN: &str = "plain rdkafka producer, same settings and records";

/// Batches of protobuf, against a plain producer.
pub(super) async fn protobuf(stage: &'static str, plan: &Plan) -> Result<Vec<Row>> {
    let traffic = Traffic::new();
    let world = world(&traffic).await?;
    let pair = Pair::run(
        plan.rounds,
        async || batches(&world, Post::Protobuf(LINES), &traffic, plan.length).await,
        async || plain(&world, &traffic, plan.length),
    )
    .await?;
    let what = format!("protobuf, {LINES} items a request, {BATCH_CONNECTIONS} connections");
    Ok(vec![Row::of_pair(stage, what, PLAIN, &pair, 0.8)])
}

/// Single posts, against a plain producer with as many records in flight; then over many connections.
pub(super) async fn singles(stage: &'static str, plan: &Plan) -> Result<Vec<Row>> {
    let traffic = Traffic::new();
    let world = world(&traffic).await?;
    let post = async |connections| single_posts(&world, connections, &traffic, plan.length).await;
    let producer = InFlight::connect(world.events.config(), &traffic).await?;
    let in_flight = async || {
        let meter = Meter::start(&world)?;
        let delivered = producer
            .closed_loop(&traffic, SINGLE_CONNECTIONS, plan.length)
            .await?;
        meter.stop(delivered)
    };
    let few = async || post(SINGLE_CONNECTIONS).await;
    let pair = Pair::run(plan.rounds, few, in_flight).await?;
    let many = Pair::run(plan.rounds, async || post(MANY_CONNECTIONS).await, few).await?;
    Ok(vec![
        Row::of_pair(
            stage,
            format!("single posts, {SINGLE_CONNECTIONS} connections"),
            format!("plain rdkafka producer, {SINGLE_CONNECTIONS} records in flight"),
            &pair,
            0.8,
        ),
        Row::of_pair(
            stage,
            format!("single posts, {MANY_CONNECTIONS} connections"),
            format!("the same over {SINGLE_CONNECTIONS}"),
            &many,
            2.0,
        ),
    ])
}

async fn world(traffic: &Traffic) -> Result<World> {
    let world = World::start(SERVERS).await?;
    world.start_services(&["ingest"]).await?;
    closed::warm_up(&world, traffic).await?;
    Ok(world)
}

async fn batches(world: &World, post: Post, traffic: &Traffic, length: Duration) -> Result<Sample> {
    closed_loop(world, BATCH_CONNECTIONS, post, traffic, length).await
}

async fn single_posts(
    world: &World,
    connections: usize,
    traffic: &Traffic,
    length: Duration,
) -> Result<Sample> {
    closed_loop(world, connections, Post::Single, traffic, length).await
}

async fn closed_loop(
    world: &World,
    connections: usize,
    post: Post,
    traffic: &Traffic,
    length: Duration,
) -> Result<Sample> {
    let port = world.port("ingest")?;
    let clients = ClosedLoop {
        port,
        connections,
        post,
    };
    let meter = Meter::start(world)?;
    let accepted = clients.run(traffic, length).await?;
    meter.stop(accepted)
}

fn plain(world: &World, traffic: &Traffic, length: Duration) -> Result<Sample> {
    let records = (0..RECORDS).map(|_| traffic.make().record());
    let records = records.collect::<Result<Vec<_>>>()?;
    let producer = PlainProducer::new(world.events.config(), Topic::Inbound, LINGER_MS)?;
    // ingest is connected, too, when its time begins.
    for record in &records[..CONNECTING_RECORDS] {
        producer.send_record(record)?;
    }
    let before = producer.delivered()?;
    let meter = Meter::start(world)?;
    let began = Instant::now();
    for record in records.iter().cycle() {
        if began.elapsed() >= length {
            break;
        }
        producer.send_record(record)?;
    }
    meter.stop(producer.delivered()? - before)
}

async fn producer_performance(world: &World) -> Result<Sample> {
    let topic = world.events.config().topic(Topic::Inbound);
    let count = PERFORMANCE_RECORDS.to_string();
    let args = [
        "--topic",
        topic.as_str(),
        "--num-records",
        &count,
        "--record-size",
        RECORD_BYTES,
        "--throughput",
        "-1",
        "--command-property",
        "acks=all",
        "enable.idempotence=true",
    ];
    let said = world.kafka_tool("ProducerPerformance", &args).await?;
    let rate = rate_said(&said).with_context(|| format!("no rate in: {said}"))?;
    let took = Duration::from_secs_f64(PERFORMANCE_RECORDS as f64 / rate);
    Ok(Sample::of_rate(PERFORMANCE_RECORDS, took))
}

/// Of `1000000 records sent, 131234.5 records/sec (…`, on the last line.
fn rate_said(said: &str) -> Option<f64> {
    let last = said.lines().rfind(|line| line.contains("records/sec"))?;
    let (before, _) = last.split_once(" records/sec")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kafkas_benchmark_says_is_read() {
        let said = "499 records sent, 99.8 records/sec (0.02 MB/sec)\n\
                    1000 records sent, 131234.5 records/sec (25.03 MB/sec), 3.1 ms avg latency\n";
        assert_eq!(rate_said(said), Some(131_234.5));
        assert_eq!(rate_said("nothing"), None);
    }
}

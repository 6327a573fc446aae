//! ingest alone: HTTP on one side, `chat.inbound` on the other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use schemas::topics::Topic;
use system_tests::{Percentiles, TestEnv};

use super::{Plan, SERVERS};
use crate::{
    load::{
        closed::{self, ClosedLoop},
        paced::PacedLoop,
        post::Post,
        traffic::Traffic,
    },
    meter::Meter,
    pair::{Pair, in_turn},
    raw::{
        in_flight::InFlight,
        producer::{LINGER_MS, PlainProducer},
    },
    results::{Bound, Row},
    sample::{Sample, Spread},
};

const LINES: usize = 500;
/// As many lines as these connections have in flight make batches of some hundred records in each partition.
const BATCH_CONNECTIONS: usize = 128;
const SINGLE_CONNECTIONS: usize = 64;
const MANY_CONNECTIONS: usize = 1_024;
/// The rate of single posts that do not wait for answers, per second.
const PACED_RATE: f64 = 5_000.0;
/// How many different records the plain producer sends, over and over.
const RECORDS: usize = 20_000;
/// How many records the plain producer sends first, to connect to every partition's broker.
const CONNECTING_RECORDS: usize = 1_000;
const RECORD_BYTES: &str = "200";
const PERFORMANCE_RECORDS: u64 = 1_000_000;

const PLAIN: &str = "plain rdkafka producer, same settings and records";
const PERFORMANCE: &str = "Kafka's ProducerPerformance, acks=all, idempotent";

/// All measurements of ingest, in one environment, whose broker has to be warmed up only once.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(SERVERS).await?;
    env.start_services(&["ingest"]).await?;
    let traffic = Traffic::new();
    closed::warm_up(&env, &traffic).await?;
    let ingest = Ingest {
        env,
        traffic,
        length: plan.length,
    };
    let mut rows = ingest.batches(plan.rounds).await?;
    rows.extend(ingest.singles(plan.rounds).await?);
    rows.push(ingest.accepted(plan.rounds).await?);
    Ok(rows)
}

/// An environment with only ingest, and the traffic that is posted there.
struct Ingest {
    env: TestEnv,
    traffic: Traffic,
    length: Duration,
}

/// The producers of batches.
#[derive(Clone, Copy)]
enum Batches {
    Posted(Post),
    Plain,
    Performance,
}

/// The producers of single records.
#[derive(Clone, Copy)]
enum Singles {
    Posted { connections: usize },
    Plain,
}

impl Ingest {
    /// Batches, against a plain producer and against Kafka's own benchmark.
    async fn batches(&self, rounds: usize) -> Result<Vec<Row>> {
        let sides = [
            Batches::Posted(Post::Ndjson(LINES)),
            Batches::Posted(Post::Protobuf(LINES)),
            Batches::Plain,
            Batches::Performance,
        ];
        let run = async |side| match side {
            Batches::Posted(post) => self.closed_loop(BATCH_CONNECTIONS, post).await,
            Batches::Plain => self.plain(),
            Batches::Performance => producer_performance(&self.env).await,
        };
        let [ndjson, protobuf, plain, performance] = in_turn(rounds, sides, run).await?;
        let row = |encoding, ours, name, baseline, at_least| {
            let what = format!("{encoding} of {LINES} a request, {BATCH_CONNECTIONS} connections");
            Row::of_pair(what, name, &Pair::of(ours, baseline), at_least)
        };
        Ok(vec![
            row("NDJSON", &ndjson, PLAIN, &plain, 0.6),
            row("protobuf", &protobuf, PLAIN, &plain, 0.8),
            row("NDJSON", &ndjson, PERFORMANCE, &performance, 2.0),
        ])
    }

    /// Single posts, against a plain producer with as many records in flight, and over many connections.
    async fn singles(&self, rounds: usize) -> Result<Vec<Row>> {
        let producer = InFlight::connect(self.env.events.config(), &self.traffic).await?;
        let sides = [
            Singles::Posted {
                connections: SINGLE_CONNECTIONS,
            },
            Singles::Plain,
            Singles::Posted {
                connections: MANY_CONNECTIONS,
            },
        ];
        let run = async |side| match side {
            Singles::Posted { connections } => self.closed_loop(connections, Post::Single).await,
            Singles::Plain => self.in_flight(&producer).await,
        };
        let [few, plain, many] = in_turn(rounds, sides, run).await?;
        let what = |connections| format!("single posts, {connections} connections");
        Ok(vec![
            Row::of_pair(
                what(SINGLE_CONNECTIONS),
                format!("one plain rdkafka producer, {SINGLE_CONNECTIONS} records in flight"),
                &Pair::of(&few, &plain),
                0.8,
            ),
            Row::of_pair(
                what(MANY_CONNECTIONS),
                format!("the same over {SINGLE_CONNECTIONS}"),
                &Pair::of(&many, &few),
                2.0,
            ),
        ])
    }

    /// The waiting time of single posts that do not wait for answers.
    async fn accepted(&self, rounds: usize) -> Result<Row> {
        let clients = PacedLoop {
            port: self.env.port("ingest")?,
            connections: SINGLE_CONNECTIONS,
            post: Post::Single,
            rate: PACED_RATE,
        };
        let mut p99 = Vec::new();
        for _ in 0..rounds {
            let answered = clients.run(&self.traffic, self.length).await?;
            p99.push(Percentiles::of(answered.waited_ms).p99);
        }
        let what = format!("single posts at {PACED_RATE}/s, as scheduled: accepted, p99");
        let most = Some(Bound::AtMost(10.0));
        Ok(Row::of_value(what, "ms", Spread::of(p99), most, &[]))
    }

    async fn closed_loop(&self, connections: usize, post: Post) -> Result<Sample> {
        let clients = ClosedLoop {
            port: self.env.port("ingest")?,
            connections,
            post,
        };
        let meter = Meter::start(&self.env)?;
        let accepted = clients.run(&self.traffic, self.length).await?;
        meter.stop(accepted)
    }

    async fn in_flight(&self, producer: &InFlight) -> Result<Sample> {
        let meter = Meter::start(&self.env)?;
        let delivered = producer
            .closed_loop(&self.traffic, SINGLE_CONNECTIONS, self.length)
            .await?;
        meter.stop(delivered)
    }

    fn plain(&self) -> Result<Sample> {
        let records = (0..RECORDS).map(|_| self.traffic.next_message().record());
        let records = records.collect::<Result<Vec<_>>>()?;
        let producer = PlainProducer::new(self.env.events.config(), Topic::Inbound, LINGER_MS)?;
        // ingest, too, is connected when its measurement begins.
        for record in &records[..CONNECTING_RECORDS] {
            producer.send_record(record)?;
        }
        let before = producer.delivered()?;
        let meter = Meter::start(&self.env)?;
        let began = Instant::now();
        for record in records.iter().cycle() {
            if began.elapsed() >= self.length {
                break;
            }
            producer.send_record(record)?;
        }
        meter.stop(producer.delivered()? - before)
    }
}

async fn producer_performance(env: &TestEnv) -> Result<Sample> {
    let topic = env.events.config().topic(Topic::Inbound);
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
    let meter = Meter::start(env)?;
    let said = env.kafka_tool("ProducerPerformance", &args).await?;
    let rate = rate_of_producer(&said).with_context(|| format!("no rate in: {said}"))?;
    Ok(meter.stop(PERFORMANCE_RECORDS)?.at_rate(rate))
}

/// Reads the rate in `1000000 records sent, 131234.5 records/sec (…`, on the last line.
fn rate_of_producer(said: &str) -> Option<f64> {
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
        assert_eq!(rate_of_producer(said), Some(131_234.5));
        assert_eq!(rate_of_producer("nothing"), None);
    }
}

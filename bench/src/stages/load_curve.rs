//! All services under loads that grow beyond their capacity.

use anyhow::Result;
use system_tests::{Percentiles, TestEnv};
use tokio::time::Instant;

use super::{EVERYTHING, Plan};
use crate::{
    load::{closed, paced::PacedLoop, post::Post, traffic::Traffic},
    results::{Point, Row},
};

/// The warm-up before a measurement is this fraction of its length.
const WARM_UP_SHARE: u32 = 4;

/// If less than this share of a load is accepted, the load is beyond capacity, and larger loads would show the same.
const CARRIED_SHARE: f64 = 0.8;

struct Load {
    what: &'static str,
    file: &'static str,
    post: Post,
    connections: usize,
    /// Messages per second, up to the first rate that is too high.
    rates: &'static [f64],
}

const LOADS: [Load; 2] = [
    Load {
        what: "Everything on: single posts, 64 connections",
        file: "singles",
        post: Post::Single,
        connections: 64,
        rates: &[
            500.0, 1_000.0, 2_000.0, 4_000.0, 6_000.0, 8_000.0, 10_000.0, 12_000.0,
        ],
    },
    Load {
        what: "Everything on: NDJSON, 100 lines a request, 16 connections",
        file: "ndjson",
        post: Post::Ndjson(100),
        connections: 16,
        rates: &[5_000.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0, 60_000.0],
    },
];

/// One load after the other.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    let traffic = Traffic::real()?;
    closed::warm_up(&env, &traffic).await?;
    env.check_all_partitions().await?;
    let mut rows = Vec::new();
    for load in &LOADS {
        let mut points = Vec::new();
        for rate in load.rates {
            let point = point(&env, &traffic, load, *rate, plan).await?;
            points.push(point);
            if point.accepted < CARRIED_SHARE * point.offered {
                break;
            }
        }
        rows.push(Row::of_curve(load.what, load.file, points));
    }
    Ok(rows)
}

async fn point(
    env: &TestEnv,
    traffic: &Traffic,
    load: &Load,
    rate: f64,
    plan: &Plan,
) -> Result<Point> {
    let clients = PacedLoop {
        port: env.port("ingest")?,
        connections: load.connections,
        post: load.post,
        rate,
    };
    clients.run(traffic, plan.length / WARM_UP_SHARE).await?;
    let began = Instant::now();
    let answered = clients.run(traffic, plan.length).await?;
    let accepted = answered.accepted as f64 / began.elapsed().as_secs_f64();
    // Records that are still in flight must not affect the next measurement.
    env.check_all_partitions().await?;
    Ok(Point {
        offered: rate,
        accepted,
        waited: Percentiles::of(answered.waited_ms),
    })
}

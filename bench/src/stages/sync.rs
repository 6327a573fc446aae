//! The cost of a device's sync: few changes among many conversations, and everything of a very large account.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use client::SyncAnswer;
use system_tests::{Percentiles, TestEnv};

use super::{EVERYTHING, Plan, groups};
use crate::{
    load::connection::Connection,
    meter::{SharedPages, resident_of},
    results::{Bound, Row},
};

/// The user who syncs; the uids of those who wrote to this user follow.
const USUAL: i64 = 4_000_000;
const USUAL_PEERS: i64 = 1_000;
const CHANGED: i64 = 10;
const CALLS_A_ROUND: usize = 200;
const LARGE: i64 = 5_000_000;
const LARGE_PEERS: i64 = 100_000;

pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    env.check_all_partitions().await?;
    let mut rows = vec![few_changes(&env, plan).await?];
    rows.extend(everything(&env).await?);
    Ok(rows)
}

async fn few_changes(env: &TestEnv, plan: &Plan) -> Result<Row> {
    receive(env, USUAL, USUAL_PEERS).await?;
    let mut connection = Connection::open(env.port("query-api")?).await?;
    let known = sync(&mut connection, USUAL, "limit=1000").await?;
    ensure!(!known.more, "one page is not everything");
    receive(env, USUAL, CHANGED).await?;
    let query = format!("since={}", known.next);
    let mut ms = Vec::new();
    for _ in 0..CALLS_A_ROUND * plan.rounds {
        let began = Instant::now();
        let answer = sync(&mut connection, USUAL, &query).await?;
        ms.push(began.elapsed().as_secs_f64() * 1e3);
        let changed = answer.conversations.len();
        ensure!(changed as i64 == CHANGED, "{changed} conversations");
    }
    Ok(Row::of_one(
        "sync of 10 changes among 1,000 conversations, p99",
        "ms",
        Percentiles::of(ms).p99,
        Some(Bound::AtMost(10.0)),
    ))
}

/// Syncs everything, in pages of the largest size.
async fn everything(env: &TestEnv) -> Result<Vec<Row>> {
    receive(env, LARGE, LARGE_PEERS).await?;
    let mut connection = Connection::open(env.port("query-api")?).await?;
    let before = query_api_mib(env)?;
    let (mut ms, mut conversations, mut most) = (Vec::new(), 0, before);
    let mut query = "limit=1000".to_owned();
    loop {
        let began = Instant::now();
        let page = sync(&mut connection, LARGE, &query).await?;
        ms.push(began.elapsed().as_secs_f64() * 1e3);
        conversations += page.conversations.len();
        most = query_api_mib(env)?.max(most);
        if !page.more {
            break;
        }
        query = format!("limit=1000&since={}", page.next);
    }
    ensure!(
        conversations as i64 == LARGE_PEERS,
        "{conversations} conversations"
    );
    Ok(vec![
        Row::of_one(
            "full sync of 100,000 conversations, a page of 1,000, p99",
            "ms",
            Percentiles::of(ms).p99,
            None,
        ),
        Row::of_one(
            "query-api grows in a full sync of 100,000 conversations by",
            "MiB",
            most - before,
            None,
        ),
    ])
}

fn query_api_mib(env: &TestEnv) -> Result<f64> {
    let pid = env.pid("query-api").context("no query-api runs")?;
    resident_of(pid, SharedPages::Resident)
}

async fn sync(connection: &mut Connection, uid: i64, query: &str) -> Result<SyncAnswer> {
    let path = format!("/v1/users/{uid}/sync?{query}");
    Ok(serde_json::from_slice(&connection.get(&path).await?)?)
}

/// Posts one message from each of `senders` users, and waits until they are in all stores.
async fn receive(env: &TestEnv, uid: i64, senders: i64) -> Result<()> {
    let messages = groups::messages((uid + 1..=uid + senders).map(|srcid| (srcid, uid)))?;
    groups::store(env, &messages).await
}

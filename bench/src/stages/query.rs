//! query-api, against a bare server that makes the same calls to the stores.

use std::sync::Arc;

use anyhow::Result;
use system_tests::TestEnv;

use super::{EVERYTHING, Plan};
use crate::{
    load::{closed::ClosedLoop, connection::Connection, post::Post, reading, traffic::Traffic},
    meter::{Meter, cpu_s},
    pair::Pair,
    raw::bare::{BARE, BareServer},
    results::Row,
    sample::Sample,
};

const SENDERS: u64 = 20;
const RECEIVERS: u64 = 200;
/// More messages than a page has.
const MESSAGES_OF_CONVERSATION: u64 = 60;
const LINES: usize = 500;
const CONNECTIONS: usize = 64;

/// A call about a sender and a receiver.
struct Call {
    what: &'static str,
    ours: fn(i64, i64) -> String,
    raw: fn(i64, i64) -> String,
}

const CALLS: [Call; 2] = [
    Call {
        what: "query-api, unread counts of 20 senders",
        ours: |_, receiver| format!("/v1/users/{receiver}/unread?device=pc"),
        raw: |_, receiver| format!("/unread/{receiver}"),
    },
    Call {
        what: "query-api, a page of 50 messages",
        ours: |sender, receiver| format!("/v1/users/{receiver}/conversations/{sender}/messages"),
        raw: |sender, receiver| format!("/messages/{receiver}/{sender}"),
    },
];

/// Measures each call separately.
pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    let pairs = fill(&env).await?;
    let query_api = env.port("query-api")?;
    let (redis, mysql) = (env.redis.url(), env.mysql_url());
    let stores = ["--redis", &redis, "--mysql", &mysql];
    let raw = BareServer::start("serve-raw", &stores).await?;
    let read = async |port, paths: &Arc<[String]>| read_pages(&env, port, paths, plan).await;
    let read_raw = async |paths: &Arc<[String]>| -> Result<Sample> {
        let before = cpu_s(raw.pid)?;
        let mut sample = read(raw.port, paths).await?;
        sample
            .cpu_s
            .insert(BARE.to_owned(), cpu_s(raw.pid)? - before);
        Ok(sample)
    };
    let mut rows = Vec::new();
    for call in CALLS {
        let paths = |of: fn(i64, i64) -> String| -> Arc<[String]> {
            pairs.iter().map(|(from, to)| of(*from, *to)).collect()
        };
        let (ours, baseline) = (paths(call.ours), paths(call.raw));
        let pair = Pair::run(
            plan.rounds,
            async || read(query_api, &ours).await,
            async || read_raw(&baseline).await,
        )
        .await?;
        let against = format!("{BARE}, the same calls to the stores");
        rows.push(Row::of_pair(call.what, against, &pair, 0.8));
    }
    Ok(rows)
}

/// Requests the paths from a server in turn over [`CONNECTIONS`], for as long as the plan says.
async fn read_pages(
    env: &TestEnv,
    port: u16,
    paths: &Arc<[String]>,
    plan: &Plan,
) -> Result<Sample> {
    let meter = Meter::start(env)?;
    let answers = reading::read(port, CONNECTIONS, Arc::clone(paths), plan.length).await?;
    meter.stop(answers)
}

/// Posts messages in each conversation. Returns the senders and receivers.
async fn fill(env: &TestEnv) -> Result<Vec<(i64, i64)>> {
    let traffic = Traffic::each_to_each(SENDERS, RECEIVERS);
    let conversations = SENDERS * RECEIVERS;
    let posts = ClosedLoop {
        port: env.port("ingest")?,
        connections: 1,
        post: Post::Ndjson(LINES),
    };
    posts
        .count(&traffic, conversations * MESSAGES_OF_CONVERSATION)
        .await?;
    env.check_all_partitions().await?;
    let messages = (0..conversations).map(|_| traffic.next_message());
    let pairs: Vec<(i64, i64)> = messages
        .map(|message| (message.srcid, message.destid))
        .collect();
    // A first query loads the user into Redis.
    let mut connection = Connection::open(env.port("query-api")?).await?;
    for (_, receiver) in pairs.iter().step_by(SENDERS as usize) {
        let path = format!("/v1/users/{receiver}/unread?device=pc");
        connection.get(&path).await?;
    }
    Ok(pairs)
}

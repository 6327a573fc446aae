//! Pages of groups: what query-api reads from MySQL, against a bare server that does the same, and one with a cache of messages in Redis.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use redis::AsyncCommands as _;
use schemas::GroupId;
use serde_json::Value;
use system_tests::TestEnv;

use super::{
    EVERYTHING, Plan, groups,
    query::{BARE, raw_server, read_pages},
};
use crate::{
    pair::{Pair, in_turn},
    raw::server::{cache_key, caches},
    results::Row,
};

const GROUPS: i64 = 200;
const FIRST: i64 = 3_000_000;
/// Who owns them all and reads their pages.
const OWNER: i64 = 3_000_000;
const OTHERS: i64 = 10;
/// More than a page.
const MESSAGES: i64 = 60;

pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    env.check_all_partitions().await?;
    fill(&env).await?;
    cache(&env).await?;
    let query_api = env.port("query-api")?;
    let (bare, mut raw) = raw_server(&env).await?;
    let paths =
        |of: &dyn Fn(i64) -> String| -> Arc<[String]> { (FIRST..FIRST + GROUPS).map(of).collect() };
    let ours = paths(&|gid| format!("/v1/groups/{gid}/messages?uid={OWNER}"));
    let plain = paths(&|gid| format!("/group-messages/{OWNER}/{gid}"));
    let cached = paths(&|gid| format!("/cached-group-messages/{OWNER}/{gid}"));
    let validated = paths(&|gid| format!("/validated-group-messages/{OWNER}/{gid}"));
    let sides = [
        (query_api, &ours),
        (bare, &plain),
        (bare, &cached),
        (bare, &validated),
    ];
    let read = async |(port, paths)| read_pages(&env, port, paths, plan).await;
    let [ours, plain, cached, validated] = in_turn(plan.rounds, sides, read).await?;
    raw.kill().await?;
    let what = "query-api, a page of 50 messages of a group";
    let from_mysql = format!("{BARE}, a page of 50 messages of a group from MySQL");
    Ok(vec![
        Row::of_pair(
            what,
            format!("{BARE}, the same calls to MySQL"),
            &Pair::of(&ours, &plain),
            0.8,
        ),
        Row::of_pair(
            from_mysql.clone(),
            format!("{BARE}, only the membership from MySQL, and the messages as Redis has them"),
            &Pair::of(&plain, &cached),
            0.8,
        ),
        Row::of_pair(
            from_mysql,
            format!("{BARE}, all but the messages from MySQL, and these from Redis"),
            &Pair::of(&plain, &validated),
            0.8,
        ),
    ])
}

async fn fill(env: &TestEnv) -> Result<()> {
    let mut events = Vec::new();
    for gid in FIRST..FIRST + GROUPS {
        events.push(groups::creation(gid, OWNER, OTHERS)?);
        for n in 0..MESSAGES {
            events.push(groups::send(gid, OWNER + n % OTHERS)?);
        }
    }
    groups::store(env, &events).await
}

/// Puts the newest page of each group into a cache, as query-api shows it.
async fn cache(env: &TestEnv) -> Result<()> {
    let mut redis = caches(&env.redis.url()).await?;
    for gid in FIRST..FIRST + GROUPS {
        let path = format!("/v1/groups/{gid}/messages?uid={OWNER}");
        let page: Value = env.client.ask(&path).await?;
        let items = page["items"].as_array().context("no items")?;
        let key = cache_key(GroupId::try_from(gid)?);
        let scored: Vec<(i64, String)> = items
            .iter()
            .map(|item| Ok((item["mid"].as_i64().context("no mid")?, item.to_string())))
            .collect::<Result<_>>()?;
        let () = redis.zadd_multiple(key, &scored).await?;
    }
    Ok(())
}

//! One of two MariaDB servers is away: what the other holds goes on, and nothing else waits for it.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::DirectConversation;
use system_tests::{Load, Servers, Settings, TestEnv, new_users, run, until};

const TWO: Settings = Settings {
    mariadb_nodes: 2,
    ..Settings::USUAL
};
/// Of 64 partitions in four databases, two on each server.
const ON_THE_FIRST: u8 = 32;

#[test]
fn the_shards_of_the_other_go_on() {
    run(Servers::Own(TWO), async |env| {
        let mut load = Load::start(env, 8);
        load.grows_by(300).await?;
        env.end("mariadb-2", Signal::KILL).await?;
        load.grows_by(300).await?;

        let (here, away) = (pair_on(true)?, pair_on(false)?);
        let stored = env.client.send(here.0, here.1, "here", "here").await?;
        let items = env.client.history(here.0, here.1, &[stored]).await?;
        ensure!(items.len() == 1, "{items:?}");
        let waiting = env.client.send(away.0, away.1, "away", "away").await?;
        refused_until_it_is_back(env, away).await?;

        env.start_servers().await?;
        let items = env.client.history(away.0, away.1, &[waiting]).await?;
        ensure!(items.len() == 1, "{items:?}");
        load.finish().await?.judge(env).await
    });
}

/// New users whose conversation, and whose own rows, are on the first server or not.
fn pair_on(first: bool) -> Result<(i64, i64)> {
    loop {
        let [from, to] = new_users();
        let conversation = DirectConversation::new(from.try_into()?, to.try_into()?);
        let shards = [
            conversation.partition().get(),
            u8::try_from(from % 64)?,
            u8::try_from(to % 64)?,
        ];
        if shards.iter().all(|n| (*n < ON_THE_FIRST) == first) {
            return Ok((from, to));
        }
    }
}

/// A reader of a database that is down gets a retryable error and no partial answer.
async fn refused_until_it_is_back(env: &TestEnv, (from, to): (i64, i64)) -> Result<()> {
    let path = format!("/v1/users/{from}/conversations/{to}/messages?after_mid=0");
    until("an answer that says so", async || {
        match env.client.get(&path).await {
            Ok(answer) if answer.status == 503 => Ok(()),
            Ok(answer) => Err(answer.body.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    })
    .await
}

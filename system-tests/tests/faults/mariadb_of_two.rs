//! One of two MariaDB servers is away: what the other holds goes on, and nothing else waits for it.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::{ConversationId, Partition};
use system_tests::{Load, Servers, Settings, World, new_users, run, until};

const TWO: Settings = Settings {
    mariadb_nodes: 2,
    ..Settings::USUAL
};
/// Of 64 partitions in four databases, two on each server.
const ON_THE_FIRST: u8 = 32;

#[test]
fn the_shards_of_the_other_go_on() {
    run(Servers::Own(TWO), async |world| {
        let mut load = Load::start(world, 8);
        load.grows_by(300).await?;
        world.end("mariadb-2", Signal::KILL).await?;
        load.grows_by(300).await?;

        let (here, away) = (pair_on(true)?, pair_on(false)?);
        let stored = world.client.send(here.0, here.1, "here", "here").await?;
        let items = world.client.history(here.0, here.1, &[stored]).await?;
        ensure!(items.len() == 1, "{items:?}");
        let waiting = world.client.send(away.0, away.1, "away", "away").await?;
        refused_until_it_is_back(world, away).await?;

        world.start_servers().await?;
        let items = world.client.history(away.0, away.1, &[waiting]).await?;
        ensure!(items.len() == 1, "{items:?}");
        load.settle().await?.judge(world).await
    });
}

/// New users whose conversation, and whose own rows, are on the first server or not.
fn pair_on(first: bool) -> Result<(i64, i64)> {
    loop {
        let [from, to] = new_users();
        let conversation = ConversationId::direct(from.try_into()?, to.try_into()?);
        let shards = [
            Partition::of(conversation).get(),
            u8::try_from(from % 64)?,
            u8::try_from(to % 64)?,
        ];
        if shards.iter().all(|n| (*n < ON_THE_FIRST) == first) {
            return Ok((from, to));
        }
    }
}

/// A reader of what is away is told to come again, and gets no half of it.
async fn refused_until_it_is_back(world: &World, (from, to): (i64, i64)) -> Result<()> {
    let path = format!("/v1/users/{from}/conversations/{to}/messages?after_mid=0");
    until("an answer that says so", async || {
        match world.client.get(&path).await {
            Ok(answer) if answer.status == 503 => Ok(()),
            Ok(answer) => Err(answer.body.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    })
    .await
}

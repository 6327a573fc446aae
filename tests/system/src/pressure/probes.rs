//! Measures how long it takes until a message can be read.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{Client, DeviceClass, Percentiles, new_users};

/// Messages a second, each of which is queried.
const PROBES: u64 = 20;
/// One in this many first messages is read back.
const READ_BACK: usize = 10;
/// How many conversations take turns, in all partitions.
const CONVERSATIONS: usize = 128;

/// The times from when each message is due until it is counted in Redis, and until it is in MySQL.
pub(super) struct Readable {
    pub(super) counted: Percentiles,
    pub(super) stored: Percentiles,
}

/// Sends messages of conversations whose receivers are in Redis, for a while, and queries each.
pub(super) async fn run(client: &Client, length: Duration) -> Result<Readable> {
    let pairs: Vec<[i64; 2]> = (0..CONVERSATIONS).map(|_| new_users()).collect();
    // A user who was never read is not in Redis.
    try_join_all(
        pairs
            .iter()
            .map(|pair| probe(client, *pair, 1, Instant::now())),
    )
    .await?;
    let mut tick = interval(Duration::from_secs(1) / PROBES as u32);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut probes = JoinSet::new();
    for turn in 0..(PROBES * length.as_secs()) as usize {
        let due = tick.tick().await.into_std();
        let (client, pair) = (client.clone(), pairs[turn % CONVERSATIONS]);
        let number = 2 + (turn / CONVERSATIONS) as i64;
        probes.spawn(async move { probe(&client, pair, number, due).await });
    }
    let (mut counted, mut stored) = (Vec::new(), Vec::new());
    while let Some(ended) = probes.join_next().await {
        let (in_redis, in_mysql) = ended??;
        counted.push(in_redis);
        stored.push(in_mysql);
    }
    Ok(Readable {
        counted: Percentiles::of(counted),
        stored: Percentiles::of(stored),
    })
}

/// The `number`th message of a conversation.
async fn probe(
    client: &Client,
    [from, to]: [i64; 2],
    number: i64,
    due: Instant,
) -> Result<(f64, f64)> {
    let id = number.to_string();
    let after = [client.send(from, to, &id, "probe").await?];
    let stored = async {
        let items = client.history(to, from, &after).await?;
        ensure!(items.len() as i64 >= number, "{items:?}");
        Ok(milliseconds(due))
    };
    let counted = async {
        let unread = client.unread(to, DeviceClass::Pc, &after).await?;
        ensure!(unread.get(&from) >= Some(&number), "{unread:?}");
        Ok(milliseconds(due))
    };
    tokio::try_join!(counted, stored)
}

/// The measurements of the first messages of new conversations.
pub(super) struct Firsts {
    pub(super) count: usize,
    pub(super) took: Duration,
    pub(super) accepted: Percentiles,
    /// The times from the answer until the message was read back.
    pub(super) readable: Percentiles,
}

/// Sends the first messages of `count` conversations, `at_once` at a time.
pub(super) async fn firsts(client: &Client, count: usize, at_once: usize) -> Result<Firsts> {
    let permits = Arc::new(Semaphore::new(at_once));
    let begun = Instant::now();
    let mut sending = JoinSet::new();
    for number in 0..count {
        let is_read = number % READ_BACK == 0;
        sending.spawn(first(client.clone(), Arc::clone(&permits), begun, is_read));
    }
    let (mut accepted, mut readable, mut took) = (Vec::new(), Vec::new(), Duration::ZERO);
    while let Some(ended) = sending.join_next().await {
        let (accepted_ms, readable_ms, at) = ended??;
        accepted.push(accepted_ms);
        readable.extend(readable_ms);
        took = took.max(at);
    }
    Ok(Firsts {
        count,
        took,
        accepted: Percentiles::of(accepted),
        readable: Percentiles::of(readable),
    })
}

/// How long the answer took, how long after it the message was read back, the message's position, and when the answer came.
async fn first(
    client: Client,
    permits: Arc<Semaphore>,
    begun: Instant,
    is_read: bool,
) -> Result<(f64, Option<f64>, Duration)> {
    let permit = permits.acquire().await?;
    let ([from, to], due) = (new_users(), Instant::now());
    let position = client.send(from, to, "first", "hello").await?;
    let (accepted, at, answered) = (milliseconds(due), begun.elapsed(), Instant::now());
    drop(permit);
    if !is_read {
        return Ok((accepted, None, at));
    }
    let items = client.history(to, from, &[position]).await?;
    let only = items.first().context("no message")?;
    ensure!(items.len() == 1 && only["mid"] == 1, "{items:?}");
    Ok((accepted, Some(milliseconds(answered)), at))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

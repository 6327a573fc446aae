//! Messages at a fixed rate, whether or not earlier ones are answered.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{Client, Percentiles, new_users};

/// Batches a second.
const BATCHES: u64 = 20;
const USERS: usize = 2_000;
/// To how many others each user writes.
const PEERS: usize = 10;
const TEXT: &str = "a text of about as many bytes as people write to each other, which is not that many; say a hundred";

/// The shape of the traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Messages a second.
    pub(super) rate: u64,
    /// How many of a hundred messages are in one conversation.
    pub(super) hot_percent: u32,
}

/// Running traffic.
pub(super) struct Traffic {
    stop: watch::Sender<bool>,
    counts: Arc<Mutex<Counts>>,
    batches: JoinSet<()>,
}

#[derive(Default)]
struct Counts {
    accepted: u64,
    refused: u64,
    answered_ms: Vec<f64>,
}

/// The counts of the traffic since the last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrafficCounts {
    pub(super) accepted: u64,
    /// Lines that were not accepted, and lines of requests without a whole answer.
    pub(super) refused: u64,
    /// The times from when a request was due until its answer came.
    pub(super) answered: Percentiles,
}

impl Traffic {
    pub(super) fn start(client: &Client, shape: Shape) -> Self {
        let (stop, stopped) = watch::channel(false);
        let counts = Arc::<Mutex<Counts>>::default();
        let mut batches = JoinSet::new();
        batches.spawn(post_all(
            client.clone(),
            shape,
            Arc::clone(&counts),
            stopped,
        ));
        Self {
            stop,
            counts,
            batches,
        }
    }

    /// The counts since the last look.
    pub(super) fn take_counts(&self) -> TrafficCounts {
        let counts = mem::take(&mut *locked(&self.counts));
        TrafficCounts {
            accepted: counts.accepted,
            refused: counts.refused,
            answered: Percentiles::of(counts.answered_ms),
        }
    }

    /// Ends the traffic, and waits for the missing answers.
    pub(super) async fn end(mut self) -> Result<TrafficCounts> {
        self.stop.send_replace(true);
        while let Some(ended) = self.batches.join_next().await {
            ended?;
        }
        Ok(self.take_counts())
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn post_all(
    client: Client,
    shape: Shape,
    counts: Arc<Mutex<Counts>>,
    stopped: watch::Receiver<bool>,
) {
    let users: Box<[i64; USERS]> = Box::new(new_users());
    let mut rng = StdRng::seed_from_u64(users[0].cast_unsigned());
    let mut tick = interval(Duration::from_secs(1) / BATCHES as u32);
    // Late requests are sent at once, so that the rate stays.
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut posts, mut number) = (JoinSet::new(), 0_u64);
    while !*stopped.borrow() {
        let due = tick.tick().await.into_std();
        let lines = shape.rate / BATCHES;
        let body: String = (0..lines)
            .map(|_| {
                number += 1;
                message(&users[..], shape.hot_percent, number, &mut rng)
            })
            .collect();
        posts.spawn(post(client.clone(), body, lines, due, Arc::clone(&counts)));
        while posts.try_join_next().is_some() {}
    }
    while posts.join_next().await.is_some() {}
}

fn message(users: &[i64], hot_percent: u32, number: u64, rng: &mut StdRng) -> String {
    let (from, to) = if rng.random_range(0..100) < hot_percent {
        (users[0], users[1])
    } else {
        let from = rng.random_range(0..users.len());
        let to = (from + rng.random_range(1..=PEERS)) % users.len();
        (users[from], users[to])
    };
    let message = json!({ "message": {
        "srcid": from.to_string(),
        "destid": to.to_string(),
        "client_msg_id": format!("{}-{number}", users[0]),
        "msg": TEXT,
    }});
    format!("{message}\n")
}

async fn post(client: Client, body: String, lines: u64, due: Instant, counts: Arc<Mutex<Counts>>) {
    let results = client.post_batch(body).await.unwrap_or_default();
    let is_accepted = |result: &&Value| result["status"] == 202;
    let accepted = results.iter().filter(is_accepted).count() as u64;
    let mut counts = locked(&counts);
    counts.accepted += accepted;
    counts.refused += lines - accepted.min(lines);
    counts.answered_ms.push(due.elapsed().as_secs_f64() * 1e3);
}

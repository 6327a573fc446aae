//! The processor time of a gateway: for events to many sockets, compared with a bare broadcast of the same frames, and for messages that concern none
//! of its devices.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use hyper::StatusCode;
use schemas::command::Command;
use system_tests::TestEnv;
use tokio::time::sleep;

use super::{EVERYTHING, Plan, sequenced, token_of};
use crate::{
    deadline::poll_until,
    load::{
        commands,
        connection::Connection,
        devices::{Crowd, Device},
        traffic::Traffic,
    },
    meter::cpu_s,
    pair::Pair,
    raw::{
        bare::{BARE, BareServer},
        broadcast,
    },
    results::{Bound, Row},
    sample::{Sample, Spread},
};

const GATEWAY: &str = "gateway";
const OWNER: i64 = 6_300_000;
const SOCKETS: i64 = 1_000;
/// How many messages are in flight at a time: as many as may wait for a socket without collapsing.
const MESSAGES: usize = 100;
/// The senders of all other messages, one in each partition.
const FIRST_SENDER: i64 = 6_400_000;
const SENDERS: i64 = 64;
const RECEIVER: i64 = 6_500_000;
const MESSAGES_OF_OTHERS: u64 = 200_000;
const IDLE: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(2);

pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    env.check_all_partitions().await?;
    Ok(vec![
        broadcast(&env, plan).await?,
        others(&env, plan).await?,
    ])
}

/// How many frames the sockets have received together, and one of them.
#[derive(Default)]
struct Received {
    count: AtomicU64,
    frame: OnceLock<Bytes>,
}

impl Received {
    fn take(&self, frame: &Bytes) {
        self.frame.get_or_init(|| frame.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    async fn has(&self, count: u64) -> Result<()> {
        let has = async || Ok(self.count.load(Ordering::Relaxed) >= count);
        poll_until("events on all sockets", ASK_EVERY, has).await
    }
}

/// Events a second of processor time.
async fn broadcast(env: &TestEnv, plan: &Plan) -> Result<Row> {
    commands::store(env, &[commands::creation(OWNER, SOCKETS)?]).await?;
    let (port, since) = (env.port(GATEWAY)?, token_of(env, OWNER).await?);
    let uids = OWNER + 1..=OWNER + SOCKETS;
    let (mut ours, received) = crowd(Device::connect_all(port, uids, &since).await?);
    let messages: Vec<Command> = (0..MESSAGES)
        .map(|_| commands::send(OWNER))
        .collect::<Result<_>>()?;
    // One message, so that there is a frame to copy.
    env.client.post_events(&messages[..1]).await?;
    ours.during(received.has(SOCKETS as u64)).await?;
    let frame = received.frame.get().context("no frame")?;
    let frames = [frame.as_ref(), b"\n"].concat().repeat(MESSAGES);

    let raw = BareServer::start("serve-broadcast", &[]).await?;
    let (mut bare, received_bare) =
        crowd(Device::listen(raw.port, SOCKETS, broadcast::SOCKETS).await?);
    let gateway = env.pid(GATEWAY).context("no gateway runs")?;
    let pair = Pair::run(
        plan.rounds,
        async || {
            let messages = async || {
                let sends: Vec<Command> = (0..MESSAGES)
                    .map(|_| commands::send(OWNER))
                    .collect::<Result<_>>()?;
                env.client.post_events(&sends).await.map(drop)
            };
            let of = (GATEWAY, gateway);
            ours.during(sent(of, &received, plan, messages)).await
        },
        async || {
            let mut connection = Connection::open(raw.port).await?;
            let frames = async || {
                let (path, kind) = (broadcast::FRAMES, "text/plain");
                let sent = connection.post(path, kind, frames.clone(), StatusCode::OK);
                sent.await.map(drop)
            };
            let of = (BARE, raw.pid);
            bare.during(sent(of, &received_bare, plan, frames)).await
        },
    )
    .await?;
    let what = "events out of a gateway to 1,000 sockets, for a second of its CPU";
    let baseline = "bare axum, the same frames out of a broadcast channel";
    Ok(Row::of_pair(what, baseline, &pair, 0.7))
}

fn crowd(devices: Vec<Device>) -> (Crowd, Arc<Received>) {
    let received = Arc::new(Received::default());
    let on_event = {
        let received = Arc::clone(&received);
        move |frame: &Bytes| received.take(frame)
    };
    (Crowd::of_connected(devices, on_event), received)
}

/// Sends [`MESSAGES`] to all sockets, again whenever they have received all, for as long as the plan says. The sample's seconds are the server's
/// processor time.
async fn sent(
    (name, pid): (&str, u32),
    received: &Received,
    plan: &Plan,
    mut send: impl AsyncFnMut() -> Result<()>,
) -> Result<Sample> {
    let (began, before) = (Instant::now(), cpu_s(pid)?);
    let first = received.count.load(Ordering::Relaxed);
    let mut end = first;
    while began.elapsed() < plan.length {
        end += MESSAGES as u64 * SOCKETS as u64;
        send().await?;
        received.has(end).await?;
    }
    let used = cpu_s(pid)? - before;
    let mut sample = Sample::of_rate(end - first, Duration::from_secs_f64(used));
    sample.cpu_s.insert(name.to_owned(), used);
    Ok(sample)
}

/// The cost of a message for a gateway on which neither of its users has a device.
async fn others(env: &TestEnv, plan: &Plan) -> Result<Row> {
    let (port, since) = (env.port(GATEWAY)?, token_of(env, RECEIVER).await?);
    let (mut one, received) = crowd(vec![Device::connect(port, RECEIVER, &since).await?]);
    let pid = env.pid(GATEWAY).context("no gateway runs")?;
    let mut used = Vec::new();
    // The first round warms up.
    for _ in 0..=plan.rounds {
        let before = cpu_s(pid)?;
        sleep(IDLE).await;
        let idle = (cpu_s(pid)? - before) / IDLE.as_secs_f64();
        let (began, before) = (Instant::now(), cpu_s(pid)?);
        let tailed = async {
            sequenced(env, &Traffic::new(), MESSAGES_OF_OTHERS).await?;
            tail_is_read(env, &received).await
        };
        one.during(tailed).await?;
        let busy = cpu_s(pid)? - before - idle * began.elapsed().as_secs_f64();
        used.push(busy / MESSAGES_OF_OTHERS as f64 * 1e6);
    }
    Ok(Row::of_value(
        "CPU of a gateway for a message that concerns nobody on it",
        "µs",
        Spread::of(used.into_iter().skip(1)),
        Some(Bound::AtMost(2.5)),
        &[],
    ))
}

/// Waits until, in each partition, a message after everything else has come.
async fn tail_is_read(env: &TestEnv, received: &Received) -> Result<()> {
    let end = received.count.load(Ordering::Relaxed) + SENDERS as u64;
    let senders = FIRST_SENDER..FIRST_SENDER + SENDERS;
    let last = commands::messages(senders.map(|uid| (uid, RECEIVER)))?;
    env.client.post_events(&last).await?;
    received.has(end).await
}

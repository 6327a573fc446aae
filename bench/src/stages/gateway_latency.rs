//! The time from a send on one socket of a gateway to the event on another, and on all sockets of a large group.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use futures::future::try_join_all;
use serde_json::json;
use system_tests::{Percentiles, TestEnv};
use tokio::{
    select,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{EVERYTHING, Plan, token_of};
use crate::{
    deadline::wait_until,
    load::{
        commands,
        devices::{Crowd, Device, number_in},
    },
    results::{Bound, Row},
    sample::Spread,
    warm::warm_up,
};

/// How many senders there are, and how many receivers: each sender writes to one of these.
const SENDERS: i64 = 100;
const RATE: f64 = 1_000.0;
const FIRST_SENDER: i64 = 6_000_000;
const FIRST_RECEIVER: i64 = 6_100_000;
const OWNER: i64 = 6_200_000;
const MEMBERS: i64 = 1_000;
const GROUP_RATE: f64 = 5.0;
/// The smallest number of messages that has a p99.
const GROUP_MESSAGES: usize = 101;

pub(super) async fn run(plan: &Plan) -> Result<Vec<Row>> {
    let env = TestEnv::start(EVERYTHING).await?;
    env.check_all_partitions().await?;
    let mut rows = direct(&env, plan).await?;
    rows.push(group(&env, plan).await?);
    Ok(rows)
}

/// For numbered messages that are due at a rate: the delay after the due time until each has come everywhere, milliseconds.
pub(super) struct Arrivals {
    /// The first number of this round; other rounds have other numbers.
    first: usize,
    began: Instant,
    rate: f64,
    /// How many receivers each message has.
    receivers: usize,
    /// How many receivers have got each message, and the delay of the last one.
    seen: Mutex<Vec<(usize, f64)>>,
}

impl Arrivals {
    pub(super) fn new(rate: f64, receivers: usize, messages: usize) -> Arc<Self> {
        Arc::new(Self {
            first: rand::random::<u32>() as usize,
            began: Instant::now(),
            rate,
            receivers,
            seen: Mutex::new(vec![(0, 0.0); messages]),
        })
    }

    /// The number that the text of the `number`th message begins with.
    pub(super) fn number(&self, number: usize) -> usize {
        self.first + number
    }

    pub(super) fn due(&self, number: usize) -> Instant {
        self.began + Duration::from_secs_f64(number as f64 / self.rate)
    }

    /// Counts a message whose text has a number of this round; others are of an earlier round.
    pub(super) fn take(&self, frame: &[u8], now: Instant) {
        if let Some(number) = number_in(frame) {
            self.take_number(number, now);
        }
    }

    /// Counts the message with a number, if it is of this round.
    pub(super) fn take_number(&self, number: usize, now: Instant) {
        let Some(number) = number.checked_sub(self.first) else {
            return;
        };
        let ms = now.duration_since(self.due(number)).as_secs_f64() * 1e3;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, last)) = seen.get_mut(number) {
            *count += 1;
            *last = ms.max(*last);
        }
    }

    async fn all(&self) -> Result<Percentiles> {
        let is_everywhere = async || {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(seen.iter().all(|(count, _)| *count >= self.receivers))
        };
        wait_until("every message at every socket", is_everywhere).await?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_once = seen.iter().all(|(count, _)| *count == self.receivers);
        ensure!(is_once, "a message came twice");
        Ok(Percentiles::of(seen.iter().map(|(_, ms)| *ms).collect()))
    }
}

async fn direct(env: &TestEnv, plan: &Plan) -> Result<Vec<Row>> {
    let mut rounds = Vec::new();
    warm_up(env, async || one_round(env, plan).await.map(drop)).await?;
    for _ in 0..plan.rounds {
        rounds.push(one_round(env, plan).await?);
    }
    let row = |what, most, of: fn(&Percentiles) -> f64| {
        let what = format!("everything on, 1,000/s: send on a socket → event on another, {what}");
        let spread = Spread::of(rounds.iter().map(of));
        Row::of_value(what, "ms", spread, Some(Bound::AtMost(most)), &[])
    };
    Ok(vec![
        row("p50", 10.0, |round| round.p50),
        row("p99", 30.0, |round| round.p99),
    ])
}

/// Each sender writes in its turn, without waiting for earlier messages.
async fn one_round(env: &TestEnv, plan: &Plan) -> Result<Percentiles> {
    let (port, since) = (env.port("gateway")?, token_of(env, FIRST_SENDER).await?);
    let messages = (RATE * plan.length.as_secs_f64()) as usize;
    let senders = (0..SENDERS).map(|i| Device::connect(port, FIRST_SENDER + i, &since));
    let senders = try_join_all(senders).await?;
    let receivers = (0..SENDERS).map(|i| Device::connect(port, FIRST_RECEIVER + i, &since));
    let receivers = try_join_all(receivers).await?;
    let arrivals = Arrivals::new(RATE, 1, messages);
    let mut crowd = Crowd::of_connected(receivers, {
        let arrivals = Arc::clone(&arrivals);
        move |frame| arrivals.take(frame, Instant::now())
    });
    let mut sending = JoinSet::new();
    for (device, index) in senders.into_iter().zip(0..) {
        let numbers = (index..messages).step_by(SENDERS as usize);
        let to = json!({"to": (FIRST_RECEIVER + index as i64).to_string()});
        sending.spawn(send_all(device, numbers, to, Arc::clone(&arrivals)));
    }
    crowd.during(arrived(&arrivals, sending)).await
}

/// Waits until everything has come, while the senders continue.
pub(super) async fn arrived(
    arrivals: &Arrivals,
    mut sending: JoinSet<Result<()>>,
) -> Result<Percentiles> {
    select! {
        all = arrivals.all() => all,
        Some(ended) = sending.join_next() => {
            ended??;
            bail!("a sender has ended")
        }
    }
}

/// Sends messages when they are due, and reads incoming frames, until it is dropped.
async fn send_all(
    mut device: Device,
    numbers: impl Iterator<Item = usize>,
    to: serde_json::Value,
    arrivals: Arc<Arrivals>,
) -> Result<()> {
    for number in numbers {
        let due = arrivals.due(number);
        loop {
            select! {
                () = sleep_until(due) => break,
                frame = device.next() => ensure_not_refused(&frame?)?,
            }
        }
        let mut frame = to.clone();
        frame["type"] = json!("send");
        frame["ref"] = json!(number.to_string());
        frame["client_msg_id"] = json!(format!("{:x}", rand::random::<u128>()));
        frame["msg"] = json!(format!("{} {}", arrivals.number(number), commands::TEXT));
        device.send(&frame.to_string()).await?;
    }
    loop {
        ensure_not_refused(&device.next().await?)?;
    }
}

fn ensure_not_refused(frame: &[u8]) -> Result<()> {
    let is_refused =
        frame.starts_with(br#"{"type":"refused""#) || frame.starts_with(br#"{"type":"error""#);
    ensure!(!is_refused, "{}", String::from_utf8_lossy(frame));
    Ok(())
}

/// The time until the last of all sockets has a group's message.
async fn group(env: &TestEnv, plan: &Plan) -> Result<Row> {
    commands::store(env, &[commands::creation(OWNER, MEMBERS)?]).await?;
    let (port, since) = (env.port("gateway")?, token_of(env, OWNER).await?);
    let mut rounds = Vec::new();
    // The first round warms up.
    for _ in 0..=plan.rounds {
        let sender = Device::connect(port, OWNER, &since).await?;
        let receivers = OWNER + 1..=OWNER + MEMBERS;
        let receivers = Device::connect_all(port, receivers, &since).await?;
        let arrivals = Arrivals::new(GROUP_RATE, MEMBERS as usize, GROUP_MESSAGES);
        let mut crowd = Crowd::of_connected(receivers, {
            let arrivals = Arc::clone(&arrivals);
            move |frame| arrivals.take(frame, Instant::now())
        });
        let to = json!({"gid": OWNER.to_string()});
        let mut sending = JoinSet::new();
        sending.spawn(send_all(
            sender,
            0..GROUP_MESSAGES,
            to,
            Arc::clone(&arrivals),
        ));
        rounds.push(crowd.during(arrived(&arrivals, sending)).await?.p99);
    }
    Ok(Row::of_value(
        "a group's message → the last of 1,000 sockets of a gateway, 5/s, p99",
        "ms",
        Spread::of(rounds.into_iter().skip(1)),
        Some(Bound::AtMost(50.0)),
        &[],
    ))
}

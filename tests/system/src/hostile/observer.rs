//! The account that measures: it writes to a friend, who reads and whose device listens.

use std::{
    collections::HashMap,
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use client::device::{Device, Update};
use schemas::{Recipient, UserId};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{
    FACTOR, FLOOR_MS,
    account::{Account, Stage},
};
use crate::Percentiles;

/// Below the limit of a user: if a post is refused, other accounts are the cause.
const POST_EVERY: Duration = Duration::from_millis(50);
const READ_EVERY: Duration = Duration::from_millis(50);
/// One in this many posts is a batch of one line.
const POSTS_FOR_A_BATCH: u64 = 10;
/// A call that takes longer counts as refused.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many of the newest messages an update may cover.
const NEWEST: usize = 50;

/// Measures until it is dropped.
pub(super) struct Observer {
    samples: Arc<Mutex<Samples>>,
    tasks: JoinSet<Result<()>>,
}

#[derive(Default)]
struct Samples {
    accepted_ms: Vec<f64>,
    event_ms: Vec<f64>,
    read_ms: Vec<f64>,
    refused_posts: Vec<String>,
    refused: Vec<String>,
    /// Messages that have not reached the device, by their texts.
    sent: HashMap<String, Instant>,
    /// The position of the newest message, as in a path.
    newest: Option<String>,
}

/// The measurements since the last look.
pub(super) struct Measured {
    accepted: Percentiles,
    event: Percentiles,
    read: Percentiles,
    /// Answers to posts that are not successes, and posts without an answer in time.
    refused_posts: Vec<String>,
    /// The same for reads, and messages that did not reach the device.
    refused: Vec<String>,
}

impl Observer {
    /// Begins once the friend's device is connected.
    pub(super) async fn start(stage: &Stage) -> Result<Self> {
        let [writer, friend] = [stage.measuring, stage.friend].map(|uid| Account::of(stage, uid));
        let (writer, friend) = (writer?, friend?);
        let mut device = friend.device("observer")?;
        let connecting = async {
            while device.next().await? != Update::Connected {}
            anyhow::Ok(())
        };
        timeout(crate::TIMEOUT, connecting)
            .await
            .context("the friend's device does not connect")??;
        let samples = Arc::<Mutex<Samples>>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(device, stage.measuring, Arc::clone(&samples)));
        tasks.spawn(write(writer, stage.friend, Arc::clone(&samples)));
        tasks.spawn(read(friend, stage.gateway, Arc::clone(&samples)));
        Ok(Self { samples, tasks })
    }

    /// The measurements since the last look.
    ///
    /// # Errors
    /// If measuring failed: a message did not reach the device for too long.
    pub(super) fn take(&self) -> Result<Measured> {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sent = mem::take(&mut samples.sent);
        let mut taken = mem::take(&mut *samples);
        let untold = sent.extract_if(|_, sent| sent.elapsed() > PATIENCE);
        taken
            .refused
            .extend(untold.map(|(text, _)| format!("message {text} is not told to the device")));
        samples.sent = sent;
        drop(samples);
        ensure!(!self.tasks.is_empty(), "nothing measures any more");
        Ok(Measured {
            accepted: Percentiles::of(taken.accepted_ms),
            event: Percentiles::of(taken.event_ms),
            read: Percentiles::of(taken.read_ms),
            refused_posts: taken.refused_posts,
            refused: taken.refused,
        })
    }

    pub(super) async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Measured {
    /// A refused call; only of posts, if `only_posts`.
    pub(super) fn refused(&self, only_posts: bool) -> Option<&String> {
        let others = self.refused.iter().filter(|_| !only_posts);
        self.refused_posts.iter().chain(others).next()
    }

    /// A call that took too long, compared with before.
    pub(super) fn slower(&self, before: &Self, only_posts: bool) -> Option<String> {
        let all = [
            ("accepted", &self.accepted, &before.accepted),
            ("told to a device", &self.event, &before.event),
            ("read", &self.read, &before.read),
        ];
        let judged = if only_posts { 1 } else { all.len() };
        all.into_iter()
            .take(judged)
            .find_map(|(what, during, before)| {
                let most = (FACTOR * before.p99).max(FLOOR_MS);
                // Without a p99 there were too few calls to say that they were in time.
                let is_slow = during.p99.is_nan() || during.p99 > most;
                is_slow.then(|| {
                    format!(
                        "{what}: p99 {:.0} ms, before {:.0} ms",
                        during.p99, before.p99
                    )
                })
            })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, of) in [
            ("accepted", &self.accepted),
            ("on a device", &self.event),
            ("read", &self.read),
        ] {
            write!(f, "{what} p50 {:.1} p99 {:.1} ms; ", of.p50, of.p99)?;
        }
        let refused = self.refused_posts.len() + self.refused.len();
        write!(f, "refused {refused}")
    }
}

fn note(samples: &Mutex<Samples>, change: impl FnOnce(&mut Samples)) {
    change(&mut samples.lock().unwrap_or_else(PoisonError::into_inner));
}

async fn write(writer: Account, friend: i64, samples: Arc<Mutex<Samples>>) -> Result<()> {
    let mut tick = interval(POST_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut posts = JoinSet::new();
    for number in 0_u64.. {
        tick.tick().await;
        let (writer, samples) = (writer.clone(), Arc::clone(&samples));
        posts.spawn(async move {
            let text = format!("{number}");
            let body = json!({ "srcid": writer.uid.to_string(), "destid": friend.to_string(), "msg": text });
            let begun = Instant::now();
            note(&samples, |samples| {
                samples.sent.insert(text, begun);
            });
            let posting = async {
                match number % POSTS_FOR_A_BATCH {
                    0 => writer.post_line("/v1/events", &json!({ "message": body })).await,
                    _ => writer.post("/v1/messages", &body).await,
                }
            };
            let posted = timeout(PATIENCE, posting).await;
            let took = begun.elapsed().as_secs_f64() * 1e3;
            note(&samples, |samples| match posted {
                Ok(Ok((200 | 202, answer))) => {
                    samples.accepted_ms.push(took);
                    if answer.is_object() {
                        samples.newest = Some(format!("{}/{}", answer["partition"], answer["offset"]));
                    }
                }
                other => samples.refused_posts.push(format!("a post: {other:?}")),
            });
        });
        while posts.try_join_next().is_some() {}
    }
    Ok(())
}

/// The calls of a client that is opened: counts, the list, what is new, the outcome of a message, and a probe of the gateway.
async fn read(friend: Account, gateway: u16, samples: Arc<Mutex<Samples>>) -> Result<()> {
    let mut tick = interval(READ_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let uid = friend.uid;
    let mut since = String::new();
    for number in 0_u64.. {
        tick.tick().await;
        let begun = Instant::now();
        let mut newest = None;
        note(&samples, |samples| newest.clone_from(&samples.newest));
        let path = match (number % 5, newest) {
            (0, _) => format!("/v1/users/{uid}/unread?device=pc"),
            (1, _) => format!("/v1/users/{uid}/conversations?limit=20"),
            (2, _) => format!("/v1/users/{uid}/sync{since}"),
            (3, Some(newest)) => format!("/v1/inbound/{newest}"),
            _ => "/livez".to_owned(),
        };
        let called = async {
            match path.as_str() {
                "/livez" => friend.get_at(gateway, &path).await,
                path => friend.get(path).await,
            }
        };
        let called = timeout(PATIENCE, called).await;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        if let Ok(Ok((200, body))) = &called
            && let Some(next) = body["next"].as_str()
        {
            since = format!("?since={next}");
        }
        note(&samples, |samples| match called {
            Ok(Ok((200, _))) => samples.read_ms.push(took),
            other => samples.refused.push(format!("{path}: {other:?}")),
        });
    }
    Ok(())
}

async fn listen(mut device: Device, writer: i64, samples: Arc<Mutex<Samples>>) -> Result<()> {
    let chat = Recipient::User(UserId::try_from(writer)?);
    loop {
        let update = device.next().await;
        let now = Instant::now();
        let update = match update {
            Ok(update) => update,
            Err(error) => {
                note(&samples, |samples| samples.refused.push(error.to_string()));
                return Err(error.into());
            }
        };
        match update {
            Update::Disconnected(why) => {
                note(&samples, |samples| {
                    samples.refused.push(format!("the device: {why}"));
                });
            }
            Update::Chat(of) if of == chat => {
                let newest = device.state().chats().get(&chat);
                let newest = newest
                    .into_iter()
                    .flat_map(|chat| chat.messages.values().rev());
                note(&samples, |samples| {
                    // One update may cover several messages.
                    for text in newest.take(NEWEST).map(|message| &message.msg) {
                        if let Some(sent) = samples.sent.remove(text) {
                            samples.event_ms.push((now - sent).as_secs_f64() * 1e3);
                        }
                    }
                });
            }
            _ => {}
        }
    }
}

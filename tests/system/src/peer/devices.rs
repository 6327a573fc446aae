//! Devices that send, drop and come back, and then stay connected until nothing comes any more.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{CLASSES, Chat, Device, Options, System, Tally};
use crate::TIMEOUT;

/// How long a device listens between two sends, at most.
const LISTENS_MS: u64 = 800;
/// How long it is away, at most.
const AWAY_MS: u64 = 3_000;
/// One in so many times it drops its connection.
const DROPS: u32 = 5;
/// How many others each user writes to, besides the group.
const PEERS: usize = 3;
/// In the calm phase each sends so many, while all stay connected.
const CALM_SENDS: usize = 5;
/// Nothing comes for so long: everything has come.
const QUIET: Duration = Duration::from_secs(3);

/// What devices are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Come and go.
    Chaos,
    /// Stay.
    Calm,
}

pub(crate) struct TestDevices<D> {
    stage: watch::Sender<Stage>,
    running: JoinSet<Result<Rested<D>>>,
}

/// A device that has come to rest.
struct Rested<D> {
    user: usize,
    device: D,
    drops: u64,
}

impl<D: Device> TestDevices<D> {
    pub(crate) fn start<S: System<Device = D>>(system: &S, options: &Options) -> Result<Self> {
        let (stage, told) = watch::channel(Stage::Chaos);
        let mut running = JoinSet::new();
        for user in 0..options.users {
            for (index, class) in CLASSES.into_iter().enumerate() {
                let number = (user * CLASSES.len() + index) as u64;
                let one = TestDevice {
                    user,
                    users: options.users,
                    name: number,
                    sent: 0,
                    rng: StdRng::seed_from_u64(options.seed.wrapping_add(number)),
                    device: system.device(user, class)?,
                    drops: 0,
                };
                running.spawn(one.run(told.clone()));
            }
        }
        Ok(Self { stage, running })
    }

    pub(crate) fn tell(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Waits until all have come to rest, and compares what they have with what was acknowledged to any of them.
    pub(crate) async fn tally(mut self) -> Result<Tally> {
        let (mut tally, mut rested) = (Tally::default(), Vec::new());
        while let Some(one) = self.running.join_next().await {
            let one = one??;
            tally.add(Tally::of_sends(&one.device, one.drops));
            rested.push(one);
        }
        // What came while others came to rest.
        let until = Instant::now() + QUIET;
        try_join_all(rested.iter_mut().map(|one| one.device.listen(until))).await?;
        for one in &rested {
            tally.missed += tally.lacking(one.user, &one.device);
        }
        for one in &mut rested {
            tally.judge(one.user, &mut one.device).await?;
        }
        Ok(tally)
    }
}

struct TestDevice<D> {
    user: usize,
    users: usize,
    name: u64,
    sent: usize,
    rng: StdRng,
    device: D,
    drops: u64,
}

impl<D: Device> TestDevice<D> {
    async fn run(mut self, stage: watch::Receiver<Stage>) -> Result<Rested<D>> {
        while *stage.borrow() == Stage::Chaos {
            self.send_one().await?;
            if self.rng.random_ratio(1, DROPS) {
                self.drops += 1;
                self.device.drop_connection()?;
                let away = self.rng.random_range(0..AWAY_MS);
                sleep(Duration::from_millis(away)).await;
            }
        }
        self.device.open_all().await?;
        for _ in 0..CALM_SENDS {
            self.send_one().await?;
        }
        let deadline = Instant::now() + TIMEOUT;
        while self.device.listen(Instant::now() + QUIET).await? || self.device.unanswered() > 0 {
            let unanswered = self.device.unanswered();
            ensure!(Instant::now() < deadline, "{unanswered} unanswered");
        }
        Ok(Rested {
            user: self.user,
            device: self.device,
            drops: self.drops,
        })
    }

    async fn send_one(&mut self) -> Result<()> {
        let others = PEERS.min(self.users - 1);
        let chat = match self.rng.random_range(0..=others) {
            0 => Chat::Group,
            near => Chat::of(self.user, (self.user + near) % self.users),
        };
        self.sent += 1;
        let text = format!("{}-{}", self.name, self.sent);
        self.device.send(chat, text).await;
        let listens = Duration::from_millis(self.rng.random_range(0..LISTENS_MS));
        let heard = self.device.listen(Instant::now() + listens).await;
        heard.with_context(|| format!("device {} of user {}", self.name, self.user))?;
        Ok(())
    }
}

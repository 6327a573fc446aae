//! Devices that send, drop their connections and come back, and then stay connected until nothing more comes.

mod expected;
mod load_devices;
mod tidemark;

use std::time::Duration;

use anyhow::{Result, ensure};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use schemas::ConversationId;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

pub use self::load_devices::{DeviceCounts, Devices};
pub(crate) use self::tidemark::TidemarkDevice;
use crate::TIMEOUT;

/// How long a device is away, or does not read, at most.
const AWAY_MS: u64 = 3_000;
/// Once in this many times a device drops its connection, and once in as many it does not read.
const DROPS: u32 = 5;
/// How many messages each device sends in the calm phase, in which all stay connected.
const CALM_SENDS: usize = 5;
/// If nothing comes for this long, everything has come.
pub(crate) const QUIET: Duration = Duration::from_secs(3);

/// A device that connects in the same way as the system's own clients.
pub(crate) trait Device: Send + 'static {
    /// Connects if necessary, and takes frames until that time. Returns whether there were any.
    fn listen(&mut self, until: Instant) -> impl Future<Output = Result<bool>> + Send;

    /// Drops the connection; the device keeps its state and its unsent messages.
    fn drop_connection(&mut self) -> Result<()>;

    /// Sends a message, now or at the next connection, until it is answered.
    fn send(
        &mut self,
        chat: ConversationId,
        text: String,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Reports that everything the device has of a chat is read, if the system's devices are compared in that.
    fn read(&mut self, _chat: ConversationId) {}

    /// The number of messages without an answer.
    fn unanswered(&self) -> usize;

    /// Fetches everything that the device knows to be missing, like a user who opens every chat.
    fn open_all(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// The phase of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// They come and go.
    Chaos,
    /// They stay connected.
    Calm,
}

/// Devices at work.
pub(crate) struct TestDevices<D> {
    stage: watch::Sender<Stage>,
    running: JoinSet<Result<Rested<D>>>,
}

/// A device that has come to rest.
pub(crate) struct Rested<D> {
    pub(crate) device: D,
    /// How often the device dropped its connection.
    pub(crate) drops: u64,
}

impl<D: Device> TestDevices<D> {
    /// Each device writes to its chats, and listens at most `listens_ms` between two messages.
    pub(crate) fn start(
        devices: Vec<(D, Vec<ConversationId>)>,
        listens_ms: u64,
        seed: u64,
    ) -> Self {
        let (stage, told) = watch::channel(Stage::Chaos);
        let mut running = JoinSet::new();
        for (number, (device, chats)) in (0..).zip(devices) {
            let one = TestDevice {
                name: number,
                chats,
                sent: 0,
                listens_ms,
                rng: StdRng::seed_from_u64(seed.wrapping_add(number)),
                device,
                drops: 0,
            };
            running.spawn(one.run(told.clone()));
        }
        Self { stage, running }
    }

    /// Waits until all devices have come to rest.
    pub(crate) async fn rest(mut self) -> Result<Vec<Rested<D>>> {
        self.stage.send_replace(Stage::Calm);
        let mut rested = Vec::new();
        while let Some(one) = self.running.join_next().await {
            rested.push(one??);
        }
        Ok(rested)
    }
}

struct TestDevice<D> {
    name: u64,
    chats: Vec<ConversationId>,
    sent: usize,
    listens_ms: u64,
    rng: StdRng,
    device: D,
    drops: u64,
}

impl<D: Device> TestDevice<D> {
    async fn run(mut self, stage: watch::Receiver<Stage>) -> Result<Rested<D>> {
        while *stage.borrow() == Stage::Chaos {
            self.send_one().await?;
            let away = Duration::from_millis(self.rng.random_range(0..AWAY_MS));
            match self.rng.random_range(0..DROPS) {
                0 => {
                    self.drops += 1;
                    self.device.drop_connection()?;
                    sleep(away).await;
                }
                1 => sleep(away).await,
                _ => {}
            }
        }
        // A chat that cannot be opened by then is left to the comparison: the user may not have it.
        let deadline = Instant::now() + TIMEOUT;
        while self.device.open_all().await.is_err() && Instant::now() < deadline {
            self.device.listen(Instant::now() + QUIET).await?;
        }
        for _ in 0..CALM_SENDS {
            self.send_one().await?;
        }
        // A device sends its messages one after the other, which may take longer than this, but not without progress.
        let mut left = usize::MAX;
        let mut deadline = Instant::now() + TIMEOUT;
        while self.device.listen(Instant::now() + QUIET).await? || self.device.unanswered() > 0 {
            let (name, unanswered) = (self.name, self.device.unanswered());
            if unanswered < left {
                left = unanswered;
                deadline = Instant::now() + TIMEOUT;
            }
            ensure!(
                Instant::now() < deadline,
                "device {name}: {unanswered} unanswered"
            );
        }
        Ok(Rested {
            device: self.device,
            drops: self.drops,
        })
    }

    async fn send_one(&mut self) -> Result<()> {
        if let Some(chat) = self.chats.choose(&mut self.rng).copied() {
            self.sent += 1;
            let text = format!("{}-{}", self.name, self.sent);
            self.device.send(chat, text).await?;
            self.device.read(chat);
        }
        let listens = Duration::from_millis(self.rng.random_range(0..self.listens_ms));
        self.device.listen(Instant::now() + listens).await?;
        Ok(())
    }
}

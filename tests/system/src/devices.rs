//! Devices of users that are connected through gateways, and drop, sleep and move while things break. In the end each knows what a device
//! that begins anew learns from the stores, which the audit compares with the log.

use std::{
    collections::VecDeque,
    fmt,
    ops::AddAssign,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use client::device::{Chat, ChatKey, Device, DeviceSettings, DeviceState, Update};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use schemas::{DeviceClass, DeviceId, UserId};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use crate::{Difference, TestEnv, deadline::TIMEOUT};

/// How long a device does nothing but listen, at most.
const LISTENS_MS: u64 = 4_000;
/// How long it is away, or does not read, at most.
const AWAY_MS: u64 = 3_000;
/// Nothing comes for so long: it has everything, perhaps.
const QUIET: Duration = Duration::from_millis(500);

/// How much of a device's history an error has.
const HISTORY: usize = 12;

/// Devices at work.
pub struct Devices {
    stop: watch::Sender<bool>,
    running: JoinSet<Result<DeviceCounts>>,
}

/// What devices did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// How many there were.
    pub devices: u64,
    /// How often a connection was made.
    pub connections: u64,
    /// How often a device had to sync.
    pub syncs: u64,
    /// How often one fetched everything, but for the first time.
    pub full_syncs: u64,
}

impl AddAssign for DeviceCounts {
    fn add_assign(&mut self, other: Self) {
        self.devices += other.devices;
        self.connections += other.connections;
        self.full_syncs += other.full_syncs;
        self.syncs += other.syncs;
    }
}

impl fmt::Display for DeviceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            devices,
            connections,
            syncs,
            full_syncs,
        } = self;
        write!(
            f,
            "{devices} devices with {connections} connections, {syncs} syncs, {full_syncs} full syncs after the first"
        )
    }
}

impl Devices {
    /// Starts so many devices of each user. They connect to all gateways there are.
    ///
    /// # Errors
    /// No gateway runs.
    pub fn start(
        env: &TestEnv,
        users: impl IntoIterator<Item = i64>,
        each: usize,
        seed: u64,
    ) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut running = JoinSet::new();
        let gateways = env.gateway_urls()?;
        for (number, uid) in users.into_iter().enumerate() {
            for device in 0..each {
                let seed = seed.wrapping_add((number * each + device) as u64);
                let mut rng = StdRng::seed_from_u64(seed);
                let mut gateways = gateways.clone();
                let first = rng.random_range(0..gateways.len());
                gateways.rotate_left(first);
                let of = TestDevice {
                    client: env.client.api().clone(),
                    settings: DeviceSettings {
                        gateways,
                        device: DeviceId::try_from(format!("device-{device}"))?,
                        class: DeviceClass::ALL[device % DeviceClass::ALL.len()],
                        name: String::new(),
                        token: None,
                    },
                    uid: uid.try_into()?,
                    rng,
                    counts: DeviceCounts {
                        devices: 1,
                        ..DeviceCounts::default()
                    },
                    history: VecDeque::new(),
                };
                running.spawn(of.run(stopped.clone()));
            }
        }
        Ok(Self { stop, running })
    }

    /// Lets every device come to rest, and compares what it knows.
    ///
    /// # Errors
    /// A difference, or a device that was turned away.
    pub async fn judge(mut self) -> Result<DeviceCounts> {
        self.stop.send_replace(true);
        let mut all = DeviceCounts::default();
        while let Some(ended) = self.running.join_next().await {
            all += ended??;
        }
        // Nothing here raises an epoch, and nobody is away for a month.
        ensure!(all.full_syncs == 0, "a token was lost: {all}");
        Ok(all)
    }
}

struct TestDevice {
    client: client::Client,
    settings: DeviceSettings,
    uid: UserId,
    rng: StdRng,
    counts: DeviceCounts,
    /// The connection's latest beginnings and ends, for a difference.
    history: VecDeque<String>,
}

impl TestDevice {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) -> Result<DeviceCounts> {
        let of = format!("{} of {}", self.settings.device, self.uid);
        let mut device = self.device(DeviceState::new(self.uid))?;
        while !*stopped.borrow_and_update() {
            let listens = Duration::from_millis(self.rng.random_range(0..LISTENS_MS));
            tokio::select! {
                heard = self.listen(&mut device, Instant::now() + listens) => {
                    heard.with_context(|| of.clone())?;
                }
                _ = stopped.changed() => break,
            }
            device = self.misbehave(device).await.with_context(|| of.clone())?;
        }
        self.settle(&mut device).await.with_context(|| of.clone())?;
        self.counts.full_syncs = device.state().full_syncs() - 1;
        Ok(self.counts)
    }

    fn device(&self, state: DeviceState) -> Result<Device> {
        let (client, settings) = (self.client.clone(), self.settings.clone());
        Ok(Device::new(client, settings, state)?)
    }

    /// Takes updates until that time; whether there was one.
    async fn listen(&mut self, device: &mut Device, until: Instant) -> Result<bool> {
        let mut is_new = false;
        while let Ok(update) = timeout_at(until, device.next()).await {
            let update = update?;
            match update {
                Update::Connected => self.counts.connections += 1,
                Update::Synced => self.counts.syncs += 1,
                _ => {}
            }
            if !matches!(update, Update::Chat(_)) {
                self.history
                    .push_back(format!("{:?} {update:?}", SystemTime::now()));
            }
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
            is_new = true;
        }
        Ok(is_new)
    }

    /// The device is dropped and comes back at once, or later; or it does not read for a while.
    async fn misbehave(&mut self, mut device: Device) -> Result<Device> {
        let away = Duration::from_millis(self.rng.random_range(0..AWAY_MS));
        match self.rng.random_range(0..5) {
            0 => device = self.device(device.into_state())?,
            1 => {
                let state = device.into_state();
                self.settings.gateways.rotate_left(1);
                sleep(away).await;
                device = self.device(state)?;
            }
            2 => sleep(away).await,
            _ => {}
        }
        Ok(device)
    }

    /// Waits until nothing more comes and nothing is missing, and compares.
    async fn settle(&mut self, device: &mut Device) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            while self.listen(device, Instant::now() + QUIET).await? {}
            let found = match everything(device).await {
                Ok(()) => self.differences(device.state()).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(found) if found.is_empty() => return Ok(()),
                Ok(mut found) if Instant::now() >= deadline => {
                    found.push(format!("{:?}", self.history));
                    return Err(Difference(found.join("\n")).into());
                }
                Err(error) if Instant::now() >= deadline => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Compared with a device that begins anew.
    async fn differences(&self, found: &DeviceState) -> Result<Vec<String>> {
        let mut state = DeviceState::new(self.uid);
        while state.take_sync(self.client.sync(self.uid, state.token(), None).await?) {}
        let mut fresh = self.device(state)?;
        everything(&mut fresh).await?;
        let (found, expected) = (found.chats(), fresh.state().chats());
        let mut differences = Vec::new();
        for key in found.keys().chain(expected.keys()) {
            let (found, expected) = (found.get(key), expected.get(key));
            if !is_same(found, expected) {
                differences.push(format!("{key:?}: {found:?}, expected {expected:?}"));
            }
        }
        Ok(differences)
    }
}

async fn everything(device: &mut Device) -> Result<()> {
    let keys: Vec<ChatKey> = device.state().chats().keys().copied().collect();
    for key in keys {
        device.fetch(key).await?;
    }
    Ok(())
}

/// But for `chg`, which counts what only the other user sees, too, and is learnt at a sync; and for counts that one of the two does not know, since
/// an ordinal that was not known at first (PROTOCOL R5) is no event: `/unread` has these.
fn is_same(one: Option<&Chat>, other: Option<&Chat>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return one.is_none() && other.is_none();
    };
    let counts = |class| one.unread[class].zip(other.unread[class]);
    (&one.with, &one.last, one.last_mid, one.read_mid)
        == (&other.with, &other.last, other.last_mid, other.read_mid)
        && one.messages == other.messages
        && DeviceClass::ALL
            .into_iter()
            .filter_map(counts)
            .all(|(one, other)| one == other)
}

//! Devices of the users of a load, connected through gateways while faults happen. The devices of each user write to another user whom no other user
//! writes to. In the end each device must have the expected state ([`expected`](super::expected)), and each message that it has sent must exist
//! exactly once.

use std::{fmt, ops::AddAssign, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use schemas::{ConversationId, DeviceClass, DirectConversation, Mid, UserId};
use tokio::time::Instant;

use super::{Device as _, TestDevices, TidemarkDevice, expected::differences};
use crate::{
    Client, Difference, FinishedLoad, Model, Sent, TestEnv, deadline::TIMEOUT, new_users,
    user_group::compare_unordered,
};

/// How long a device listens between two messages, at most.
const LISTENS_MS: u64 = 4_000;
/// If nothing comes for this long, the device may have everything.
const QUIET: Duration = Duration::from_millis(500);

/// Devices at work.
pub struct Devices {
    client: Client,
    running: TestDevices<TidemarkDevice>,
    /// Each user, and the user to whom the first user's devices write.
    pairs: Vec<(UserId, UserId)>,
}

/// The activity of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// How many devices there were.
    pub devices: u64,
    /// How often a connection was made.
    pub connections: u64,
    /// How many messages they sent; each got its number.
    pub sent: u64,
    /// How often they reported a read position.
    pub reads: u64,
    /// How often a device had to sync.
    pub syncs: u64,
    /// How often a device fetched everything, except for the first time.
    pub full_syncs: u64,
}

impl AddAssign for DeviceCounts {
    fn add_assign(&mut self, other: Self) {
        self.devices += other.devices;
        self.connections += other.connections;
        self.sent += other.sent;
        self.reads += other.reads;
        self.syncs += other.syncs;
        self.full_syncs += other.full_syncs;
    }
}

impl fmt::Display for DeviceCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            devices,
            connections,
            sent,
            reads,
            syncs,
            full_syncs,
        } = self;
        write!(
            f,
            "{devices} devices with {connections} connections, {sent} messages, {reads} read-acks, {syncs} syncs, {full_syncs} full syncs after the first"
        )
    }
}

impl Devices {
    /// Starts `each` devices of each user. They connect to all gateways.
    ///
    /// # Errors
    /// If no gateway runs.
    pub fn start(
        env: &TestEnv,
        users: impl IntoIterator<Item = i64>,
        each: usize,
        seed: u64,
    ) -> Result<Self> {
        let (mut devices, mut pairs) = (Vec::new(), Vec::new());
        for uid in users {
            let [stranger] = new_users();
            let (uid, stranger) = (UserId::try_from(uid)?, UserId::try_from(stranger)?);
            pairs.push((uid, stranger));
            for device in 0..each {
                let class = DeviceClass::ALL[device % DeviceClass::ALL.len()];
                let id = (format!("device-{device}"), devices.len());
                let device = TidemarkDevice::new(env, uid, class, id, true)?;
                devices.push((device, vec![between(uid, stranger)]));
            }
        }
        Ok(Self {
            client: env.client.clone(),
            running: TestDevices::start(devices, LISTENS_MS, seed),
            pairs,
        })
    }

    /// Lets every device come to rest, and compares its state, and the messages that it has sent. There must be no other traffic meanwhile.
    ///
    /// # Errors
    /// If there is a difference, or a device was refused.
    pub async fn judge(self, load: &FinishedLoad) -> Result<DeviceCounts> {
        let mut rested = self.running.rest().await?;
        let settled = rested.iter_mut().map(async |one| {
            let model = load.model_of(one.device.state().uid().get());
            settle(&mut one.device, &self.client, model.context("of no load")?).await
        });
        try_join_all(settled).await?;
        let mut all = DeviceCounts::default();
        for one in &rested {
            all += one.device.counts();
        }
        for (uid, stranger) in self.pairs {
            let devices = rested.iter().map(|one| &one.device);
            let devices = devices.filter(|device| device.state().uid() == uid);
            verify_sent(&self.client, (uid, stranger), devices.collect()).await?;
        }
        // No epoch is raised here, and no device is away for a month.
        ensure!(all.full_syncs == 0, "a token was lost: {all}");
        Ok(all)
    }
}

fn between(one: UserId, other: UserId) -> ConversationId {
    DirectConversation::new(one, other).into()
}

/// Waits until nothing more comes and nothing is missing, and compares.
async fn settle(device: &mut TidemarkDevice, client: &Client, model: &Model) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        while device.listen(Instant::now() + QUIET).await? {}
        let opened = device.open_all().await;
        let judged = match differences(device.state(), client, model).await {
            Ok(found) if found.is_empty() => opened,
            Ok(mut found) => {
                found.push(device.history());
                Err(Difference(found.join("\n")).into())
            }
            Err(error) => Err(error),
        };
        if judged.is_ok() || Instant::now() >= deadline {
            return judged;
        }
    }
}

/// Checks that the history has exactly the messages that a user's devices have sent, each once and with the number that the device was told, and that
/// the user's read positions are those that the devices have reported.
async fn verify_sent(
    client: &Client,
    (uid, stranger): (UserId, UserId),
    devices: Vec<&TidemarkDevice>,
) -> Result<()> {
    let of = || format!("what devices of {uid} sent");
    let mut model = Model::default();
    let all = || devices.iter().flat_map(|device| device.answers());
    for (_, id, _) in all() {
        let sent = Sent {
            srcid: uid.get(),
            client_msg_id: id.clone(),
            msg: id.clone(),
        };
        model.sent(stranger.get(), sent);
    }
    let items = client.history(uid.get(), stranger.get(), &[]).await?;
    let expected = model.visible(uid.get(), stranger.get());
    compare_unordered(&items, &expected).with_context(of)?;
    for (_, id, mid) in all() {
        let is_it = |mid: Mid| {
            let item = items.get(mid.get() as usize - 1);
            item.is_some_and(|item| item["client_msg_id"] == *id)
        };
        ensure!(
            mid.is_none_or(is_it),
            Difference(format!("{id} of {uid} was said to be {mid:?}"))
        );
    }
    for device in devices {
        let read = device.chat(between(uid, stranger));
        let read = read.map_or(Mid::ZERO, |chat| chat.read_mid[device.class()]);
        ensure!(
            read >= device.last_read(),
            Difference(format!("{uid} has read {read}, not {}", device.last_read()))
        );
    }
    Ok(())
}

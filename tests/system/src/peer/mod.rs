//! The same devices on Tidemark and on a peer: they send, drop and come back while the server is killed. In the end, the messages of each device are
//! compared with the acknowledged ones.

mod tally;
mod tidemark;
mod wkproto;
mod wukongim;

use std::{collections::BTreeSet, fmt, path::PathBuf, time::Duration};

use anyhow::Result;
use schemas::{ConversationId, DeviceClass, DirectConversation, GroupId, UserId};

use self::tidemark::Tidemark;
pub use self::{
    tally::Tally,
    wukongim::{Receiver, WuKongIm},
};
use crate::devices::{Device, TestDevices};

/// The uid of the first user, and the number of the group.
const FIRST: i64 = 8_000_000;
/// How long a device listens between two sends, at most.
const LISTENS_MS: u64 = 800;
/// How many others each user writes to, besides the group.
const PEERS: usize = 3;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// For how long devices come and go.
    pub length: Duration,
    /// How often the server is killed meanwhile.
    pub kills: u32,
    /// How many users there are; each has two devices, and all are in one group.
    pub users: usize,
    /// The seed for what the devices do.
    pub seed: u64,
    /// The program of WuKongIM v3, and the name of its version; without it only Tidemark runs.
    pub wukongim: Option<(PathBuf, String)>,
    /// Whether Tidemark runs.
    pub tidemark: bool,
}

/// A message, as a device has it: its text is unique.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Had {
    number: i64,
    text: String,
    is_own: bool,
}

/// A server, or a whole cluster of them, with its devices.
trait System: Sized + Sync {
    type Device: PeerDevice;

    /// Starts the system, with a group of all users.
    async fn start(options: &Options) -> Result<Self>;

    /// A device that knows nothing yet.
    fn device(&self, uid: UserId, class: DeviceClass) -> Result<Self::Device>;

    /// Kills every process of the system without warning, starts them again, and waits until they are ready.
    async fn kill(&self) -> Result<()>;
}

/// A device whose messages and counts are compared.
trait PeerDevice: Device {
    fn uid(&self) -> UserId;

    /// The answered messages: finally accepted.
    fn acknowledged(&self) -> BTreeSet<(ConversationId, String)>;

    /// The device's messages of a chat.
    fn messages(&self, chat: ConversationId) -> Vec<Had>;

    /// The unread count of a chat, as the device shows it.
    fn unread(&mut self, chat: ConversationId) -> impl Future<Output = Result<Option<i64>>> + Send;

    /// The unread count of a device's messages, by the system's own rule.
    fn unread_of(chat: ConversationId, all: &[Had]) -> i64;
}

fn users(options: &Options) -> Result<Vec<UserId>> {
    let uids = (FIRST..).take(options.users);
    Ok(uids.map(UserId::try_from).collect::<Result<_, _>>()?)
}

fn group() -> Result<GroupId> {
    Ok(GroupId::try_from(FIRST)?)
}

/// The chats that each user writes to.
fn chats_of(users: &[UserId], user: usize) -> Result<Vec<ConversationId>> {
    let near = (1..=PEERS.min(users.len() - 1)).map(|near| users[(user + near) % users.len()]);
    let direct = near.map(|other| DirectConversation::new(users[user], other).into());
    Ok(direct.chain([group()?.into()]).collect())
}

/// The result of one system.
#[derive(Debug)]
pub struct Outcome {
    /// The name of the system, and its version.
    pub name: String,
    /// The comparison of its devices in the end.
    pub tally: Tally,
}

/// Runs both systems, or Tidemark alone.
///
/// # Errors
/// If a system does not start, or does not come to rest.
pub async fn run(options: &Options) -> Result<Vec<Outcome>> {
    let mut all = Vec::new();
    if options.tidemark {
        all.push(Outcome {
            name: "Tidemark".to_owned(),
            tally: run_one::<Tidemark>(options).await?,
        });
    }
    if let Some((_, version)) = &options.wukongim {
        all.push(Outcome {
            name: format!("WuKongIM {version}"),
            tally: run_one::<WuKongIm>(options).await?,
        });
    }
    Ok(all)
}

async fn run_one<S: System>(options: &Options) -> Result<Tally> {
    let system = S::start(options).await?;
    let users = users(options)?;
    let mut all = Vec::new();
    for (number, uid) in users.iter().enumerate() {
        for class in DeviceClass::ALL {
            all.push((system.device(*uid, class)?, chats_of(&users, number)?));
        }
    }
    let devices = TestDevices::start(all, LISTENS_MS, options.seed);
    let between = options.length / (options.kills + 1);
    for _ in 0..options.kills {
        tokio::time::sleep(between).await;
        system.kill().await?;
    }
    tokio::time::sleep(between).await;
    let mut tally = Tally::of(devices.rest().await?).await?;
    tally.add_fresh(&system, &users).await?;
    Ok(tally)
}

/// A table of all results.
pub struct Table<'a>(pub &'a [Outcome]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|outcome| format!(" {} |", outcome.name));
        writeln!(f, "| |{}", names.collect::<String>())?;
        writeln!(f, "|---|{}", "---:|".repeat(self.0.len()))?;
        for (what, value) in Tally::ROWS {
            let values = self.0.iter().map(|one| format!(" {} |", value(&one.tally)));
            writeln!(f, "| {what} |{}", values.collect::<String>())?;
        }
        Ok(())
    }
}

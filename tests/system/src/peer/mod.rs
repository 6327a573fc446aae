//! The same devices on Tidemark and on a peer: they send, drop and come back while the server is killed, and what each has in the end is compared with
//! what was acknowledged.

mod devices;
mod tally;
mod tidemark;
mod wkproto;
mod wukongim;

use std::{fmt, path::PathBuf, time::Duration};

use anyhow::Result;
use schemas::DeviceClass;
use tokio::time::Instant;

use self::devices::{Stage, TestDevices};
pub use self::tally::Tally;
use self::{tidemark::Tidemark, wukongim::WuKongIm};

/// The classes of a user's devices, of which each user has one.
const CLASSES: [DeviceClass; 2] = [DeviceClass::Mobile, DeviceClass::Pc];

/// How long, how many, and which peer.
#[derive(Clone, Debug)]
pub struct Options {
    /// For how long devices come and go.
    pub length: Duration,
    /// How often the server is killed meanwhile.
    pub kills: u32,
    /// How many users there are; each has two devices, and all are in one group.
    pub users: usize,
    /// What devices do follows from it.
    pub seed: u64,
    /// The program of WuKongIM v3, and what its version is called; Tidemark alone runs without it.
    pub wukongim: Option<(PathBuf, String)>,
    /// Whether Tidemark runs.
    pub tidemark: bool,
}

/// Whom a user writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Chat {
    /// Two users, the lower number first.
    Users(usize, usize),
    /// The group of all.
    Group,
}

impl Chat {
    pub(crate) fn of(one: usize, other: usize) -> Self {
        Self::Users(one.min(other), one.max(other))
    }

    /// The other user, where there is one.
    pub(crate) fn peer_of(self, user: usize) -> Option<usize> {
        match self {
            Self::Users(one, other) => Some(if one == user { other } else { one }),
            Self::Group => None,
        }
    }

    pub(crate) fn has(self, user: usize) -> bool {
        match self {
            Self::Users(one, other) => one == user || other == user,
            Self::Group => true,
        }
    }
}

/// A message, as a device has it: its text is different from that of all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Had {
    pub(crate) number: i64,
    pub(crate) text: String,
    pub(crate) is_own: bool,
}

/// A server, or a whole cluster of them, with its devices.
pub(crate) trait System: Sized + Sync {
    type Device: Device;

    /// Starts it, with a group of all users.
    async fn start(options: &Options) -> Result<Self>;

    /// A device that knows nothing yet.
    fn device(&self, user: usize, class: DeviceClass) -> Result<Self::Device>;

    /// Kills every process of it without a warning, starts them again, and waits until they are ready.
    async fn kill(&self) -> Result<()>;
}

/// A device, which does what the system's own clients do when they connect.
pub(crate) trait Device: Send + 'static {
    /// Connects if need be, and takes what comes until that time. Whether there was something.
    fn listen(&mut self, until: Instant) -> impl Future<Output = Result<bool>> + Send;

    /// Loses the connection; what the device knows stays.
    fn drop_connection(&mut self) -> Result<()>;

    /// Sends a message, now or at the next connection, until it is answered.
    fn send(&mut self, chat: Chat, text: String) -> impl Future<Output = ()> + Send;

    /// Sends that have no answer.
    fn unanswered(&self) -> usize;

    /// What was answered: accepted for good.
    fn acknowledged(&self) -> &[(Chat, String)];

    /// Fetches what the device knows to be missing, as a user who opens every chat.
    fn open_all(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// What it has of a chat.
    fn messages(&self, chat: Chat) -> Vec<Had>;

    /// What is unread of a chat, as the device shows it.
    fn unread(&mut self, chat: Chat) -> impl Future<Output = Result<Option<i64>>> + Send;

    /// What is unread, by the system's own rule, of what a device has.
    fn unread_of(chat: Chat, all: &[Had]) -> i64;
}

/// What became of one system.
#[derive(Debug)]
pub struct Outcome {
    /// Which one, and its version.
    pub name: String,
    /// What devices have in the end.
    pub tally: Tally,
}

/// Runs both, or Tidemark alone.
///
/// # Errors
/// One does not start, or does not come to rest.
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
    let devices = TestDevices::start(&system, options)?;
    let between = options.length / (options.kills + 1);
    for _ in 0..options.kills {
        tokio::time::sleep(between).await;
        system.kill().await?;
    }
    tokio::time::sleep(between).await;
    devices.tell(Stage::Calm);
    let mut tally = devices.tally().await?;
    tally.add_fresh(&system, options.users).await?;
    Ok(tally)
}

/// A table of all of them.
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

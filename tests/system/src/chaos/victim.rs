//! The cluster under a fault, and the code that faults share.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use rustix::process::Signal;
use tokio::time::sleep;

use super::disks::Disks;
use crate::{Load, TestEnv};

/// How many posts are accepted while something is down.
const MEANWHILE: u64 = 50;
/// Longer than the sessions of consumer groups (10 s) and of brokers (9 s): others take over.
const ASLEEP: Duration = Duration::from_secs(12);

/// A cluster at work.
pub(super) struct Victim<'a> {
    pub(super) env: &'a TestEnv,
    pub(super) load: &'a mut Load,
    pub(super) rng: &'a mut StdRng,
    pub(super) condition: &'a mut Condition,
}

/// The state that lasts from one fault to the next.
#[derive(Default)]
pub(super) struct Condition {
    /// Which Redis is the primary, from 0, unless Redis is a cluster.
    pub(super) redis: u16,
    /// Whether Redis is a cluster.
    pub(super) redis_cluster: bool,
    /// Small file systems, if they can be mounted.
    pub(super) disks: Option<Disks>,
    /// The program of the previous version, while it is in use.
    pub(super) before: Option<PathBuf>,
}

impl Victim<'_> {
    /// The name of one of the two instances of a service.
    pub(super) fn either(&mut self, kind: &str) -> String {
        match self.rng.random() {
            true => kind.to_owned(),
            false => format!("{kind}-2"),
        }
    }

    pub(super) fn one_of<'n>(&mut self, names: &[&'n str]) -> &'n str {
        names.choose(self.rng).copied().unwrap_or_default()
    }

    /// Waits until some posts are accepted.
    pub(super) async fn meanwhile(&mut self) -> Result<()> {
        self.load.grows_by(MEANWHILE).await
    }

    pub(super) async fn kill(&self, name: &str) -> Result<()> {
        self.env.end(name, Signal::KILL).await
    }

    /// Sends SIGSTOP, waits until the process's sessions have expired, and sends SIGCONT.
    pub(super) async fn pause(&mut self, name: &str) -> Result<()> {
        self.env.signal(name, Signal::STOP)?;
        let going_on = self.given_up().await;
        self.env.signal(name, Signal::CONT)?;
        going_on
    }

    /// Waits until sessions have ended; posts must be accepted then.
    pub(super) async fn given_up(&mut self) -> Result<()> {
        sleep(ASLEEP).await;
        self.meanwhile().await
    }
}

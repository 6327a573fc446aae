//! File systems that are full: small ones in memory, below the data of one broker and one MariaDB.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tokio::task::spawn_blocking;

use super::victim::Victim;
use crate::TestEnv;

const BROKER: &str = "kafka-3";
const MARIADB: &str = "mariadb-2";
const SIZE: &str = "size=2g";
const FILLER: &str = "filler";
static CHUNK: [u8; 1 << 16] = [0; 1 << 16];

/// Small file systems that are mounted.
pub(super) struct Disks {
    kafka: PathBuf,
    mariadb: PathBuf,
}

impl Disks {
    /// Moves the data of a broker and of a MariaDB to file systems of their own.
    pub(super) async fn mount(env: &TestEnv) -> Result<Self> {
        let mut dirs = Vec::new();
        for server in [BROKER, MARIADB] {
            env.end(server, Signal::TERM).await?;
            let dir = env.data_dir(server);
            let moving = dir.clone();
            spawn_blocking(move || move_to_memory(&moving)).await??;
            dirs.push(dir);
        }
        env.start_servers().await?;
        let mut dirs = dirs.into_iter();
        let mut next = || dirs.next().context("two file systems");
        Ok(Self {
            kafka: next()?,
            mariadb: next()?,
        })
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for dir in [&self.kafka, &self.mariadb] {
            // Servers are still running there: a lazy unmount happens when the last of them ends.
            let unmounted = Command::new("umount").arg("--lazy").arg(dir).status();
            if !unmounted.is_ok_and(|status| status.success()) {
                eprintln!("{} is still mounted", dir.display());
            }
        }
    }
}

/// Whether this process may mount: whether it is root, possibly in a mount namespace of its own.
pub(super) fn can_mount() -> bool {
    let Ok(dir) = tempfile::tempdir() else {
        return false;
    };
    let mounted = mount(dir.path()).is_ok();
    mounted && unmount(dir.path())
}

fn mount(dir: &Path) -> Result<()> {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", SIZE, "tidemark-chaos"]);
    let mounted = command.arg(dir).stderr(Stdio::null()).status();
    ensure!(mounted?.success(), "cannot mount at {}", dir.display());
    Ok(())
}

fn unmount(dir: &Path) -> bool {
    let unmounted = Command::new("umount").arg(dir).status();
    unmounted.is_ok_and(|status| status.success())
}

fn move_to_memory(dir: &Path) -> Result<()> {
    let before = dir.with_extension("before");
    fs::rename(dir, &before)?;
    fs::create_dir(dir)?;
    mount(dir)?;
    let copied = Command::new("cp")
        .arg("-a")
        .arg(before.join("."))
        .arg(dir)
        .status();
    ensure!(copied?.success(), "cannot copy {}", before.display());
    Ok(fs::remove_dir_all(before)?)
}

/// A broker without space ends by itself.
pub(super) async fn fill_kafka(victim: &mut Victim<'_>) -> Result<u64> {
    let disks = victim.condition.disks.as_ref().context("no file systems")?;
    let filler = disks.kafka.join(FILLER);
    fill(&filler).await?;
    let going_on = victim.given_up().await;
    fs::remove_file(&filler)?;
    going_on?;
    if victim.env.pid(BROKER).is_some() {
        // The broker does not notice that there is space again.
        victim.env.end(BROKER, Signal::TERM).await?;
    }
    victim.env.start_servers().await?;
    Ok(1)
}

pub(super) async fn fill_mariadb(victim: &mut Victim<'_>) -> Result<u64> {
    let disks = victim.condition.disks.as_ref().context("no file systems")?;
    let filler = disks.mariadb.join(FILLER);
    fill(&filler).await?;
    let going_on = victim.given_up().await;
    fs::remove_file(&filler)?;
    going_on?;
    victim.env.start_servers().await?;
    Ok(1)
}

/// Writes a file until not one more byte fits.
async fn fill(path: &Path) -> Result<()> {
    let path = path.to_owned();
    spawn_blocking(move || {
        let mut file: File = OpenOptions::new()
            .create_new(true)
            .write(true)
            .open(&path)?;
        while file.write(&CHUNK).is_ok_and(|written| written > 0) {}
        Ok(())
    })
    .await?
}

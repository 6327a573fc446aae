//! Stops processes by their recorded and verified pids.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::StackError;
use crate::orphan;
use crate::pid_file::{self, PidFile};
use crate::process::Identity;
use crate::run_dir::RunDir;

const POLL: Duration = Duration::from_millis(20);
/// How long the kernel may take to end a process after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// How to stop processes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Force {
    /// SIGTERM, then SIGKILL for those that are left at the deadline.
    TermThenKill(Duration),
    /// SIGKILL at once.
    Kill,
}

/// Stops all of these at the same time, including those whose pid file is lost. Returns the names of those that were running.
pub(crate) fn stop(
    run_dir: &RunDir,
    names: &[String],
    force: Force,
) -> Result<Vec<String>, StackError> {
    let mut running: Vec<(String, Identity)> = names
        .iter()
        .filter_map(|name| match pid_file::read(run_dir, name) {
            PidFile::Running(identity) => Some((name.clone(), identity)),
            PidFile::Missing | PidFile::Stale => None,
        })
        .collect();
    let mut lost = orphan::find(run_dir);
    lost.retain(|(name, _)| names.contains(name));
    running.extend(lost);
    if let Force::TermThenKill(timeout) = force {
        signal_all(&running, Signal::TERM);
        wait_until_gone(&running, timeout);
    }
    signal_all(&running, Signal::KILL);
    wait_until_gone(&running, KILL_TIMEOUT);
    if let Some((name, identity)) = running.iter().find(|(_, identity)| identity.is_alive()) {
        return Err(StackError::WouldNotDie {
            name: name.clone(),
            pid: identity.pid,
        });
    }
    names
        .iter()
        .try_for_each(|name| pid_file::remove(run_dir, name))?;
    let was_running = |name: &&String| running.iter().any(|(one, _)| one == *name);
    Ok(names.iter().filter(was_running).cloned().collect())
}

fn signal_all(running: &[(String, Identity)], signal: Signal) {
    for (_, identity) in running {
        identity.signal(signal);
    }
}

fn wait_until_gone(running: &[(String, Identity)], timeout: Duration) {
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline && running.iter().any(|(_, identity)| identity.is_alive()) {
        thread::sleep(POLL);
    }
}

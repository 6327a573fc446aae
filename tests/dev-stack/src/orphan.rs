//! Finds processes of this stack whose pid file is lost. Their stdout, which is the log file of the stack, identifies them.

use std::fs;

use rustix::process::{Pid, getsid};

use crate::StackError;
use crate::listener::pids;
use crate::pid_file::{self, PidFile};
use crate::process::Identity;
use crate::run_dir::RunDir;

/// The processes that run, by name.
pub(crate) fn find(run_dir: &RunDir) -> Vec<(String, Identity)> {
    let Some(logs) = run_dir.logs_as_the_kernel_names_them() else {
        return Vec::new();
    };
    pids()
        .filter_map(|pid| {
            let output = fs::read_link(format!("/proc/{pid}/fd/1")).ok()?;
            let file = output.strip_prefix(&logs).ok()?.to_str()?;
            // The kernel adds this for a removed file.
            let file = file.strip_suffix(" (deleted)").unwrap_or(file);
            let name = file.strip_suffix(".log")?.to_owned();
            // Checked last: a kernel thread, which has no output, is in no session either.
            if !leads_session(pid) {
                return None;
            }
            let identity = Identity::of(pid)?;
            let known = pid_file::read(run_dir, &name) == PidFile::Running(identity.clone());
            (!known && identity.is_alive()).then_some((name, identity))
        })
        .collect()
}

/// Restores the pid file of each, unless another process of that name runs.
pub(crate) fn adopt(run_dir: &RunDir) -> Result<(), StackError> {
    for (name, identity) in find(run_dir) {
        if !matches!(pid_file::read(run_dir, &name), PidFile::Running(_)) {
            pid_file::write(run_dir, &name, &identity)?;
        }
    }
    Ok(())
}

/// Each process of a stack is started in a session of its own, and stops the processes that it starts.
fn leads_session(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some() && getsid(pid).ok() == pid
}

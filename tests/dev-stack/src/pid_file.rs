//! Pid files: written after a start, and trusted only if the process is the one that was started.

use std::fs;
use std::path::Path;

use crate::StackError;
use crate::process::Identity;
use crate::run_dir::{RunDir, write_with_parents};

/// What a pid file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PidFile {
    /// There is no pid file.
    Missing,
    /// The process of the pid file has ended, its pid belongs to another one by now, or nothing proves that it is ours.
    Stale,
    /// The process that we started runs.
    Running(Identity),
}

/// Reads and verifies the pid file of a process.
pub(crate) fn read(run_dir: &RunDir, name: &str) -> PidFile {
    let Ok(pid) = fs::read_to_string(run_dir.pid_file(name)) else {
        return PidFile::Missing;
    };
    let identity = fs::read_to_string(run_dir.identity_file(name))
        .ok()
        .and_then(|line| Identity::from_line(&line));
    match identity {
        Some(identity) if pid.trim() == identity.pid.to_string() && identity.is_alive() => {
            PidFile::Running(identity)
        }
        _ => PidFile::Stale,
    }
}

/// Records a process that was just started. The pid file itself holds the bare pid, for `kill $(cat …)`.
pub(crate) fn write(run_dir: &RunDir, name: &str, identity: &Identity) -> Result<(), StackError> {
    write_with_parents(&run_dir.identity_file(name), &identity.to_line())?;
    let path = run_dir.pid_file(name);
    let partial = path.with_extension("pid.partial");
    write_with_parents(&partial, &format!("{}\n", identity.pid))?;
    fs::rename(&partial, &path).map_err(StackError::io(format!("write {}", path.display())))
}

/// Removes the pid file of a process that has ended.
pub(crate) fn remove(run_dir: &RunDir, name: &str) -> Result<(), StackError> {
    remove_if_there(&run_dir.pid_file(name))?;
    remove_if_there(&run_dir.identity_file(name))
}

fn remove_if_there(path: &Path) -> Result<(), StackError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StackError::io(format!("remove {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_without_a_start_time_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(dir.path()).unwrap();
        assert_eq!(read(&run_dir, "redis"), PidFile::Missing);
        fs::write(run_dir.pid_file("redis"), std::process::id().to_string()).unwrap();
        assert_eq!(read(&run_dir, "redis"), PidFile::Stale);
    }

    #[test]
    fn what_was_written_is_read_back_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(dir.path()).unwrap();
        let own = Identity::of(std::process::id()).unwrap();
        write(&run_dir, "redis", &own).unwrap();
        assert_eq!(read(&run_dir, "redis"), PidFile::Running(own));
        remove(&run_dir, "redis").unwrap();
        assert_eq!(read(&run_dir, "redis"), PidFile::Missing);
    }
}

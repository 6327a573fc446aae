//! The layout of a run directory, and the lock that keeps two commands from working on it at once.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::StackError;

const LOCK_TIMEOUT: Duration = Duration::from_secs(120);
const LOCK_POLL: Duration = Duration::from_millis(50);
const NEEDED_MIB: u64 = 256;

/// A run directory; all paths below it are absolute.
#[derive(Debug, Clone)]
pub(crate) struct RunDir {
    root: PathBuf,
}

/// Held while a command starts or stops processes of the stack.
#[derive(Debug)]
pub(crate) struct RunLock {
    _file: File,
}

impl RunDir {
    pub(crate) fn new(root: &Path) -> Result<Self, StackError> {
        let root = std::path::absolute(root)
            .map_err(StackError::io(format!("run directory {}", root.display())))?;
        Ok(Self { root })
    }

    pub(crate) fn pid_file(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.pid"))
    }

    /// The names of all processes that have a pid file, in no order.
    pub(crate) fn noted(&self) -> Result<Vec<String>, StackError> {
        let read = || -> std::io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.root)? {
                let file = entry?.file_name();
                names.extend(
                    file.to_str()
                        .and_then(|file| file.strip_suffix(".pid"))
                        .map(str::to_owned),
                );
            }
            Ok(names)
        };
        match read() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(StackError::io(format!("list {}", self.root.display()))),
        }
    }

    pub(crate) fn identity_file(&self, name: &str) -> PathBuf {
        self.root.join("identity").join(name)
    }

    pub(crate) fn clock_file(&self, name: &str) -> PathBuf {
        self.root.join("clock").join(name)
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.root.join("data").join(name)
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.root.join("log").join(format!("{name}.log"))
    }

    /// The directory of the logs without symbolic links in its path; nothing while there is no run directory.
    pub(crate) fn logs_as_the_kernel_names_them(&self) -> Option<PathBuf> {
        Some(fs::canonicalize(&self.root).ok()?.join("log"))
    }

    pub(crate) fn config_file(&self, file_name: &str) -> PathBuf {
        self.root.join("config").join(file_name)
    }

    /// Writes a generated configuration file and gives its path.
    pub(crate) fn write_config(&self, file_name: &str, text: &str) -> Result<PathBuf, StackError> {
        let path = self.config_file(file_name);
        write_with_parents(&path, text)?;
        Ok(path)
    }

    /// Waits for other commands on this run directory to end.
    pub(crate) fn lock(&self) -> Result<RunLock, StackError> {
        let path = self.root.join("lock");
        let what = || format!("lock {}", path.display());
        fs::create_dir_all(&self.root).map_err(StackError::io(what()))?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(StackError::io(what()))?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(RunLock { _file: file }),
                Err(TryLockError::Error(error)) => return Err(StackError::io(what())(error)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    thread::sleep(LOCK_POLL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StackError::Busy {
                        run_dir: self.root.clone(),
                    });
                }
            }
        }
    }

    /// Refuses to start servers on a disk that is nearly full.
    pub(crate) fn check_free_space(&self) -> Result<(), StackError> {
        let what = || format!("free space of {}", self.root.display());
        fs::create_dir_all(&self.root).map_err(StackError::io(what()))?;
        let stat = rustix::fs::statvfs(&self.root)
            .map_err(|errno| StackError::io(what())(errno.into()))?;
        let free_mib = stat.f_bavail.saturating_mul(stat.f_frsize) >> 20;
        if free_mib < NEEDED_MIB {
            return Err(StackError::DiskFull {
                path: self.root.clone(),
                free_mib,
                needed_mib: NEEDED_MIB,
            });
        }
        Ok(())
    }

    /// Removes what the stack wrote, and the directory itself if nothing else is in it.
    pub(crate) fn remove_contents(&self) -> Result<(), StackError> {
        for part in ["data", "log", "config", "identity", "clock"] {
            remove_dir(&self.root.join(part))?;
        }
        let lock = self.root.join("lock");
        fs::remove_file(&lock).map_err(StackError::io(format!("remove {}", lock.display())))?;
        // It is not empty when somebody keeps files of their own there, and then it stays.
        let _ = fs::remove_dir(&self.root);
        Ok(())
    }
}

fn remove_dir(path: &Path) -> Result<(), StackError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StackError::io(format!("remove {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

/// Writes a file and the directories above it.
pub(crate) fn write_with_parents(path: &Path, text: &str) -> Result<(), StackError> {
    let write = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)
    };
    write().map_err(StackError::io(format!("write {}", path.display())))
}

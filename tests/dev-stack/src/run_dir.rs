//! The layout of a run directory, and the lock that keeps two commands from working on it at once.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::StackError;

const LOCK_TIMEOUT: Duration = Duration::from_secs(120);
const LOCK_POLL: Duration = Duration::from_millis(50);
const NEEDED_MIB: u64 = 256;

/// The content of a run directory's lock file: files with the stack's names in that directory are ours to remove.
const MARKER: &str = "run directory of a tidemark stack\n";
const LOCK: &str = "lock";
const PARTS: [&str; 5] = ["identity", "data", "log", "config", "clock"];
/// The name, in a run directory, of the file with the configuration of the stack's services. The program writes and removes it.
pub const CONFIG_FILE: &str = "tidemark.toml";
/// The name, in a run directory, of the file with the result of the last audit; written and removed like [`CONFIG_FILE`].
pub const LAST_AUDIT_FILE: &str = "last-audit.json";

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

/// The first character that the configuration files of the servers cannot express: Kafka's is a list, and the others' are in quotes.
fn unsayable(path: &Path) -> Option<&'static str> {
    let Some(text) = path.to_str() else {
        return Some("bytes that are not UTF-8");
    };
    text.chars().find_map(|c| match c {
        ',' => Some("a comma"),
        '"' => Some("a quotation mark"),
        '\\' => Some("a backslash"),
        c if c.is_control() => Some("a control character"),
        _ => None,
    })
}

impl RunDir {
    pub(crate) fn new(root: &Path) -> Result<Self, StackError> {
        let root = std::path::absolute(root)
            .map_err(StackError::io(format!("run directory {}", root.display())))?;
        match unsayable(&root) {
            None => Ok(Self { root }),
            Some(what) => Err(StackError::RunDirName {
                run_dir: root,
                what,
            }),
        }
    }

    pub(crate) fn pid_file(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.pid"))
    }

    /// The names of all processes that have a pid file, in no order.
    pub(crate) fn recorded_names(&self) -> Result<Vec<String>, StackError> {
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

    /// The directory of the logs without symbolic links in its path; `None` while there is no run directory.
    pub(crate) fn logs_as_the_kernel_names_them(&self) -> Option<PathBuf> {
        Some(fs::canonicalize(&self.root).ok()?.join("log"))
    }

    pub(crate) fn config_file(&self, file_name: &str) -> PathBuf {
        self.root.join("config").join(file_name)
    }

    /// Writes a generated configuration file and returns its path.
    pub(crate) fn write_config(&self, file_name: &str, text: &str) -> Result<PathBuf, StackError> {
        let path = self.config_file(file_name);
        write_with_parents(&path, text)?;
        Ok(path)
    }

    /// Waits for other commands on this run directory to end.
    ///
    /// # Errors
    /// If they do not end in time, or the directory has files that no stack put there.
    pub(crate) fn lock(&self) -> Result<RunLock, StackError> {
        self.refuse_others()?;
        let path = self.root.join(LOCK);
        let what = || format!("lock {} (stack.run_dir)", path.display());
        fs::create_dir_all(&self.root).map_err(StackError::io(what()))?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(StackError::io(what()))?;
        self.wait_for(&file)?;
        if self.marker() != MARKER {
            file.write_all(MARKER.as_bytes())
                .and_then(|()| file.set_len(MARKER.len() as u64))
                .map_err(StackError::io(what()))?;
        }
        Ok(RunLock { _file: file })
    }

    fn wait_for(&self, lock: &File) -> Result<(), StackError> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => {
                    return Err(StackError::io(format!("lock {}", self.root.display()))(
                        error,
                    ));
                }
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

    /// The content of the lock file, which shows whether the directory belongs to a stack; empty if there is none.
    fn marker(&self) -> String {
        fs::read_to_string(self.root.join(LOCK)).unwrap_or_default()
    }

    /// Refuses a directory with other files under the names that a stack uses: the stack would remove them.
    fn refuse_others(&self) -> Result<(), StackError> {
        // A directory from before there was a marker has the pids' identities.
        if self.marker() == MARKER || self.root.join("identity").is_dir() {
            return Ok(());
        }
        let parts = PARTS.iter().chain(&[CONFIG_FILE, LAST_AUDIT_FILE]);
        let parts = parts.map(|part| self.root.join(part));
        let recorded = self.recorded_names()?;
        let pid_files = recorded.iter().map(|name| self.pid_file(name));
        match parts.chain(pid_files).find(|path| path.exists()) {
            Some(found) => Err(StackError::RunDirOfOthers {
                run_dir: self.root.clone(),
                found,
            }),
            None => Ok(()),
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
        for part in PARTS {
            remove_dir(&self.root.join(part))?;
        }
        let lock = self.root.join(LOCK);
        fs::remove_file(&lock).map_err(StackError::io(format!("remove {}", lock.display())))?;
        // The directory is not empty if it has files of other origin; then it stays.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_holds_anybodys_data_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("data")).unwrap();
        fs::write(root.join("nginx.pid"), "1").unwrap();
        let refused = RunDir::new(root).unwrap().lock().unwrap_err();
        assert!(matches!(refused, StackError::RunDirOfOthers { .. }));
        assert!(!root.join(LOCK).exists());
        fs::remove_dir(root.join("data")).unwrap();
        RunDir::new(root).unwrap().lock().unwrap_err();
        assert!(root.join("nginx.pid").exists());
        fs::remove_file(root.join("nginx.pid")).unwrap();
        fs::write(root.join("tidemark.toml"), "[kafka]").unwrap();
        RunDir::new(root).unwrap().lock().unwrap_err();
    }

    #[test]
    fn a_directory_of_a_stack_may_have_other_files_too() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("keys.toml"), "").unwrap();
        let run_dir = RunDir::new(root).unwrap();
        drop(run_dir.lock().unwrap());
        fs::create_dir(root.join("data")).unwrap();
        drop(run_dir.lock().unwrap());
        run_dir.remove_contents().unwrap();
        assert!(root.join("keys.toml").exists() && !root.join("data").exists());
    }

    #[test]
    fn a_path_that_a_configuration_file_cannot_say_is_refused() {
        for (path, what) in [
            ("/tmp/a,b", "a comma"),
            ("/tmp/\"a\"", "a quotation mark"),
            ("/tmp/a\\b", "a backslash"),
            ("/tmp/a\nb", "a control character"),
        ] {
            let refused = RunDir::new(Path::new(path)).unwrap_err().to_string();
            assert!(refused.contains(what), "{refused}");
        }
        RunDir::new(Path::new("/tmp/d\u{e9}p\u{f4}t \u{1f30a}")).unwrap();
    }
}

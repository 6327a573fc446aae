//! Cleans up after this process, however it ends.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::StackError;

/// Servers that are being killed at that moment may still write a file, so the script tries for some seconds.
const REMOVE_DIR: &str = r#"
tries=0
until rm -rf -- "$1" 2>/dev/null || [ "$tries" -ge 50 ]; do
    tries=$((tries + 1))
    sleep 0.2
done
"#;

/// A shell script that runs when the value is dropped, and also when this process is killed.
#[derive(Debug)]
pub(crate) struct CleanUp {
    shell: Child,
}

impl CleanUp {
    /// The script finds the argument as `$1`.
    pub(crate) fn arrange(script: &str, argument: impl AsRef<OsStr>) -> Result<Self, StackError> {
        // The script waits for the end of its input, which comes when this process ends.
        let waiting = format!("cat >/dev/null\n{script}");
        let shell = Command::new("sh")
            .args(["-c", &waiting, "clean-up"])
            .arg(argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Outside our process group, so that a Ctrl-C in the terminal does not reach it.
            .process_group(0)
            .spawn()
            .map_err(StackError::io("start sh"))?;
        Ok(Self { shell })
    }
}

impl Drop for CleanUp {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Files that cannot be removed are left.
        let _ = self.shell.wait();
    }
}

/// A temporary directory, removed when the value is dropped and also when this process is killed.
#[derive(Debug)]
pub(crate) struct DisposableDir {
    path: PathBuf,
    _clean_up: CleanUp,
}

impl DisposableDir {
    pub(crate) fn new() -> Result<Self, StackError> {
        // With a space, so that every test shows that a path may have a space: MariaDB's own scripts break on one.
        let dir = tempfile::Builder::new()
            .prefix("tidemark servers ")
            .tempdir()
            .map_err(StackError::io("make a temporary directory"))?;
        let clean_up = CleanUp::arrange(REMOVE_DIR, dir.path())?;
        Ok(Self {
            path: dir.keep(),
            _clean_up: clean_up,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_gone_after_the_drop() {
        let dir = DisposableDir::new().unwrap();
        let path = dir.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(dir);
        assert!(!path.exists());
    }
}

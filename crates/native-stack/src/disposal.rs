//! A temporary directory that goes away with this process, however the process ends.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::StackError;

/// Waits for the end of its input, which is our end, and removes the directory. Servers that are being killed at that
/// moment may still write a file, so it tries for some seconds.
const SCRIPT: &str = r#"
cat >/dev/null
tries=0
until rm -rf -- "$1" 2>/dev/null || [ "$tries" -ge 50 ]; do
    tries=$((tries + 1))
    sleep 0.2
done
"#;

/// A temporary directory, removed when the value is dropped and also when this process is killed.
#[derive(Debug)]
pub(crate) struct DisposableDir {
    path: PathBuf,
    remover: Child,
}

impl DisposableDir {
    pub(crate) fn new() -> Result<Self, StackError> {
        // With a space, so that every test shows that a path may have one: MariaDB's own scripts break on it.
        let dir = tempfile::Builder::new()
            .prefix("tidemark servers ")
            .tempdir()
            .map_err(StackError::io("make a temporary directory"))?;
        let remover = Command::new("sh")
            .args(["-c", SCRIPT, "remove-when-done"])
            .arg(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Outside our process group, so that a Ctrl-C in the terminal does not reach it.
            .process_group(0)
            .spawn()
            .map_err(StackError::io("start sh"))?;
        Ok(Self {
            path: dir.keep(),
            remover,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DisposableDir {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        // Nothing more can be done about a directory that does not go.
        let _ = self.remover.wait();
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

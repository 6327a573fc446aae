//! The log of a process: opened for appending, and its end read back when a start fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const TAIL_LINES: usize = 15;
const TAIL_BYTES: u64 = 64 * 1024;

/// A log file, and its end before this start.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    start: u64,
}

impl LogFile {
    /// Opens (or creates) the log for appending and remembers its present end.
    pub(crate) fn append(path: &Path) -> io::Result<(Self, File)> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let start = file.metadata()?.len();
        let log = Self {
            path: path.to_owned(),
            start,
        };
        Ok((log, file))
    }

    /// A log of a process that was started earlier: everything in it counts.
    pub(crate) fn existing(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            start: 0,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The last lines written since this start; an unreadable file counts as empty.
    pub(crate) fn tail(&self) -> String {
        self.read_end()
            .map_or_else(|_| String::new(), |bytes| last_lines(&bytes))
    }

    fn read_end(&self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        let end = file.metadata()?.len();
        let from = self.start.max(end.saturating_sub(TAIL_BYTES));
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The last lines of some output, indented for an error message.
pub(crate) fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    shown.iter().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_tail_holds_only_what_this_start_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log/x.log");
        let (_, mut file) = LogFile::append(&path).unwrap();
        writeln!(file, "from an earlier start").unwrap();
        let (log, mut file) = LogFile::append(&path).unwrap();
        for n in 0..40 {
            writeln!(file, "line {n}").unwrap();
        }
        let tail = log.tail();
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.ends_with("  line 39\n"));
        assert!(!tail.contains("earlier"));
    }
}

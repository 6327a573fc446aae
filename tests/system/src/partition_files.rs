//! The files of a partition on a broker that is down, for tests in which a disk lost a part of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// Says to which topic and partition a directory belongs, whatever happens to the records.
const IDENTITY: &str = "partition.metadata";

/// The files in which the only broker keeps a partition.
#[derive(Debug)]
pub struct PartitionFiles {
    directory: PathBuf,
}

impl PartitionFiles {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The size of the files, bytes.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for path in files(&self.directory)? {
            if path.extension().is_some_and(|extension| extension == "log") {
                bytes += fs::metadata(path)?.len();
            }
        }
        Ok(bytes)
    }

    /// A copy of the files as they are; the broker may be running.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn copy(&self) -> Result<TempDir> {
        let copy = tempfile::tempdir()?;
        copy_files(&self.directory, copy.path())?;
        Ok(copy)
    }

    /// Removes the records, and the broker's own data about them.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn empty(&self) -> Result<()> {
        for path in files(&self.directory)? {
            if !path.ends_with(IDENTITY) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Replaces the present files by a former state.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn put_back(&self, copy: &TempDir) -> Result<()> {
        self.empty()?;
        copy_files(copy.path(), &self.directory)
    }
}

/// Copies the files of a directory, but not its subdirectories.
pub(crate) fn copy_files(from: &Path, to: &Path) -> Result<()> {
    for path in files(from)? {
        let name = path.file_name().context("a file has no name")?;
        fs::copy(&path, to.join(name))?;
    }
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

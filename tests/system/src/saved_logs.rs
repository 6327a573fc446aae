//! The logs of an environment in which a test failed: its own directory is removed with it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{partition_files::copy_files, program};

/// Copies the files of `logs` to `target/tmp/system-tests/<test>`; returns the directory.
pub(crate) fn save(logs: &Path, test: &str) -> String {
    let copied = directory(test).and_then(|directory| {
        fs::create_dir_all(&directory)?;
        copy_files(logs, &directory)?;
        Ok(directory)
    });
    match copied {
        Ok(directory) => directory.display().to_string(),
        Err(error) => format!("lost: {error:#}"),
    }
}

/// The program is in `target/<profile>`.
fn directory(test: &str) -> Result<PathBuf> {
    let program = program::path()?;
    let target = program.ancestors().nth(2).context("no target directory")?;
    Ok(target.join("tmp").join("system-tests").join(test))
}

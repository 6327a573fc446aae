//! The logs of a environment in which a test failed: its own directory is gone with it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{partition_files::copy_files, program};

/// Copies the files of `logs` to `target/tmp/system-tests/<test>`; says where that is.
pub(crate) fn keep(logs: &Path, test: &str) -> String {
    let copied = place(test).and_then(|place| {
        fs::create_dir_all(&place)?;
        copy_files(logs, &place)?;
        Ok(place)
    });
    match copied {
        Ok(place) => place.display().to_string(),
        Err(error) => format!("lost: {error:#}"),
    }
}

/// The program is in `target/<profile>`.
fn place(test: &str) -> Result<PathBuf> {
    let program = program::path()?;
    let target = program.ancestors().nth(2).context("no target directory")?;
    Ok(target.join("tmp").join("system-tests").join(test))
}

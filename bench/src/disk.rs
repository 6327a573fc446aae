//! What the stores keep on disk.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::{Context as _, Result};
use system_tests::World;

/// Bytes on disk of everything below a server's data directory whose own directory's name begins with `prefix`.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn bytes(world: &World, server: &str, prefix: &str) -> Result<u64> {
    let data = world.data_dir(server);
    let mut total = 0;
    let entries = fs::read_dir(&data).with_context(|| format!("cannot read {}", data.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            total += below(&entry.path())?;
        }
    }
    Ok(total)
}

/// What is allocated, not what is promised: sparse files count for what they hold.
fn below(path: &Path) -> io::Result<u64> {
    let metadata = match fs::symlink_metadata(path) {
        // A segment or a table may go at any time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        metadata => metadata?,
    };
    let own = metadata.blocks() * 512;
    if !metadata.is_dir() {
        return Ok(own);
    }
    let mut total = own;
    for entry in fs::read_dir(path)? {
        total += below(&entry?.path())?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_directories_is_counted() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert!(below(&here).unwrap() > below(&here.join("main.rs")).unwrap());
        assert_eq!(below(&here.join("missing")).unwrap(), 0);
    }
}

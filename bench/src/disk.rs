//! The disk usage of the stores.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::{Context as _, Result};
use system_tests::TestEnv;

/// Bytes on disk of the files below a server's data directory whose names begin with `files`, in directories whose names begin
/// with `directories`.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn bytes(env: &TestEnv, server: &str, directories: &str, files: &str) -> Result<u64> {
    let data = env.data_dir(server);
    let mut total = 0;
    let entries = fs::read_dir(&data).with_context(|| format!("cannot read {}", data.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(directories) {
            total += below(&entry.path(), files)?;
        }
    }
    Ok(total)
}

/// The allocated size: sparse files count only for what they hold.
fn below(path: &Path, files: &str) -> io::Result<u64> {
    let metadata = match fs::symlink_metadata(path) {
        // A segment or a table may be deleted at any time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        metadata => metadata?,
    };
    if !metadata.is_dir() {
        let name = path.file_name().unwrap_or_default();
        let counts = name.to_string_lossy().starts_with(files);
        return Ok(u64::from(counts) * metadata.blocks() * 512);
    }
    let mut total = 0;
    for entry in fs::read_dir(path)? {
        total += below(&entry?.path(), files)?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_in_directories_are_counted() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let main = below(&here, "main.").unwrap();
        assert_eq!(main, below(&here.join("main.rs"), "").unwrap());
        assert!(main > 0 && below(&here, "").unwrap() > main);
        assert_eq!(below(&here.join("missing"), "").unwrap(), 0);
    }
}

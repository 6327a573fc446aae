//! A file that is read again when it changes.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::source_status::SourceStatus;

/// The largest allowed size of a file of keys.
const MAX_BYTES: u64 = 1024 * 1024;

/// The parsed content of a file; if the file is not valid, its last valid content.
#[derive(Debug)]
pub(crate) struct ReloadedFile<T> {
    path: PathBuf,
    parse: fn(&str) -> Result<T, String>,
    current: Mutex<Current<T>>,
}

#[derive(Debug)]
struct Current<T> {
    value: Arc<T>,
    /// The text that was read last, valid or not; `value` is from the last valid text. A change is noticed by the content, not by the modification time,
    /// which mounts, links and copies do not keep.
    text: String,
    status: SourceStatus,
}

impl<T> ReloadedFile<T> {
    /// Reads the file for the first time; `name` is its name in log and metrics.
    ///
    /// # Errors
    /// A file that cannot be read or parsed; the error text continues a sentence that begins with the file's path.
    pub(crate) fn open(
        path: &Path,
        name: &str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<Self, String> {
        let text = read(path)?;
        let value = Arc::new(parse(&text)?);
        let mut status = SourceStatus::new(name);
        status.succeeded();
        Ok(Self {
            path: path.to_owned(),
            parse,
            current: Mutex::new(Current {
                value,
                text,
                status,
            }),
        })
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.lock().value)
    }

    /// Reads the file again, and keeps the last content if that fails.
    pub(crate) fn refresh(&self) {
        let read = read(&self.path);
        let mut current = self.current.lock();
        let text = match read {
            Ok(text) => text,
            Err(problem) => return current.status.failed(&problem),
        };
        // After a failure the same text is parsed again, so that the status is set.
        if text == current.text && current.status.last_read_succeeded() {
            return;
        }
        match (self.parse)(&text) {
            Ok(value) => {
                current.value = Arc::new(value);
                current.status.succeeded();
                tracing::info!(source = current.status.name(), "the keys were read again");
            }
            Err(problem) => current.status.failed(&problem),
        }
        current.text = text;
    }
}

/// The text of a file, which may be empty and may not be large.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let unreadable =
        |error: io::Error| format!("cannot be read ({error}); must be a readable file of text");
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(format!(
            "has more than {MAX_BYTES} bytes; must be a file of keys"
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn number(text: &str) -> Result<u32, String> {
        text.trim().parse().map_err(|_| "is no number".to_owned())
    }

    #[test]
    fn a_new_file_is_taken_and_a_bad_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        fs::write(&path, "1").unwrap();
        let reloaded = ReloadedFile::open(&path, "test", number).unwrap();
        let after = |content: Option<&str>| {
            match content {
                Some(content) => fs::write(&path, content).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            reloaded.refresh();
            let is_good = reloaded.current.lock().status.last_read_succeeded();
            (*reloaded.get(), is_good)
        };
        assert_eq!(after(Some("2")), (2, true));
        assert_eq!(after(Some("two")), (2, false));
        assert_eq!(after(Some("two")), (2, false));
        assert_eq!(after(None), (2, false));
        assert_eq!(after(Some("2")), (2, true));
        assert_eq!(after(Some("3")), (3, true));
    }

    #[test]
    fn a_missing_or_oversized_file_is_refused_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        let opened = ReloadedFile::open(&path, "test", number);
        assert!(opened.unwrap_err().starts_with("cannot be read"));
        fs::write(&path, vec![b'1'; MAX_BYTES as usize + 1]).unwrap();
        assert!(ReloadedFile::open(&path, "test", number).is_err());
    }
}

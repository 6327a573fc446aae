//! A file that is read again when it changes.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::source_state::SourceState;

/// More than this many bytes is no file of keys.
const MAX_BYTES: u64 = 1024 * 1024;

/// What a file of keys says; of a bad file, what it said before.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    path: PathBuf,
    parse: fn(&str) -> Result<T, String>,
    current: Mutex<Current<T>>,
}

#[derive(Debug)]
struct Current<T> {
    value: Arc<T>,
    /// What was read last. The content decides, not the time of the file: files are mounted, linked and copied with any.
    text: String,
    state: SourceState,
}

impl<T> Watched<T> {
    /// Reads the file for the first time; `name` is the source's in log and metrics.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, in words that go on behind its path.
    pub(crate) fn open(
        path: &Path,
        name: &str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<Self, String> {
        let text = read(path)?;
        let value = Arc::new(parse(&text)?);
        let mut state = SourceState::new(name);
        state.good();
        Ok(Self {
            path: path.to_owned(),
            parse,
            current: Mutex::new(Current { value, text, state }),
        })
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.lock().value)
    }

    /// Reads the file again, and keeps what it said before if that fails.
    pub(crate) fn refresh(&self) {
        let read = read(&self.path);
        let mut current = self.lock();
        let text = match read {
            Ok(text) => text,
            Err(problem) => return current.state.bad(&problem),
        };
        if text == current.text && current.state.is_good() {
            return;
        }
        match (self.parse)(&text) {
            Ok(value) => {
                current.value = Arc::new(value);
                current.state.good();
                tracing::info!(source = current.state.name(), "the keys were read again");
            }
            Err(problem) => current.state.bad(&problem),
        }
        current.text = text;
    }

    fn lock(&self) -> MutexGuard<'_, Current<T>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_new_file_counts_and_a_bad_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        fs::write(&path, "1").unwrap();
        let watched = Watched::open(&path, "test", number).unwrap();
        let after = |content: Option<&str>| {
            match content {
                Some(content) => fs::write(&path, content).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            watched.refresh();
            let is_good = watched.lock().state.is_good();
            (*watched.get(), is_good)
        };
        assert_eq!(after(Some("2")), (2, true));
        assert_eq!(after(Some("two")), (2, false));
        assert_eq!(after(Some("two")), (2, false));
        assert_eq!(after(None), (2, false));
        assert_eq!(after(Some("2")), (2, true));
        assert_eq!(after(Some("3")), (3, true));
    }

    #[test]
    fn what_is_not_there_at_the_start_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        let opened = Watched::open(&path, "test", number);
        assert!(opened.unwrap_err().starts_with("cannot be read"));
        fs::write(&path, vec![b'1'; MAX_BYTES as usize + 1]).unwrap();
        assert!(Watched::open(&path, "test", number).is_err());
    }
}

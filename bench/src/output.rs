//! The files of results: JSON, tables and pictures.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{picture, results::Results};

/// Where results are written. While stages are still to come, they have a name of their own, and what an earlier run found
/// stays.
pub(crate) struct Output {
    directory: PathBuf,
    name: String,
}

impl Output {
    /// Into a directory, under a name without an extension.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub(crate) fn prepare(directory: &Path, name: String) -> Result<Self> {
        let output = Self {
            directory: directory.to_owned(),
            name,
        };
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(output.unfinished("json"), "{}"))
            .with_context(|| {
                format!(
                    "--out {}: nothing can be written there",
                    directory.display()
                )
            })?;
        Ok(output)
    }

    /// Writes what was found by now.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep(&self, results: &Results) -> Result<()> {
        let json = serde_json::to_string_pretty(results)?;
        for (extension, text) in [("json", json), ("md", results.to_string())] {
            let path = self.unfinished(extension);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Writes all of it, with the pictures.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn finish(&self, results: &Results) -> Result<()> {
        self.keep(results)?;
        for curve in &results.found.curves {
            let named = |what| self.path(&format!("-{}-{what}.svg", curve.file));
            picture::throughput(curve, &named("throughput"))?;
            picture::latency(curve, &named("latency"))?;
        }
        for extension in ["json", "md"] {
            let path = self.path(&format!(".{extension}"));
            fs::rename(self.unfinished(extension), &path)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn unfinished(&self, extension: &str) -> PathBuf {
        self.path(&format!(".unfinished.{extension}"))
    }

    fn path(&self, rest: &str) -> PathBuf {
        self.directory.join(format!("{}{rest}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{machine::Machine, results::Found};

    #[test]
    fn what_an_earlier_run_found_stays_until_all_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let earlier = directory.path().join("today.md");
        fs::write(&earlier, "earlier").unwrap();
        let output = Output::prepare(directory.path(), "today".to_owned()).unwrap();
        let results = Results {
            machine: Machine::here("bench".to_owned()).unwrap(),
            found: Found::default(),
            failed: Vec::new(),
        };
        output.keep(&results).unwrap();
        assert_eq!(fs::read_to_string(&earlier).unwrap(), "earlier");
        output.finish(&results).unwrap();
        assert_eq!(fs::read_to_string(&earlier).unwrap(), results.to_string());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = Output::prepare(file.path(), "today".to_owned())
            .err()
            .unwrap();
        assert!(refused.to_string().starts_with("--out "), "{refused}");
    }
}

//! The result of the last audit, stored in the run directory of the local stack.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use audit::Report;
use serde::{Deserialize, Serialize};

use crate::times;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastAudit {
    /// The time of the audit, in RFC 3339.
    pub(crate) at: String,
    pub(crate) differences: u64,
    /// The parts that could not be checked, and why.
    #[serde(default)]
    pub(crate) unchecked: Vec<String>,
}

impl LastAudit {
    pub(crate) fn now(report: &Report) -> Self {
        Self {
            at: times::rfc3339(times::now()),
            differences: report.differences(),
            unchecked: report.unchecked.clone(),
        }
    }

    /// `None` if no audit has finished since the data were created.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read(run_dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = path(run_dir);
        let read = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text
                .map_err(anyhow::Error::new)
                .and_then(|text| Ok(serde_json::from_str(&text)?)),
        };
        read.with_context(|| {
            let path = path.display();
            format!("{path} cannot be read: `tidemark audit` writes it again")
        })
        .map(Some)
    }

    /// Replaces the previous result atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, run_dir: &Path) -> anyhow::Result<()> {
        let path = path(run_dir);
        let partial = path.with_extension("partial");
        fs::write(&partial, serde_json::to_string(self)?)
            .and_then(|()| fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the file, if there is one.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(crate) fn forget(run_dir: &Path) -> anyhow::Result<()> {
        let path = path(run_dir);
        for path in [path.with_extension("partial"), path] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    let what = || format!("cannot remove {}", path.display());
                    return Err(error).with_context(what);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join(dev_stack::LAST_AUDIT_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_named() {
        let run_dir = tempfile::tempdir().unwrap();
        let run_dir = run_dir.path();
        assert_eq!(LastAudit::read(run_dir).unwrap(), None);
        let written = r#"{"at":"2026-11-25T04:00:00.000Z","differences":3}"#;
        let audit: LastAudit = serde_json::from_str(written).unwrap();
        audit.write(run_dir).unwrap();
        assert_eq!(LastAudit::read(run_dir).unwrap(), Some(audit));
        fs::write(path(run_dir), "{\"at\":").unwrap();
        let error = LastAudit::read(run_dir).unwrap_err().to_string();
        assert!(error.contains("last-audit.json cannot be read"), "{error}");
        LastAudit::forget(run_dir).unwrap();
        LastAudit::forget(run_dir).unwrap();
        assert_eq!(LastAudit::read(run_dir).unwrap(), None);
    }
}

//! The counts to compare with.

use std::{collections::BTreeMap, env::consts::ARCH, fmt, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// A rise by more than this fails, percent.
const TOLERANCE: u64 = 5;

const HEAD: &str = "# Instructions per message, by architecture and part: written by `make instructions ACCEPT=1`.\n\n";

/// Instructions per message, by architecture and part.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Baseline(BTreeMap<String, BTreeMap<String, u64>>);

/// How a figure compares with the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// The baseline has no counts of this architecture.
    NewArchitecture,
    /// The baseline has no count of the part.
    NewPart,
    /// By this ratio, up or down.
    WithinTolerance { by: f64 },
    /// Below the tolerance: the baseline should be updated.
    Improved { by: f64 },
    /// Above the tolerance.
    Regressed { by: f64 },
}

impl Baseline {
    /// # Errors
    /// The file is not there or says something else.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        let file = file.display();
        let text = fs::read_to_string(file.to_string()).with_context(|| {
            format!("cannot read {file}: run this at the root of the project, where git has it")
        })?;
        toml::from_str(&text).with_context(|| format!("{file}: `git checkout {file}` has it back"))
    }

    /// # Errors
    /// The file cannot be written.
    pub(crate) fn save(&self, file: &Path) -> Result<()> {
        let text = HEAD.to_owned() + &toml::to_string(self)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    pub(crate) fn compare(&self, part: &str, now: u64) -> Change {
        let Some(parts) = self.0.get(ARCH) else {
            return Change::NewArchitecture;
        };
        // Every part takes instructions, so a baseline of 0 does not count.
        let Some(baseline) = parts.get(part).filter(|baseline| **baseline > 0) else {
            return Change::NewPart;
        };
        let by = now as f64 / *baseline as f64 - 1.0;
        if now * 100 > baseline * (100 + TOLERANCE) {
            Change::Regressed { by }
        } else if now * 100 < baseline * (100 - TOLERANCE) {
            Change::Improved { by }
        } else {
            Change::WithinTolerance { by }
        }
    }

    /// Drops the parts of this architecture that no longer exist.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        if let Some(parts) = self.0.get_mut(ARCH) {
            parts.retain(|part, _| is_there(part));
        }
    }

    pub(crate) fn put(&mut self, part: &str, now: u64) {
        let parts = self.0.entry(ARCH.to_owned()).or_default();
        parts.insert(part.to_owned(), now);
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewArchitecture => write!(f, "no baseline for {ARCH} yet"),
            Self::NewPart => write!(f, "not in the baseline yet"),
            Self::WithinTolerance { by } => write!(f, "{:+.1} %", by * 100.0),
            Self::Improved { by } => write!(f, "{:+.1} %: less", by * 100.0),
            Self::Regressed { by } => write!(f, "{:+.1} %: above the tolerance", by * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_gone_are_forgotten() {
        let mut baseline = Baseline::default();
        baseline.put("step", 1000);
        baseline.put("gone", 1000);
        baseline.keep(|part| part == "step");
        assert_eq!(baseline.compare("gone", 1000), Change::NewPart);
        assert_eq!(
            baseline.compare("step", 1000),
            Change::WithinTolerance { by: 0.0 }
        );
    }

    #[test]
    fn a_rise_of_more_than_five_percent_is_too_much() {
        let mut baseline = Baseline::default();
        assert_eq!(baseline.compare("step", 1), Change::NewArchitecture);
        baseline.put("step", 1000);
        assert_eq!(baseline.compare("fold", 1), Change::NewPart);
        assert!(matches!(
            baseline.compare("step", 1050),
            Change::WithinTolerance { .. }
        ));
        assert!(matches!(
            baseline.compare("step", 1051),
            Change::Regressed { .. }
        ));
        assert!(matches!(
            baseline.compare("step", 949),
            Change::Improved { .. }
        ));
    }
}

//! The figures that were accepted.

use std::{collections::BTreeMap, env::consts::ARCH, fmt, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// A rise by more than this is too much, percent.
const TOLERANCE: u64 = 5;

const HEAD: &str = "# Instructions a message, by architecture and part: written by `make instructions ACCEPT=1`.\n\n";

/// Instructions a message, by architecture and part.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Accepted(BTreeMap<String, BTreeMap<String, u64>>);

/// How a figure compares with what was accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// Nothing was accepted for this architecture yet.
    NewArchitecture,
    /// There are figures for this architecture, but none of the part.
    NewPart,
    /// By so much of it, up or down.
    Within { by: f64 },
    /// By so much less that the file should say so.
    Fallen { by: f64 },
    /// By so much more, which is too much.
    Risen { by: f64 },
}

impl Accepted {
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
        // No part takes no instructions.
        let Some(accepted) = parts.get(part).filter(|accepted| **accepted > 0) else {
            return Change::NewPart;
        };
        let by = now as f64 / *accepted as f64 - 1.0;
        if now * 100 > accepted * (100 + TOLERANCE) {
            Change::Risen { by }
        } else if now * 100 < accepted * (100 - TOLERANCE) {
            Change::Fallen { by }
        } else {
            Change::Within { by }
        }
    }

    /// Forgets the parts of this architecture that there are no more.
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
            Self::NewArchitecture => write!(f, "nothing accepted for {ARCH} yet"),
            Self::NewPart => write!(f, "not accepted yet"),
            Self::Within { by } => write!(f, "{:+.1} %", by * 100.0),
            Self::Fallen { by } => write!(f, "{:+.1} %: less", by * 100.0),
            Self::Risen { by } => write!(f, "{:+.1} %: too much", by * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_gone_are_forgotten() {
        let mut accepted = Accepted::default();
        accepted.put("step", 1000);
        accepted.put("gone", 1000);
        accepted.keep(|part| part == "step");
        assert_eq!(accepted.compare("gone", 1000), Change::NewPart);
        assert_eq!(accepted.compare("step", 1000), Change::Within { by: 0.0 });
    }

    #[test]
    fn a_rise_of_more_than_five_percent_is_too_much() {
        let mut accepted = Accepted::default();
        assert_eq!(accepted.compare("step", 1), Change::NewArchitecture);
        accepted.put("step", 1000);
        assert_eq!(accepted.compare("fold", 1), Change::NewPart);
        assert!(matches!(
            accepted.compare("step", 1050),
            Change::Within { .. }
        ));
        assert!(matches!(
            accepted.compare("step", 1051),
            Change::Risen { .. }
        ));
        assert!(matches!(
            accepted.compare("step", 949),
            Change::Fallen { .. }
        ));
    }
}

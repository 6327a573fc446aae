//! The errors of a configuration, in words for the operator.

use std::fmt;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::error::{Actual, Kind};
use serde_json::Value;

use super::{SECTIONS, secret::REDACTED};

/// The configuration cannot be used. Every message names the place, the key, what is wrong and what is right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file does not exist or is not readable.
    #[error("file {}: cannot be read: {reason}; must be a readable TOML file", path.display())]
    Unreadable {
        /// The requested file.
        path: PathBuf,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// The file is not TOML.
    #[error("file {}, line {line}: {message}; must be valid TOML", path.display())]
    Syntax {
        /// The requested file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The message of the parser.
        message: String,
    },
    /// A section that does not exist.
    #[error("{origin}: [{section}] is not a section; must be one of {}", SECTIONS.join(", "))]
    UnknownSection {
        /// The place that names it.
        origin: String,
        /// The name of the section.
        section: String,
    },
    /// An environment variable whose value is not text.
    #[error("environment variable {name}: is not valid UTF-8; must be text")]
    UnreadableVariable {
        /// The variable.
        name: String,
    },
    /// An environment variable that begins like a setting but names no section.
    #[error("environment variable {name}: is not a setting; must be TIDEMARK_<SECTION>__<KEY>")]
    UnknownVariable {
        /// The variable.
        name: String,
    },
    /// A `--set` without a section or a key.
    #[error("--set {text}: is not a setting; must be <section>.<key>=<value>")]
    MalformedOverride {
        /// The argument, or its part before the `=`.
        text: String,
    },
    /// Values that are of the wrong type, out of bounds, or unknown.
    #[error("{}", lines(.0))]
    Values(Vec<ValueError>),
}

/// One wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// The place that set the value.
    pub origin: String,
    /// `section.key`.
    pub key: String,
    /// What is wrong and what is right.
    pub problem: String,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.origin, self.key, self.problem)
    }
}

impl ConfigError {
    /// The exit code of a program that stops because of its configuration.
    pub const EXIT_CODE: u8 = 3;

    pub(super) fn value(origin: &str, key: String, problem: String) -> Self {
        Self::Values(vec![ValueError {
            origin: origin.to_owned(),
            key,
            problem,
        }])
    }

    pub(super) fn unknown_section(origin: String, section: String) -> Self {
        Self::UnknownSection { origin, section }
    }

    pub(super) fn not_a_section(file: &Path, key: String) -> Self {
        Self::value(
            &format!("file {}", file.display()),
            key,
            "is outside every section; must be under a [section]".to_owned(),
        )
    }

    /// The parser's message without its excerpt of the file, which may hold a secret.
    pub(super) fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let end = error.span().map_or(0, |span| span.start);
        let before = text.as_bytes().get(..end).unwrap_or_default();
        Self::Syntax {
            path: path.to_owned(),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            message: error.message().replace('\n', ", "),
        }
    }

    /// The errors of deserialising the section.
    pub(super) fn refused(
        section: &str,
        layers: &Figment,
        error: figment::Error,
        defaults: &Value,
    ) -> Self {
        let values = error.into_iter().map(|error| {
            let (name, problem) = problem_of(&error.kind);
            let mut path = error.path.clone();
            if let Some(name) = name
                && path.last() != Some(&name)
            {
                path.push(name);
            }
            let path = path.join(".");
            let hint = match &error.kind {
                Kind::Message(_) => hint(defaults, &path),
                _ => String::new(),
            };
            ValueError {
                origin: match &error.metadata {
                    Some(metadata) => metadata.name.to_string(),
                    None => origin_of(layers, &path),
                },
                key: format!("{section}.{path}"),
                problem: problem + &hint,
            }
        });
        Self::Values(values.collect())
    }

    /// The violations of the section's own rules.
    pub(super) fn out_of_bounds(
        section: &str,
        layers: &Figment,
        report: &garde::Report,
        defaults: &Value,
    ) -> Self {
        let values = report.iter().map(|(path, error)| {
            let path = path.to_string();
            ValueError {
                origin: origin_of(layers, &path),
                key: format!("{section}.{path}"),
                problem: format!("is refused: {error}{}", hint(defaults, &path)),
            }
        });
        Self::Values(values.collect())
    }
}

fn lines(values: &[ValueError]) -> String {
    let lines: Vec<String> = values.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// A list is always set as a whole, so the origin of an element is that of the list.
fn origin_of(layers: &Figment, path: &str) -> String {
    let path = path.split('[').next().unwrap_or_default();
    match layers.find_metadata(path) {
        Some(metadata) => metadata.name.to_string(),
        None => "built-in default".to_owned(),
    }
}

/// An example of a valid value: the default, if it is a text or a number.
fn hint(defaults: &Value, path: &str) -> String {
    let pointer = format!("/{}", path.replace('.', "/"));
    match defaults.pointer(&pointer) {
        Some(Value::String(text)) if text.is_empty() || text == REDACTED => String::new(),
        Some(right @ (Value::String(_) | Value::Number(_))) => format!("; the default is {right}"),
        _ => String::new(),
    }
}

/// The wrong key, if the message itself names it, and the message in words.
fn problem_of(kind: &Kind) -> (Option<String>, String) {
    match kind {
        Kind::UnknownField(name, known) => (
            Some(name.clone()),
            format!("is not a key; must be one of {}", known.join(", ")),
        ),
        Kind::MissingField(name) => (
            Some(name.to_string()),
            "is missing; must be given".to_owned(),
        ),
        Kind::UnknownVariant(value, known) => (
            None,
            format!("is {value:?}; must be one of {}", known.join(", ")),
        ),
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            let problem = format!("is {}; must be {}", outline(actual), in_words(expected));
            (None, problem)
        }
        Kind::Message(text) if text == "invalid socket address syntax" => {
            (None, "is not an IP address and a port".to_owned())
        }
        other => (None, other.to_string()),
    }
}

/// A description of the value, without its text, which may hold a secret.
fn outline(actual: &Actual) -> String {
    match actual {
        Actual::Str(_) => "text".to_owned(),
        Actual::Bytes(_) => "bytes".to_owned(),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "a table".to_owned(),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        other => other.to_string(),
    }
}

fn in_words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "socket address" => "an IP address and a port",
        structure if structure.starts_with("struct ") => "a table",
        other => other,
    }
}

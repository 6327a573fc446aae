//! One setting from one place, with the name of that place for error messages.

use std::collections::BTreeSet;
use std::path::Path;

use figment::value::{Dict, Map, Value};
use figment::{Metadata, Profile, Provider};

use super::ConfigError;
use crate::text::secret_in;

const VARIABLE_PREFIX: &str = "TIDEMARK_";
const FILE_SUFFIX: &str = "_file";

/// A value at `section.keys[0].keys[1]…`.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) section: String,
    keys: Vec<String>,
    value: Value,
    /// The place that set it: "file tidemark.toml", "environment variable …", "--set …".
    pub(super) origin: String,
}

impl Setting {
    pub(super) fn from_file(file: &Path, section: &str, key: String, value: Value) -> Self {
        Self {
            section: section.to_owned(),
            keys: vec![key],
            value,
            origin: format!("file {}", file.display()),
        }
    }

    pub(super) fn from_profile(profile: &str, section: &str, key: &str, value: i64) -> Self {
        Self {
            section: section.to_owned(),
            keys: vec![key.to_owned()],
            value: Value::from(value),
            origin: format!("profile {profile}"),
        }
    }

    /// Parses `TIDEMARK_<SECTION>__<KEY>`; `None` for a variable that is not a setting: those of other programs, and those of [`is_known`].
    pub(super) fn from_variable(name: &str, text: &str) -> Result<Option<Self>, ConfigError> {
        let Some(rest) = name.strip_prefix(VARIABLE_PREFIX) else {
            return Ok(None);
        };
        let path = rest.to_ascii_lowercase();
        match path.split_once("__") {
            Some((section, keys)) => Ok(Some(Self {
                section: section.to_owned(),
                keys: keys.split("__").map(str::to_owned).collect(),
                value: value_of(text),
                origin: format!("environment variable {name}"),
            })),
            None if is_known(name) => Ok(None),
            None => Err(ConfigError::UnknownVariable {
                name: name.to_owned(),
            }),
        }
    }

    /// Parses `section.key` and its value, from the command line.
    pub(super) fn from_override(path: &str, text: &str) -> Result<Self, ConfigError> {
        let (section, keys) = path
            .split_once('.')
            .filter(|(section, keys)| !section.is_empty() && !keys.is_empty())
            .ok_or_else(|| ConfigError::MalformedOverride {
                text: path.to_owned(),
            })?;
        Ok(Self {
            section: section.to_owned(),
            keys: keys.split('.').map(str::to_owned).collect(),
            value: value_of(text),
            origin: format!("--set {path}"),
        })
    }

    /// Whether a variable of this name is meant to be a setting.
    pub(super) fn is_variable(name: &str) -> bool {
        name.starts_with(VARIABLE_PREFIX) && !is_known(name)
    }

    /// Whether this is the value of `key`.
    pub(super) fn is_of(&self, key: &str) -> bool {
        self.keys == [key]
    }

    /// The value, if it is text, and the place that set it.
    pub(super) fn text_and_origin(&self) -> (Option<&str>, &str) {
        (self.value.as_str(), &self.origin)
    }

    /// The key whose value is in the file that this setting names, if it names one.
    pub(super) fn names_file_for(&self, keys: &BTreeSet<String>) -> Option<String> {
        let [name] = self.keys.as_slice() else {
            return None;
        };
        let key = name.strip_suffix(FILE_SUFFIX)?;
        (keys.contains(key) && !keys.contains(name)).then(|| key.to_owned())
    }

    /// The setting of `key` with the content of the file named here, less one line ending at its end.
    pub(super) fn read_file(&self, key: String) -> Result<Self, ConfigError> {
        let refuse = |problem: String| {
            ConfigError::value(
                &self.origin,
                format!("{}.{}", self.section, self.keys[0]),
                problem,
            )
        };
        let path = self
            .value
            .as_str()
            .ok_or_else(|| refuse("is not a string; must be the path of a file".to_owned()))?;
        let text = std::fs::read_to_string(path).map_err(|error| {
            refuse(format!(
                "names {path}, which cannot be read: {error}; must be a readable file"
            ))
        })?;
        Ok(Self {
            keys: vec![key],
            value: Value::from(secret_in(&text)),
            origin: format!("{}, content of {path}", self.origin),
            ..self.clone()
        })
    }
}

/// Variables of Tidemark that are not settings.
fn is_known(name: &str) -> bool {
    [
        super::FILE_VARIABLE,
        super::TOKEN_VARIABLE,
        "TIDEMARK_CACHE",
    ]
    .contains(&name)
        || ["TIDEMARK_TEST_", "TIDEMARK_SIM_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Text stays text until the section's struct gives it a type (so that a password of digits stays as it is). Only text in the form of a list or a
/// table is parsed, as TOML.
fn value_of(text: &str) -> Value {
    let looks_composite = (text.starts_with('[') && text.ends_with(']'))
        || (text.starts_with('{') && text.ends_with('}'));
    if looks_composite
        && let Ok(mut parsed) = toml::from_str::<Dict>(&format!("value = {text}"))
        && let Some(value) = parsed.remove("value")
    {
        return value;
    }
    Value::from(text)
}

impl Provider for Setting {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let nested = self
            .keys
            .iter()
            .rev()
            .fold(self.value.clone(), |value, key| {
                Value::from(Dict::from([(key.clone(), value)]))
            });
        let section = nested.into_dict().unwrap_or_default();
        Ok(Profile::Default.collect(section))
    }
}

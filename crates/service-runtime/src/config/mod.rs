//! Configuration: built-in defaults, then a named profile, then one TOML file, then the environment, then `--set` on the command line.
//!
//! Every section belongs to one struct (`#[serde(deny_unknown_fields, default)]`), so an unknown key is refused wherever it comes
//! from. The defaults are those of the struct and never pass through a text form, so a redacted secret cannot become a value.

mod args;
mod error;
mod profile;
mod secret;
mod setting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use figment::Figment;
use figment::value::{Dict, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::text::without_mark;
pub use args::ConfigArgs;
pub use error::{ConfigError, ValueError};
pub use profile::Profile;
pub use secret::Secret;
use setting::Setting;

/// The sections that a file, the environment or `--set` may name.
pub const SECTIONS: [&str; 16] = [
    "http",
    "auth",
    "runtime",
    "telemetry",
    "kafka",
    "redis",
    "mysql",
    "ingest",
    "groups",
    "sequencer",
    "projector_unread",
    "projector_mysql",
    "query_api",
    "gateway",
    "stack",
    "client",
];

/// The file to read when `--config` is not given, so that one variable serves every program.
pub const FILE_VARIABLE: &str = "TIDEMARK_CONFIG";

/// The token or service key with which commands call services.
pub const TOKEN_VARIABLE: &str = "TIDEMARK_TOKEN";

/// All settings, by section, in rising order of precedence.
///
/// [`ConfigSource::default`] is empty: every section then has its built-in defaults, whatever the environment holds.
#[derive(Debug, Clone, Default)]
pub struct ConfigSource {
    /// The settings of the named profile.
    of_profile: Vec<Setting>,
    settings: Vec<Setting>,
}

impl ConfigSource {
    /// Reads the file, if there is one, and takes the environment of this process; `overrides` are pairs of `section.key` and value.
    ///
    /// # Errors
    /// A file that cannot be read or is not TOML, a variable that is not text, and a section that does not exist.
    pub fn load(file: Option<&Path>, overrides: &[(String, String)]) -> Result<Self, ConfigError> {
        Self::from_parts(file, process_environment()?, overrides)
    }

    /// The same settings with more `overrides`, which take precedence over all others.
    ///
    /// # Errors
    /// A section that does not exist.
    pub fn with_overrides(&self, overrides: &[(String, String)]) -> Result<Self, ConfigError> {
        let mut source = self.clone();
        for (path, value) in overrides {
            let setting = Setting::from_override(path, value)?;
            refuse_unknown_section(&setting)?;
            source.settings.push(setting);
        }
        Ok(source)
    }

    /// As [`ConfigSource::load`], with the given environment in place of the process's.
    ///
    /// # Errors
    /// As [`ConfigSource::load`].
    pub fn from_parts(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        overrides: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        let mut settings = match file {
            Some(path) => settings_of_file(path)?,
            None => Vec::new(),
        };
        settings.extend(settings_of_environment(environment)?);
        for (path, value) in overrides {
            settings.push(Setting::from_override(path, value)?);
        }
        for setting in &settings {
            refuse_unknown_section(setting)?;
        }
        let of_profile = Profile::named_in(&settings)?.settings().collect();
        Ok(Self {
            of_profile,
            settings,
        })
    }

    /// The settings of file, environment and command line, later ones over earlier ones, in the form of one file. A profile is only named in it.
    /// Secrets are not redacted.
    ///
    /// # Errors
    /// A value that a file cannot have.
    pub fn said(&self) -> Result<toml::Table, ConfigError> {
        let mut sections: BTreeMap<String, Figment> = BTreeMap::new();
        for setting in &self.settings {
            let section = sections.entry(setting.section.clone()).or_default();
            *section = std::mem::take(section).merge(setting.clone());
        }
        let said = sections.into_iter().map(|(name, layers)| {
            let values = layers.extract::<toml::Table>();
            let values = values.map_err(|error| {
                ConfigError::refused(&name, &layers, error, &serde_json::Value::Null)
            })?;
            Ok((name, values.into()))
        });
        said.collect()
    }

    /// The section as its struct, checked.
    ///
    /// # Errors
    /// Every wrong value, with its origin, its `section.key`, what is wrong and what is right.
    ///
    /// # Panics
    /// If `name` is none of [`SECTIONS`]: a defect of the caller.
    pub fn section<T>(&self, name: &str) -> Result<T, ConfigError>
    where
        T: Default + Serialize + DeserializeOwned + garde::Validate<Context = ()>,
    {
        assert!(SECTIONS.contains(&name), "{name} is not a section");
        let defaults = defaults_of::<T>();
        let layers = self.layers(name, &keys_of(&defaults))?;
        let value: T = layers
            .extract_lossy()
            .map_err(|error| ConfigError::refused(name, &layers, error, &defaults))?;
        value
            .validate()
            .map_err(|report| ConfigError::out_of_bounds(name, &layers, &report, &defaults))?;
        Ok(value)
    }

    /// The place that set the value of `section.key` last; the built-in default counts as such a place.
    #[must_use]
    pub fn origin(&self, section: &str, key: &str) -> String {
        let mut said = self.all().rev();
        said.find(|setting| setting.section == section && setting.is_of(key))
            .map_or_else(|| "built-in default".to_owned(), |s| s.origin.clone())
    }

    /// The section in effect, for people to read: secrets are redacted.
    ///
    /// # Errors
    /// As [`ConfigSource::section`].
    pub fn effective<T>(&self, name: &str) -> Result<serde_json::Value, ConfigError>
    where
        T: Default + Serialize + DeserializeOwned + garde::Validate<Context = ()>,
    {
        let value: T = self.section(name)?;
        Ok(serde_json::to_value(value).expect("a section has string keys and plain values"))
    }

    /// All settings, in rising order of precedence.
    fn all(&self) -> impl DoubleEndedIterator<Item = &Setting> {
        self.of_profile.iter().chain(&self.settings)
    }

    /// The settings of one section, later ones over earlier ones. `<key>_file` becomes `<key>` with the file's content, unless the
    /// section itself has a key of that name.
    fn layers(&self, section: &str, keys: &BTreeSet<String>) -> Result<Figment, ConfigError> {
        let mut layers = Figment::new();
        for setting in self.all().filter(|s| s.section == section) {
            let setting = match setting.names_file_for(keys) {
                Some(key) => setting.read_file(key)?,
                None => setting.clone(),
            };
            layers = layers.merge(setting);
        }
        Ok(layers)
    }
}

/// The built-in defaults of a section.
fn defaults_of<T: Default + Serialize>() -> serde_json::Value {
    serde_json::to_value(T::default()).expect("a section has string keys and plain values")
}

/// The top-level keys of a section: those of its default.
fn keys_of(defaults: &serde_json::Value) -> BTreeSet<String> {
    let fields = defaults.as_object().into_iter().flatten();
    fields.map(|(key, _)| key.clone()).collect()
}

fn settings_of_file(path: &Path) -> Result<Vec<Setting>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|reason| ConfigError::Unreadable {
        path: path.to_owned(),
        reason,
    })?;
    let text = without_mark(&text);
    let sections: Dict =
        toml::from_str(text).map_err(|error| ConfigError::syntax(path, text, &error))?;
    let mut settings = Vec::new();
    for (section, content) in sections {
        match content {
            Value::Dict(_, keys) => settings.extend(
                keys.into_iter()
                    .map(|(key, value)| Setting::from_file(path, &section, key, value)),
            ),
            _ => return Err(ConfigError::not_a_section(path, section)),
        }
        if !SECTIONS.contains(&section.as_str()) {
            return Err(ConfigError::unknown_section(
                format!("file {}", path.display()),
                section,
            ));
        }
    }
    Ok(settings)
}

/// Sorted by name, so that the result does not depend on the order of the environment: `X_FILE` comes after `X`.
fn settings_of_environment(
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<Setting>, ConfigError> {
    let mut variables: Vec<_> = environment.into_iter().collect();
    variables.sort();
    variables
        .iter()
        .filter_map(|(name, value)| Setting::from_variable(name, value).transpose())
        .collect()
}

/// Variables of other programs may have any value.
fn process_environment() -> Result<Vec<(String, String)>, ConfigError> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| Setting::is_variable(name));
    variables
        .map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(ConfigError::UnreadableVariable { name }),
        })
        .collect()
}

fn refuse_unknown_section(setting: &Setting) -> Result<(), ConfigError> {
    if SECTIONS.contains(&setting.section.as_str()) {
        return Ok(());
    }
    Err(ConfigError::unknown_section(
        setting.origin.clone(),
        setting.section.clone(),
    ))
}

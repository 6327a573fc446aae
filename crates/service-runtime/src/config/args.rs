//! The arguments by which every program of Tidemark takes its configuration.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};

use super::{ConfigError, ConfigSource};

/// To be flattened into a program's arguments: `#[command(flatten)] config: ConfigArgs`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConfigArgs {
    /// The configuration file (TOML); without one the built-in defaults hold
    #[arg(long, env = super::FILE_VARIABLE, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(named_file), global = true)]
    pub config: Option<PathBuf>,

    /// One setting, which overrides the file and the environment; may be repeated
    #[arg(long, value_name = "SECTION.KEY=VALUE", value_parser = parse_override, global = true)]
    pub set: Vec<(String, String)>,
}

impl ConfigArgs {
    /// The configuration that these arguments and the environment of this process describe.
    ///
    /// # Errors
    /// As [`ConfigSource::load`].
    pub fn load(&self) -> Result<ConfigSource, ConfigError> {
        ConfigSource::load(self.config.as_deref(), &self.set)
    }
}

fn named_file(name: OsString) -> Result<PathBuf, String> {
    if name.is_empty() {
        let variable = super::FILE_VARIABLE;
        return Err(format!(
            "must be the name of a file; without --config the name is taken from {variable}"
        ));
    }
    Ok(name.into())
}

fn parse_override(text: &str) -> Result<(String, String), String> {
    let (path, value) = text
        .split_once('=')
        .ok_or("must be <section>.<key>=<value>")?;
    Ok((path.trim().to_owned(), value.to_owned()))
}

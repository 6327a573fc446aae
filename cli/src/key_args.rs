//! The arguments of `tidemark key`.

use std::path::PathBuf;

use access::Scope;
use clap::Subcommand;
use schemas::TimestampMs;

use crate::times;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Generate a key and print it once
    New(NewKeyArgs),
    /// List the keys of a file
    List {
        /// The file; that of auth.keys_file if absent
        #[arg(long)]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct NewKeyArgs {
    /// The holder's name, for readers of the list
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: String,
    /// What its holder may do: send:any, read:any, admin; may be repeated
    #[arg(long, required = true)]
    pub(crate) scope: Vec<Scope>,
    /// When it expires (RFC 3339)
    #[arg(long, value_parser = times::argument)]
    pub(crate) expires: Option<TimestampMs>,
    /// Append the entry to this file, which is created if absent, instead of printing it
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
}

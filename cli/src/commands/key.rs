use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write as _},
    path::Path,
};

use access::{AuthConfig, KeyEntry, Scope, ServiceKey};
use anyhow::Context as _;
use schemas::TimestampMs;
use serde_json::json;
use service_runtime::ConfigSource;
use time::OffsetDateTime;

use crate::{
    failure::Failure,
    key_args::{KeyCommand, NewKeyArgs},
    output::Table,
};

pub(super) fn run(source: &ConfigSource, command: KeyCommand, json: bool) -> anyhow::Result<()> {
    match command {
        KeyCommand::New(args) => new(args, json),
        KeyCommand::List { file } => {
            let auth: AuthConfig = source.section("auth")?;
            let file = file.or(auth.keys_file).ok_or_else(|| {
                Failure::Usage("--file is missing, and auth.keys_file is not set".to_owned())
            })?;
            list(&file, json)
        }
    }
}

/// The key itself is printed on standard output and stored nowhere.
fn new(args: NewKeyArgs, json: bool) -> anyhow::Result<()> {
    let key = ServiceKey::generate()?;
    let expires = args.expires.map(date).transpose()?;
    let scopes = args.scope.into_iter().collect();
    let entry = KeyEntry::of(&key, args.name, scopes, expires);
    if let Some(file) = &args.file {
        append(file, &entry)?;
        eprintln!(
            "the entry is in {}; the key is not stored: copy it now",
            file.display()
        );
    }
    let text = key.text();
    if json {
        let entry = serde_json::to_value(&entry)?;
        println!("{}", json!({ "key": text.expose(), "entry": entry }));
    } else if args.file.is_some() {
        println!("{}", text.expose());
    } else {
        println!("{}\n\n{}", text.expose(), entry.to_toml().trim_end());
    }
    Ok(())
}

fn list(file: &Path, json: bool) -> anyhow::Result<()> {
    let entries = entries(file, &read(file)?)?;
    if json {
        for entry in entries {
            let expires = entry.expires.map(shown);
            let line = json!({ "id": entry.id, "name": entry.name, "scopes": entry.scopes, "expires": expires });
            println!("{line}");
        }
        return Ok(());
    }
    let mut table = Table::new(["id", "name", "scopes", "expires"]);
    for entry in entries {
        let scopes: Vec<String> = entry.scopes.iter().map(Scope::to_string).collect();
        let expires = entry.expires.map_or_else(|| "never".to_owned(), shown);
        table.row([entry.id, entry.name, scopes.join(" "), expires]);
    }
    print!("{table}");
    Ok(())
}

/// Appends in one write, so that a service never reads half an entry.
fn append(file: &Path, entry: &KeyEntry) -> anyhow::Result<()> {
    let before = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read {}", file.display()))?,
    };
    // Nothing is appended to a file that is not valid.
    entries(file, &before)?;
    let joint = if before.is_empty() { "" } else { "\n" };
    let text = format!("{joint}{}", entry.to_toml());
    let mut open = OpenOptions::new();
    let opened = open.create(true).append(true).open(file);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))
}

fn entries(file: &Path, text: &str) -> Result<Vec<KeyEntry>, Failure> {
    KeyEntry::all_of(text)
        .map_err(|problem| Failure::Usage(format!("{} {problem}", file.display())))
}

fn date(TimestampMs(ms): TimestampMs) -> anyhow::Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000)
        .context("--expires is beyond the calendar")
}

fn shown(date: OffsetDateTime) -> String {
    crate::times::rfc3339(TimestampMs(date.unix_timestamp() * 1_000))
}

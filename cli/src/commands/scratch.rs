//! Scratches: projections of their own, beside the live ones, as they were at an earlier time.

use anyhow::Context as _;
use message_store::{MessageStore, MySqlConfig, RebuildLock, ScratchNote};
use schemas::TimestampMs;
use serde_json::json;
use unread_store::RedisConfig;

use crate::{
    args::ScratchCommand, context::CommandContext, failure::Failure, output::Table, times,
};

/// What the names of all databases of scratches begin with. The live prefix must be another.
const DATABASES: &str = "scratch_";

/// Names the live projections in place of a scratch.
pub(super) const LIVE: &str = "live";

/// The name of a scratch, on the command line: lowercase letters and digits, so that the names of one scratch's databases never begin like those of another.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    match text.len() {
        1..=16 if text != LIVE && text.chars().all(is_plain) => Ok(text.to_owned()),
        _ => Err(format!(
            "must be 1 to 16 lowercase letters and digits, and not `{LIVE}`"
        )),
    }
}

/// The name of a scratch, or [`LIVE`].
pub(crate) fn other_name(text: &str) -> Result<String, String> {
    match text {
        LIVE => Ok(text.to_owned()),
        _ => name(text),
    }
}

/// What a scratch has, for people.
pub(super) fn describe(note: &ScratchNote) -> String {
    let as_of = times::rfc3339(note.as_of);
    match &note.slice {
        None => format!("as of {as_of}"),
        Some(from) => format!("a slice from {from} up to {as_of}"),
    }
}

/// The settings with which a program reads the scratch instead of the live projections.
pub(super) fn settings(
    context: &CommandContext,
    name: &str,
    as_of: TimestampMs,
) -> anyhow::Result<[(String, String); 3]> {
    let mysql: MySqlConfig = context.source.section("mysql")?;
    if mysql.database_prefix.starts_with(DATABASES) {
        let prefix = mysql.database_prefix;
        let why = format!(
            "mysql.database_prefix is {prefix}: the live one must not begin with {DATABASES}"
        );
        return Err(Failure::Usage(why).into());
    }
    let redis: RedisConfig = context.source.section("redis")?;
    Ok([
        ("kafka.as_of".to_owned(), times::rfc3339(as_of)),
        ("mysql.database_prefix".to_owned(), prefix(name)),
        (
            "redis.key_prefix".to_owned(),
            format!("{}{}", prefix(name), redis.key_prefix),
        ),
    ])
}

fn prefix(name: &str) -> String {
    format!("{DATABASES}{name}_")
}

/// The same context, with the scratch in place of the live projections.
pub(super) fn context_of(
    context: &CommandContext,
    name: &str,
    as_of: TimestampMs,
) -> anyhow::Result<CommandContext> {
    with_settings(context, &settings(context, name, as_of)?)
}

/// The same context with these settings.
pub(super) fn with_settings(
    context: &CommandContext,
    settings: &[(String, String)],
) -> anyhow::Result<CommandContext> {
    Ok(CommandContext {
        source: context.source.with_overrides(settings)?,
        credentials: context.credentials.clone(),
    })
}

/// The store with the databases of a scratch, or of all whose names begin so.
fn store(context: &CommandContext, database_prefix: String) -> anyhow::Result<MessageStore> {
    let mysql: MySqlConfig = context.source.section("mysql")?;
    Ok(MessageStore::connect(&MySqlConfig {
        database_prefix,
        ..mysql
    }))
}

/// What the scratch of this name is, if there is one.
pub(super) async fn find(
    context: &CommandContext,
    name: &str,
) -> anyhow::Result<Option<ScratchNote>> {
    Ok(store(context, prefix(name))?.scratch_note().await?)
}

/// Keeps others from writing to a scratch, or dropping it, for as long as the lock lives.
///
/// # Errors
/// Another process does one of these.
pub(super) async fn lock(context: &CommandContext, name: &str) -> anyhow::Result<RebuildLock> {
    let store = store(context, prefix(name))?;
    let first = store.layout().shards().next();
    let first = first.context("there is a database at least")?;
    let lock = RebuildLock::take(&store, first, "scratch").await?;
    let taken = || {
        Failure::Usage(format!(
            "another process writes scratch {name}: wait for it"
        ))
    };
    Ok(lock.ok_or_else(taken)?)
}

/// What a scratch is.
///
/// # Errors
/// There is none of this name.
pub(super) async fn note(context: &CommandContext, name: &str) -> anyhow::Result<ScratchNote> {
    let found = find(context, name).await?;
    Ok(found.ok_or_else(|| there_is_none(name))?)
}

pub(super) async fn run(
    context: &CommandContext,
    command: &ScratchCommand,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        ScratchCommand::List => list(context, json).await,
        ScratchCommand::Drop { name } => drop_it(context, name).await,
    }
}

async fn list(context: &CommandContext, as_json: bool) -> anyhow::Result<()> {
    let mut table = Table::new(["name", "what", "complete"]);
    for name in store(context, DATABASES.to_owned())?.scratches().await? {
        let Some(note) = find(context, &name).await? else {
            if as_json {
                let line = json!({"name": name, "as_of": null, "complete": false});
                println!("{line}");
            }
            table.row([name, "stopped before it began".to_owned(), "no".to_owned()]);
            continue;
        };
        if as_json {
            let as_of = times::rfc3339(note.as_of);
            let line = json!({"name": name, "as_of": as_of, "slice": note.slice, "complete": note.is_complete});
            println!("{line}");
        }
        let complete = if note.is_complete { "yes" } else { "no" };
        table.row([name, describe(&note), complete.to_owned()]);
    }
    if !as_json {
        print!("{table}");
    }
    Ok(())
}

async fn drop_it(context: &CommandContext, name: &str) -> anyhow::Result<()> {
    let _lock = lock(context, name).await?;
    let scratch = context_of(context, name, TimestampMs::default())?;
    let store = scratch.messages()?;
    for slot in &scratch.unread()?.connect().await? {
        slot.drop_all().await?;
    }
    match store.drop_databases().await? {
        0 => Err(there_is_none(name).into()),
        dropped => {
            println!("{dropped} databases dropped");
            Ok(())
        }
    }
}

fn there_is_none(name: &str) -> Failure {
    Failure::NotFound(format!(
        "there is no scratch {name}; `tidemark scratch list` lists them"
    ))
}

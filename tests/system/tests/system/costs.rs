//! docs/SECURITY.md has a table of what each call, frame and command may cost others. Whoever adds one finds out here that its row is missing.

use std::{collections::BTreeSet, ffi::OsStr, fs, io, path::Path};

use anyhow::{Context as _, Result, ensure};
use prost_reflect::{DescriptorPool, EnumDescriptor, MessageDescriptor};
use schemas::FILE_DESCRIPTOR_SET;
use serde_json::Value;
use system_tests::{Servers, TestEnv, run};

const SECURITY: &str = include_str!("../../../../docs/SECURITY.md");
const HEADING: &str = "## Who pays for what";
/// The gateway describes its frames; its calls over HTTP are these.
const GATEWAY_CALLS: [&str; 2] = ["GET /v1/connect", "GET /v1/presence"];

#[test]
fn every_call_frame_and_command_says_who_pays_for_it() {
    run(Servers::Shared, async |env| {
        let mut expected: BTreeSet<String> = GATEWAY_CALLS.map(str::to_owned).into();
        for service in ["ingest", "query-api"] {
            expected.extend(calls(env, service).await?);
        }
        expected.extend(frames(env).await?);
        expected.extend(commands()?);
        let rows = rows()?;
        let listed: Vec<&str> = rows.iter().flat_map(|row| names(row[0])).collect();
        let described: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        ensure!(
            listed.len() == described.len(),
            "one has two rows: {listed:?}"
        );
        let missing: Vec<&String> = expected.difference(&described).collect();
        ensure!(missing.is_empty(), "{HEADING} has no row of {missing:?}");
        let gone: Vec<&String> = described.difference(&expected).collect();
        ensure!(
            gone.is_empty(),
            "{HEADING} has rows of {gone:?}, which there are not"
        );
        Ok(())
    });
}

async fn calls(env: &TestEnv, service: &str) -> Result<Vec<String>> {
    let document = env.get(service, "/openapi.json").await?;
    let paths = document["paths"].as_object().context("no paths")?;
    let calls = paths.iter().flat_map(|(path, operations)| {
        let methods = operations.as_object().into_iter().flatten();
        methods.map(move |(method, _)| format!("{} {path}", method.to_uppercase()))
    });
    Ok(calls.collect())
}

async fn frames(env: &TestEnv) -> Result<Vec<String>> {
    let document = env.get("gateway", "/asyncapi.json").await?;
    let messages = document["operations"]["receive"]["messages"].as_array();
    let messages = messages.context("no frames of devices")?;
    let name = |message: &Value| {
        let reference = message["$ref"].as_str().context("no reference")?;
        let (_, id) = reference.rsplit_once('/').context("no path")?;
        Ok(format!("frame {id}"))
    };
    messages.iter().map(name).collect()
}

/// The kinds of `chat.inbound`; of those that have several kinds themselves, these.
fn commands() -> Result<Vec<String>> {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET)?;
    let mut commands = one_of(&message(&pool, "chat.v1.InboundCommand")?, "command ");
    let actions = one_of(
        &message(&pool, "chat.v1.ChangeGroup")?,
        "command change_group.",
    );
    let kinds = pool.get_enum_by_name("chat.v1.ChangeKind");
    let kinds = change_kinds(&kinds.context("no kinds of changes")?);
    ensure!(
        commands.len() > 5 && actions.len() > 5,
        "{commands:?} {actions:?}"
    );
    commands.retain(|command| {
        !["command change_group", "command change_message"].contains(&&**command)
    });
    commands.extend(actions);
    commands.extend(kinds);
    Ok(commands)
}

fn message(pool: &DescriptorPool, name: &str) -> Result<MessageDescriptor> {
    pool.get_message_by_name(name)
        .with_context(|| format!("{name} is gone"))
}

fn one_of(message: &MessageDescriptor, prefix: &str) -> Vec<String> {
    let fields = message.oneofs().filter(|one| !one.is_synthetic());
    let fields = fields.flat_map(|one| one.fields().collect::<Vec<_>>());
    fields
        .map(|field| format!("{prefix}{}", field.name()))
        .collect()
}

fn change_kinds(kinds: &EnumDescriptor) -> Vec<String> {
    let names = kinds.values().filter(|value| value.number() != 0);
    let kind = |name: &str| name.trim_start_matches("CHANGE_KIND_").to_lowercase();
    names
        .map(|value| format!("command change_message.{}", kind(value.name())))
        .collect()
}

/// The cells of each row.
fn rows() -> Result<Vec<[&'static str; 5]>> {
    let (_, section) = SECURITY
        .split_once(HEADING)
        .with_context(|| format!("no {HEADING}"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &'static str| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let cells: Option<[&str; 5]> = cells.try_into().ok();
        let cells = cells.filter(|cells| cells.iter().all(|cell| !cell.is_empty()));
        cells.with_context(|| format!("a row has five cells with something in each: {row}"))
    };
    rows.map(cells).collect()
}

/// What is in backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_the_table_names_is_there() {
    let mut sources = String::new();
    read_sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."),
        &mut sources,
    )
    .unwrap();
    for row in rows().unwrap() {
        for test in names(row[4]) {
            let declared = match test.strip_prefix("make hostile ONLY=") {
                Some(way) => format!("name: \"{way}\""),
                None => format!("fn {test}("),
            };
            assert!(sources.contains(&declared), "there is no test {test}");
        }
    }
}

fn read_sources(directory: &Path, sources: &mut String) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&name) {
            read_sources(&path, sources)?;
        } else if name.ends_with(".rs") {
            sources.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

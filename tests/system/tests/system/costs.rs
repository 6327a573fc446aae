//! docs/SECURITY.md has a table of what each call, frame and command may cost others. Whoever adds one finds out here that its row is missing.

use std::collections::BTreeSet;

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
        let listed: Vec<&str> = rows.iter().flat_map(|row| names(row)).collect();
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

/// The first cell of each row.
fn rows() -> Result<Vec<&'static str>> {
    let (_, section) = SECURITY
        .split_once(HEADING)
        .with_context(|| format!("no {HEADING}"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    for row in &rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let is_whole = cells.len() == 5 && cells.iter().all(|cell| !cell.is_empty());
        ensure!(
            is_whole,
            "a row has five cells with something in each: {row}"
        );
    }
    Ok(rows
        .into_iter()
        .filter_map(|row| row.split(" | ").next())
        .collect())
}

/// What is in backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

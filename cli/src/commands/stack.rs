//! The local stack: servers and services as processes under `.run/`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use dev_stack::{ServiceSpec, Stack, StackConfig};
use event_log::{Admin, KafkaConfig};
use gateway::PageConfig;
use message_store::{MessageStore, MySqlConfig, ServerConfig};
use serde::Serialize;
use service_runtime::ConfigSource;
use toml::{Table, Value};

use super::rules;
use crate::{args::StackCommand, failure::Failure, last_audit::LastAudit, times};

pub(super) fn run(
    source: &ConfigSource,
    command: StackCommand,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let config: StackConfig = source.section("stack")?;
    match command {
        StackCommand::Install => dev_stack::install(&config)?,
        StackCommand::Up => {
            up(source)?;
            report(&Stack::new(config)?, json)?;
        }
        StackCommand::Down => println!("stopped: {}", listed(&Stack::new(config)?.stop()?)),
        StackCommand::Clean => {
            let stack = Stack::new(config)?;
            let stopped = stack.clean()?;
            let _ = fs::remove_file(config_file(stack.config()));
            LastAudit::forget(&stack.config().run_dir)?;
            let _ = fs::remove_dir(&stack.config().run_dir);
            println!("stopped: {}; data dropped", listed(&stopped));
        }
        StackCommand::Exec { command } => {
            let code = dev_stack::exec_with_fresh_servers(&command)?;
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "nothing ran".to_owned()
    } else {
        names.join(", ")
    }
}

/// Starts the processes that do not run: servers, then topics and tables, then services.
pub(super) fn up(source: &ConfigSource) -> anyhow::Result<Stack> {
    let config: StackConfig = source.section("stack")?;
    let stack = Stack::new(config)?;
    super::config::check_sections(source)?;
    stack.check_ports()?;
    let text = config_text(source, &stack)?;
    refuse_other_settings(&stack, &text)?;
    dev_stack::install(stack.config())?;
    stack.start_servers()?;
    let file = write_config(stack.config(), &text)?;
    let source = ConfigSource::load(Some(&file), &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(prepare(&source))?;
    stack.start_services(&services(stack.config(), &file)?)?;
    Ok(stack)
}

/// The configuration file of the stack's services, which commands use too.
pub(super) fn config_file(config: &StackConfig) -> PathBuf {
    config.run_dir.join(dev_stack::CONFIG_FILE)
}

async fn prepare(source: &ConfigSource) -> anyhow::Result<()> {
    let kafka = source.section::<KafkaConfig>("kafka")?;
    Admin::new(&kafka)?.apply().await?;
    rules::begin_with_the_newest(&kafka).await?;
    let store = MessageStore::connect(&source.section::<MySqlConfig>("mysql")?);
    store.apply_schema(times::now()).await?;
    store.close().await;
    Ok(())
}

fn services(config: &StackConfig, file: &Path) -> anyhow::Result<Vec<ServiceSpec>> {
    let ports = &config.ports;
    // In the order of their dependencies.
    let services = [
        ("sequencer", ports.sequencer),
        ("projector-mysql", ports.projector_mysql),
        ("projector-unread", ports.projector_unread),
        ("query-api", ports.query_api),
        ("ingest", ports.ingest),
        ("gateway", ports.gateway),
    ];
    services
        .into_iter()
        .map(|(name, port)| {
            Ok(ServiceSpec {
                name: name.to_owned(),
                args: vec![
                    name.to_owned(),
                    "--config".to_owned(),
                    file.display().to_string(),
                ],
                env: Vec::new(),
                program: None,
                ready: format!("http://127.0.0.1:{port}/readyz").parse()?,
            })
        })
        .collect()
}

/// The configuration file of services and commands: the given settings, with the stack's addresses.
fn config_text(source: &ConfigSource, stack: &Stack) -> anyhow::Result<String> {
    let mut file = source.said()?;
    for (name, settings) in addresses(stack)? {
        let section = file.entry(name).or_insert_with(|| Table::new().into());
        if let Value::Table(section) = section {
            section.extend(settings);
        }
    }
    for (name, key, value) in page(stack.config())? {
        let section = file.entry(name).or_insert_with(|| Table::new().into());
        if let Value::Table(section) = section {
            section.entry(key).or_insert(value);
        }
    }
    let settings = toml::to_string(&file)?;
    Ok(format!("# Written by `tidemark stack up`.\n{settings}"))
}

/// The settings that the chat needs, by section and key, unless they are set elsewhere: the gateway serves the chat, and the chat may call the other
/// services.
fn page(config: &StackConfig) -> anyhow::Result<[(&'static str, &'static str, Value); 2]> {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let page = PageConfig {
        ingest_url: url(config.ports.ingest),
        query_url: url(config.ports.query_api),
    };
    let origins = super::page::origins(config.ports.gateway, false);
    Ok([
        ("gateway", "page", Value::try_from(page)?),
        ("http", "allowed_origins", Value::try_from(origins)?),
    ])
}

/// A running service keeps the settings with which it was started.
fn refuse_other_settings(stack: &Stack, text: &str) -> anyhow::Result<()> {
    let running = |name: &&str| stack.pid(name).is_some();
    let running: Vec<&str> = dev_stack::SERVICE_NAMES
        .into_iter()
        .filter(running)
        .collect();
    let path = config_file(stack.config());
    if running.is_empty() || !path.exists() {
        return Ok(());
    }
    let with = || format!("cannot read {}", path.display());
    let old = fs::read_to_string(&path).with_context(with)?;
    let old = toml::from_str(&old).with_context(with)?;
    let changed = changed(&old, &toml::from_str(text)?);
    if changed.is_empty() {
        return Ok(());
    }
    let (running, changed) = (running.join(", "), changed.join(", "));
    let why = format!(
        "{running} run with other settings: {changed}; `tidemark stack down` first, or start with `--config {}`",
        path.display()
    );
    Err(Failure::Usage(why).into())
}

/// The settings that differ, as `section.key`.
fn changed(old: &Table, new: &Table) -> Vec<String> {
    let (old, new) = (settings(old), settings(new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differ = |name: &&String| old.get(*name) != new.get(*name);
    names.into_iter().filter(differ).cloned().collect()
}

/// The values as text: `--set` has no other form.
fn settings(file: &Table) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for (section, keys) in file {
        for (key, value) in keys.as_table().into_iter().flatten() {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            settings.insert(format!("{section}.{key}"), text);
        }
    }
    settings
}

fn write_config(config: &StackConfig, text: &str) -> anyhow::Result<PathBuf> {
    let path = config_file(config);
    write_for_the_owner(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::canonicalize(&path)?)
}

/// Only the owner may read the file: it can have passwords.
fn write_for_the_owner(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

/// The addresses of servers and services, by section.
fn addresses(stack: &Stack) -> anyhow::Result<[(&'static str, Table); 10]> {
    let (config, endpoints) = (stack.config(), stack.endpoints());
    let server: ServerConfig = endpoints.mysql_url.parse().map_err(anyhow::Error::msg)?;
    let mut mysql = table([
        ("host", server.host.clone().into()),
        ("port", i64::from(server.port).into()),
    ]);
    if let (Some(user), Some(password)) = (server.user, server.password) {
        mysql.extend(table([
            ("user", user.into()),
            ("password", password.expose().into()),
        ]));
    }
    let listen = |port: u16| table([("listen", format!("127.0.0.1:{port}").into())]);
    let ports = &config.ports;
    let replication = i64::from(config.kafka_nodes.min(3));
    Ok([
        (
            "kafka",
            table([
                ("brokers", endpoints.kafka_brokers.into()),
                ("replication", replication.into()),
            ]),
        ),
        (
            "redis",
            table([
                ("url", endpoints.redis_url.into()),
                ("cluster", config.redis_cluster.into()),
            ]),
        ),
        (
            "mysql",
            table([("servers", vec![Value::from(mysql)].into())]),
        ),
        ("ingest", listen(ports.ingest)),
        ("sequencer", listen(ports.sequencer)),
        ("projector_unread", listen(ports.projector_unread)),
        ("projector_mysql", listen(ports.projector_mysql)),
        ("query_api", listen(ports.query_api)),
        ("gateway", listen(ports.gateway)),
        ("stack", Table::try_from(config)?),
    ])
}

fn table<const N: usize>(settings: [(&str, Value); N]) -> Table {
    let named = settings.map(|(name, value)| (name.to_owned(), value));
    named.into_iter().collect()
}

#[derive(Serialize)]
struct UpReport<'a> {
    ingest: String,
    query: String,
    gateway: String,
    processes: &'a [dev_stack::ProcessStatus],
}

fn report(stack: &Stack, json: bool) -> anyhow::Result<()> {
    let processes = stack.status();
    let ports = &stack.config().ports;
    if json {
        let report = UpReport {
            ingest: format!("http://127.0.0.1:{}", ports.ingest),
            query: format!("http://127.0.0.1:{}", ports.query_api),
            gateway: format!("http://127.0.0.1:{}", ports.gateway),
            processes: &processes,
        };
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", super::status::process_table(&processes));
        println!("\nA small chat: http://127.0.0.1:{}/", ports.gateway);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_are_named() {
        let of = |text| toml::from_str::<Table>(text).unwrap();
        let old = of("[ingest]\nlinger_ms = 1\n[redis]\nurl = 'a'\ncluster = false");
        let new = of("[redis]\nurl = 'b'\ncluster = false\n[stack.ports]\nredis = 1");
        let names = ["ingest.linger_ms", "redis.url", "stack.ports"];
        assert_eq!(changed(&old, &new), names);
        assert!(changed(&new, &new).is_empty());
        let as_text = of("[ingest]\nlinger_ms = '1'");
        assert!(changed(&as_text, &of("[ingest]\nlinger_ms = 1")).is_empty());
    }
}

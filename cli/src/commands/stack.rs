//! The local stack: servers and services as processes under `.run/`.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use event_log::{Admin, KafkaConfig};
use message_store::{MessageStore, MySqlConfig, ServerConfig};
use native_stack::{ServiceSpec, Stack, StackConfig};
use serde::Serialize;
use service_runtime::ConfigSource;
use toml::{Table, Value};

use crate::{args::StackCommand, times};

pub(super) fn run(
    source: &ConfigSource,
    command: StackCommand,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let config: StackConfig = source.section("stack")?;
    match command {
        StackCommand::Install => native_stack::install(&config)?,
        StackCommand::Up => {
            up(source)?;
            report(&Stack::new(config)?, json)?;
        }
        StackCommand::Down => println!("stopped: {}", listed(&Stack::new(config)?.stop()?)),
        StackCommand::Clean => {
            let stack = Stack::new(config)?;
            let stopped = stack.clean()?;
            let _ = fs::remove_file(config_file(stack.config()));
            let _ = fs::remove_file(stack.config().run_dir.join(super::audit::LAST_AUDIT));
            let _ = fs::remove_dir(&stack.config().run_dir);
            println!("stopped: {}; data dropped", listed(&stopped));
        }
        StackCommand::Exec { command } => {
            let code = native_stack::exec_with_fresh_servers(&command)?;
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

/// Starts what is not running: servers, then topics and tables, then services.
pub(super) fn up(source: &ConfigSource) -> anyhow::Result<Stack> {
    let config: StackConfig = source.section("stack")?;
    let stack = Stack::new(config)?;
    stack.check_ports()?;
    native_stack::install(stack.config())?;
    stack.start_servers()?;
    let file = write_config(&stack)?;
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
    config.run_dir.join("tidemark.toml")
}

async fn prepare(source: &ConfigSource) -> anyhow::Result<()> {
    Admin::new(&source.section::<KafkaConfig>("kafka")?)?
        .apply()
        .await?;
    let store = MessageStore::connect(&source.section::<MySqlConfig>("mysql")?);
    store.apply_schema(times::now()).await?;
    store.close().await;
    Ok(())
}

fn services(config: &StackConfig, file: &std::path::Path) -> anyhow::Result<Vec<ServiceSpec>> {
    let ports = &config.ports;
    // Those that others wait for come first.
    let services = [
        ("sequencer", ports.sequencer),
        ("projector-mysql", ports.projector_mysql),
        ("projector-unread", ports.projector_unread),
        ("query-api", ports.query_api),
        ("ingest", ports.ingest),
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

/// Writes down where everything is, so that services and commands find it.
fn write_config(stack: &Stack) -> anyhow::Result<PathBuf> {
    let (config, endpoints) = (stack.config(), stack.endpoints());
    let server: ServerConfig = endpoints.mysql_url.parse().map_err(anyhow::Error::msg)?;
    let mut mysql = Table::from_iter([
        ("host".to_owned(), Value::from(server.host.clone())),
        ("port".to_owned(), Value::from(i64::from(server.port))),
    ]);
    if let (Some(user), Some(password)) = (server.user, server.password) {
        mysql.insert("user".to_owned(), Value::from(user));
        mysql.insert("password".to_owned(), Value::from(password.expose()));
    }
    let listen = |port: u16| section([("listen", Value::from(format!("127.0.0.1:{port}")))]);
    let ports = &config.ports;
    let replication = i64::from(config.kafka_nodes.min(3));
    let file = Table::from_iter([
        (
            "kafka".to_owned(),
            section([
                ("brokers", Value::from(endpoints.kafka_brokers)),
                ("replication", Value::from(replication)),
            ]),
        ),
        (
            "redis".to_owned(),
            section([("url", Value::from(endpoints.redis_url))]),
        ),
        (
            "mysql".to_owned(),
            section([("servers", Value::from(vec![Value::from(mysql)]))]),
        ),
        ("ingest".to_owned(), listen(ports.ingest)),
        ("sequencer".to_owned(), listen(ports.sequencer)),
        (
            "projector_unread".to_owned(),
            listen(ports.projector_unread),
        ),
        ("projector_mysql".to_owned(), listen(ports.projector_mysql)),
        ("query_api".to_owned(), listen(ports.query_api)),
        ("stack".to_owned(), Value::try_from(config)?),
    ]);
    let path = config_file(config);
    let text = format!(
        "# Written by `tidemark stack up`.\n{}",
        toml::to_string(&file)?
    );
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::canonicalize(&path)?)
}

fn section<const N: usize>(settings: [(&str, Value); N]) -> Value {
    Value::Table(
        settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

#[derive(Serialize)]
struct UpReport<'a> {
    ingest: String,
    query: String,
    processes: &'a [native_stack::ProcessStatus],
}

fn report(stack: &Stack, json: bool) -> anyhow::Result<()> {
    let processes = stack.status();
    let ports = &stack.config().ports;
    if json {
        let report = UpReport {
            ingest: format!("http://127.0.0.1:{}", ports.ingest),
            query: format!("http://127.0.0.1:{}", ports.query_api),
            processes: &processes,
        };
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", super::status::process_table(&processes));
    }
    Ok(())
}

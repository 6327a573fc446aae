//! Throw-away servers in containers, with the settings of the native ones.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use testcontainers_modules::kafka::apache::{KAFKA_PORT, Kafka};
use testcontainers_modules::mariadb::Mariadb;
use testcontainers_modules::redis::Redis;
use testcontainers_modules::testcontainers::bollard::models::PortBinding;
use testcontainers_modules::testcontainers::runners::SyncRunner;
use testcontainers_modules::testcontainers::{ContainerRequest, Image, ImageExt};
use uuid::Uuid;

use crate::disposal::CleanUp;
use crate::{Endpoints, Memory, StackError, kafka, mariadb, probe, redis};

// The tags of compose/docker-compose.yml, so that one download serves both.
const KAFKA_TAG: &str = "4.3.1";
const REDIS_TAG: &str = "7";
const MARIADB_TAG: &str = "10.11";

const REDIS_PORT: u16 = 6379;
const MARIADB_PORT: u16 = 3306;
const MARIADB_USER: &str = include_str!("../../../compose/mariadb-user.sql");

/// From the start of a container to its readiness; the download of an image does not count.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// On the containers of one set, with a value of its own.
const OWNER_LABEL: &str = "tidemark.servers-of";
/// testcontainers removes a container when its value is dropped, which never happens to what is kept in a static or
/// to a process that is killed.
const REMOVE_CONTAINERS: &str = r#"
docker ps --all --quiet --filter "label=tidemark.servers-of=$1" | xargs -r docker rm --force --volumes
"#;

/// Whether a Docker engine answers soon. It is asked through the program `docker`, which removes the containers too.
pub(crate) fn engine_answers() -> bool {
    Command::new("timeout")
        .args(["2", "docker", "version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Kafka, Redis and MariaDB in containers, on free ports of 127.0.0.1. They are removed when the value is dropped, and
/// also when this process ends in any other way.
#[derive(Debug)]
pub(crate) struct DockerServers {
    endpoints: Endpoints,
    _clean_up: CleanUp,
}

impl DockerServers {
    /// Starts them, and downloads the images that the engine does not have.
    pub(crate) fn start() -> Result<Self, StackError> {
        let owner = Uuid::new_v4().to_string();
        let clean_up = CleanUp::arrange(REMOVE_CONTAINERS, &owner)?;
        let [kafka, redis, mariadb] = start_all(&owner)?;
        Ok(Self {
            endpoints: Endpoints {
                kafka_brokers: format!("127.0.0.1:{kafka}"),
                redis_url: format!("redis://127.0.0.1:{redis}"),
                mysql_url: format!("mysql://tidemark:tidemark@127.0.0.1:{mariadb}"),
            },
            _clean_up: clean_up,
        })
    }

    /// Where clients find the servers.
    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }
}

/// Starts the three at the same time and gives their ports. testcontainers blocks on a runtime of its own, which a
/// thread of somebody else's runtime must not do: hence each has a thread of its own.
fn start_all(owner: &str) -> Result<[u16; 3], StackError> {
    thread::scope(|scope| {
        let servers = [
            scope.spawn(|| {
                let port = start(kafka_request(), KAFKA_PORT.as_u16(), owner)?;
                reachable("apache/kafka", probe::kafka_brokers(port, 1)).map(|()| port)
            }),
            scope.spawn(|| {
                let port = start(redis_request(), REDIS_PORT, owner)?;
                reachable("redis", probe::redis_ping(port)).map(|()| port)
            }),
            scope.spawn(|| {
                let port = start(mariadb_request(), MARIADB_PORT, owner)?;
                reachable("mariadb", probe::mariadb_greeting(port)).map(|()| port)
            }),
        ];
        let ports = servers.map(|server| {
            server
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let [kafka, redis, mariadb] = ports;
        Ok([kafka?, redis?, mariadb?])
    })
}

/// Starts one container, whose port is published on a free port of 127.0.0.1 only, and gives that port.
fn start<I: Image>(
    request: ContainerRequest<I>,
    port: u16,
    owner: &str,
) -> Result<u16, StackError> {
    let image = request.descriptor();
    let failed = |error: &dyn std::error::Error| StackError::Container {
        image: image.clone(),
        reason: error.to_string(),
    };
    tracing::info!(image, "starting a container");
    let container = request
        .with_label(OWNER_LABEL, owner)
        .with_startup_timeout(START_TIMEOUT)
        .with_host_config_modifier(move |host| {
            let binding = PortBinding {
                host_ip: Some("127.0.0.1".to_owned()),
                host_port: None,
            };
            host.publish_all_ports = Some(false);
            host.port_bindings = Some(HashMap::from([(format!("{port}/tcp"), Some(vec![binding]))]));
        })
        .start()
        .map_err(|error| failed(&error))?;
    let published = container
        .get_host_port_ipv4(port)
        .map_err(|error| failed(&error))?;
    // The clean-up removes it, whichever way this process ends.
    std::mem::forget(container);
    Ok(published)
}

/// A server is ready by its own log, but the engine may be on another machine, whose loopback is not ours.
fn reachable(image: &str, probed: Result<(), String>) -> Result<(), StackError> {
    probed.map_err(|reason| StackError::Container {
        image: image.to_owned(),
        reason,
    })
}

fn kafka_request() -> ContainerRequest<Kafka> {
    /// testcontainers sets these: it adds a listener for itself.
    const OF_THE_IMAGE: [&str; 6] = [
        "process.roles",
        "controller.listener.names",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "listeners",
        "advertised.listeners",
    ];
    let config = kafka::CONFIG
        .replace("{{replication}}", "1")
        .replace("{{min_insync}}", "1");
    let heap = format!("-Xmx{}m", Memory::for_tests().kafka_heap_mib);
    let request = Kafka::default()
        .with_jvm_image()
        .with_tag(KAFKA_TAG)
        .with_env_var("KAFKA_HEAP_OPTS", heap);
    settings(&config, &OF_THE_IMAGE).fold(request, |request, (name, value)| {
        let variable = format!("KAFKA_{}", name.to_uppercase().replace('.', "_"));
        request.with_env_var(variable, value)
    })
}

fn redis_request() -> ContainerRequest<Redis> {
    const OF_THE_IMAGE: [&str; 4] = ["bind", "protected-mode", "daemonize", "logfile"];
    let options = settings(redis::CONFIG, &OF_THE_IMAGE)
        .flat_map(|(name, value)| [format!("--{name}"), value.to_owned()]);
    Redis::default()
        .with_tag(REDIS_TAG)
        .with_cmd(["redis-server".to_owned()].into_iter().chain(options))
}

fn mariadb_request() -> ContainerRequest<Mariadb> {
    const OF_THE_IMAGE: [&str; 3] = ["socket", "pid-file", "bind-address"];
    let memory = Memory::for_tests();
    let config = mariadb::CONFIG
        .replace("{{buffer_pool_mib}}", &memory.mariadb_buffer_pool_mib.to_string())
        .replace("{{redo_log_mib}}", &memory.mariadb_redo_log_mib.to_string());
    let options = settings(&config, &OF_THE_IMAGE).map(|(name, value)| match value {
        "" => format!("--{name}"),
        value => format!("--{name}={value}"),
    });
    Mariadb::default()
        .with_init_sql(MARIADB_USER.as_bytes().to_vec())
        .with_tag(MARIADB_TAG)
        .with_cmd(options.collect::<Vec<_>>())
}

/// The settings of a native server's template that hold in a container too: not the given ones, and none with a port
/// or a path that is still to be filled in.
fn settings<'a>(
    config: &'a str,
    of_the_image: &'a [&str],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    config
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '[']) && !line.contains("{{"))
        .map(|line| {
            let (name, value) = line.split_once(['=', ' ']).unwrap_or((line, ""));
            (name, value.trim_matches('"'))
        })
        .filter(|(name, _)| !of_the_image.contains(name))
}

//! Throw-away servers in containers, with the settings of the native ones.

mod image;

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use testcontainers_modules::testcontainers::bollard::models::PortBinding;
use testcontainers_modules::testcontainers::runners::SyncRunner;
use testcontainers_modules::testcontainers::{ContainerRequest, Image, ImageExt};
use uuid::Uuid;

use crate::disposal::CleanUp;
use crate::{Endpoints, StackError, probe};

/// From the start of a container to its readiness; the download of an image does not count.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// A label of the containers of one set; each set has its own value.
const OWNER_LABEL: &str = "tidemark.servers-of";
/// testcontainers removes a container when its value is dropped, which does not happen to a value in a static, or in a process that is killed.
const REMOVE_CONTAINERS: &str = r#"
docker ps --all --quiet --filter "$1" | xargs -r docker rm --force --volumes
"#;

/// Whether a Docker engine answers soon. Asks through the program `docker`, which also removes the containers.
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
    /// Starts the servers, and downloads the images that the engine lacks.
    pub(crate) fn start() -> Result<Self, StackError> {
        let owner = Uuid::new_v4().to_string();
        let clean_up = CleanUp::arrange(REMOVE_CONTAINERS, format!("label={OWNER_LABEL}={owner}"))?;
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

    /// The addresses of the servers, for clients.
    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }
}

/// Starts all three at the same time and returns their ports. testcontainers blocks on a runtime of its own, which is not allowed on a thread of
/// another runtime, so each container is started on a new thread.
fn start_all(owner: &str) -> Result<[u16; 3], StackError> {
    thread::scope(|scope| {
        let servers = [
            scope.spawn(|| {
                let answers = |port| probe::kafka_brokers(port, 1);
                start(image::kafka(), image::KAFKA_PORT, owner, answers)
            }),
            scope.spawn(|| {
                start(image::redis(), image::REDIS_PORT, owner, |port| {
                    probe::redis_ping(port, "")
                })
            }),
            scope.spawn(|| {
                let answers = probe::mariadb_greeting;
                start(image::mariadb(), image::MARIADB_PORT, owner, answers)
            }),
        ];
        let [kafka, redis, mariadb] = servers.map(|server| {
            server
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok([kafka?, redis?, mariadb?])
    })
}

/// Starts one container, whose port is published on a free port of 127.0.0.1 only, and returns that port.
fn start<I: Image>(
    request: ContainerRequest<I>,
    port: u16,
    owner: &str,
    answers: impl FnOnce(u16) -> Result<(), String>,
) -> Result<u16, StackError> {
    let image = request.descriptor();
    tracing::info!(image, "starting a container");
    let failed = |reason: String| StackError::Container { image, reason };
    let started = request
        .with_label(OWNER_LABEL, owner)
        .with_startup_timeout(START_TIMEOUT)
        .with_host_config_modifier(move |host| {
            host.publish_all_ports = Some(false);
            host.port_bindings = Some(on_loopback(port));
        })
        .start()
        .and_then(|container| {
            let published = container.get_host_port_ipv4(port);
            // The clean-up removes the container, however this process ends.
            std::mem::forget(container);
            published
        });
    match started {
        // According to its log the container is ready, but the engine may be on another machine, whose loopback is not ours.
        Ok(published) => answers(published).map(|()| published).map_err(failed),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn on_loopback(port: u16) -> HashMap<String, Option<Vec<PortBinding>>> {
    let free_port = PortBinding {
        host_ip: Some("127.0.0.1".to_owned()),
        host_port: None,
    };
    HashMap::from([(format!("{port}/tcp"), Some(vec![free_port]))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docker(args: &[&str]) -> String {
        let output = Command::new("docker").args(args).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args:?}: {text}");
        text
    }

    /// The container that has a port of this machine, with the address where it is published.
    fn container_on(port: &str) -> Option<(String, String)> {
        let filter = format!("--filter=publish={port}");
        let listed = docker(&["ps", "--all", "--format", "{{.ID}} {{.Ports}}", &filter]);
        let (id, ports) = listed.trim().split_once(' ')?;
        Some((id.to_owned(), ports.to_owned()))
    }

    /// Runs a program in the container that has a port of this machine, and returns its output.
    fn run_in(port: &str, program: &[&str]) -> String {
        let (id, ports) = container_on(port).unwrap();
        assert!(
            ports.contains("127.0.0.1:") && !ports.contains("0.0.0.0"),
            "{ports}"
        );
        docker(&[&["exec", &id], program].concat())
    }

    /// `None` if no engine answers, or if it lacks the images; with `TIDEMARK_TEST_SERVERS` set, a failure fails the test.
    fn servers() -> Option<DockerServers> {
        if std::env::var_os("TIDEMARK_TEST_SERVERS").is_some_and(|kind| kind == "docker") {
            return Some(DockerServers::start().unwrap());
        }
        engine_answers().then(DockerServers::start)?.ok()
    }

    #[test]
    fn containers_have_our_settings_and_are_gone_after_the_drop() {
        let Some(servers) = servers() else {
            eprintln!("skipped: there are no containers to be had");
            return;
        };
        let Endpoints {
            kafka_brokers,
            redis_url,
            mysql_url,
        } = servers.endpoints().clone();
        let ports =
            [&kafka_brokers, &redis_url, &mysql_url].map(|url| url.rsplit_once(':').unwrap().1);
        let [kafka, redis, mariadb] = ports;
        kafka_is_as_declared(kafka);
        redis_is_as_declared(redis);
        mariadb_is_as_declared(mariadb);

        drop(servers);
        assert_eq!(ports.map(container_on), [None, None, None]);
    }

    fn kafka_is_as_declared(port: &str) {
        let settings = run_in(port, &["cat", "/opt/kafka/config/server.properties"]);
        for line in [
            "auto.create.topics.enable=false",
            "producer.id.expiration.ms=2147483647",
        ] {
            assert!(settings.lines().any(|given| given == line), "{settings}");
        }
    }

    fn redis_is_as_declared(port: &str) {
        for (name, value) in [("maxmemory-policy", "noeviction"), ("appendonly", "yes")] {
            let answer = run_in(port, &["redis-cli", "config", "get", name]);
            assert_eq!(answer, format!("{name}\n{value}\n"));
        }
    }

    fn mariadb_is_as_declared(port: &str) {
        let client = ["mariadb", "--skip-column-names", "--host=127.0.0.1"];
        let user = ["--user=tidemark", "--password=tidemark"];
        let ask = |sql: &str| {
            run_in(
                port,
                &[client.as_slice(), &user, &["--execute", sql]].concat(),
            )
        };
        let settings = "SELECT CONCAT_WS(' ', @@character_set_server, @@time_zone, CURRENT_USER())";
        assert_eq!(ask(settings), "utf8mb4 +00:00 tidemark@%\n");
        ask("CREATE DATABASE may_create; DROP DATABASE may_create");
    }
}

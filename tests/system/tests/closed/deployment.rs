//! Closed servers, and services that are each a user of their own.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use dev_stack::{ClosedServers, FreshServers, Ports, StackConfig};
use system_tests::{Client, CommandOutput, SERVICES, command, program, until};
use tempfile::TempDir;

use crate::{certificates::Certificates, page};

/// In every password, and nowhere else.
pub const HUSH: &str = "hush-hush";

const KAFKA_USERS: [&str; 8] = [
    "ingest",
    "sequencer",
    "projector-mysql",
    "projector-unread",
    "query-api",
    "gateway",
    "auditor",
    "operator",
];

pub struct Deployment {
    pub client: Client,
    pub certificates: Certificates,
    dir: TempDir,
    servers: Arc<FreshServers>,
    services: std::sync::Mutex<Vec<Child>>,
}

fn password(user: &str) -> String {
    format!("{HUSH}-{user}")
}

impl Deployment {
    pub async fn start() -> Result<Self> {
        let dir = TempDir::new()?;
        let certificates = Certificates::write(dir.path())?;
        let closed = closed_servers(&certificates);
        let starting = move || {
            let servers = FreshServers::start_with(&StackConfig {
                closed: Some(closed),
                ..StackConfig::default()
            })?;
            for acl in page::block("kafka-acls") {
                let args: Vec<&str> = acl.split(' ').collect();
                servers.stack().kafka_tool("AclCommand", &args)?;
            }
            anyhow::Ok(servers)
        };
        let servers = tokio::task::spawn_blocking(starting).await??;
        let ports = &servers.stack().config().ports;
        let ca = fs::read(&certificates.ca)?;
        let deployment = Self {
            client: Client::over_tls(ports.ingest, ports.query_api, &ca)?,
            certificates,
            dir,
            servers: Arc::new(servers),
            services: std::sync::Mutex::default(),
        };
        fs::write(deployment.config(), deployment.text())?;
        for user in KAFKA_USERS.into_iter().chain(["schema"]) {
            fs::write(deployment.password_file(user), password(user) + "\n")?;
        }
        Ok(deployment)
    }

    pub fn ports(&self) -> &Ports {
        &self.servers.stack().config().ports
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("tidemark.toml")
    }

    /// No user and no password: those are in the environment of each process.
    fn text(&self) -> String {
        let Certificates { ca, cert, key, .. } = &self.certificates;
        let (ca, cert, key) = (ca.display(), cert.display(), key.display());
        let Ports {
            kafka,
            redis,
            mariadb,
            ingest,
            query_api,
            gateway,
            ..
        } = self.ports();
        let listens = [
            ("ingest", *ingest),
            ("query_api", *query_api),
            ("gateway", *gateway),
            ("sequencer", self.ports().sequencer),
            ("projector_unread", self.ports().projector_unread),
            ("projector_mysql", self.ports().projector_mysql),
        ]
        .map(|(section, port)| format!("[{section}]\nlisten = \"127.0.0.1:{port}\"\n"));
        format!(
            r#"
[http]
tls = {{ cert_file = "{cert}", key_file = "{key}" }}

[client]
tls_ca = "{ca}"

[kafka]
brokers = "127.0.0.1:{kafka}"
tls_ca = "{ca}"

[redis]
url = "rediss://127.0.0.1:{redis}"
tls_ca = "{ca}"

[[mysql.servers]]
host = "127.0.0.1"
port = {mariadb}
tls = "verify-identity"
tls_ca = "{ca}"

{}"#,
            listens.concat()
        )
    }

    fn password_file(&self, user: &str) -> PathBuf {
        self.dir.path().join(format!("{user}.password"))
    }

    /// Who the user is, for whatever it talks to. `nobody` is nobody.
    fn environment(&self, user: &str) -> Vec<(String, String)> {
        if user == "nobody" {
            return Vec::new();
        }
        let file = self.password_file(user).display().to_string();
        [
            ("KAFKA__USERNAME", user.to_owned()),
            ("KAFKA__PASSWORD_FILE", file.clone()),
            ("REDIS__USERNAME", user.to_owned()),
            ("REDIS__PASSWORD_FILE", file.clone()),
            ("MYSQL__USER", user.to_owned()),
            ("MYSQL__PASSWORD_FILE", file),
        ]
        .map(|(name, value)| (format!("TIDEMARK_{name}"), value))
        .into()
    }

    /// Runs a command of the program as that user.
    pub async fn run(&self, user: &str, args: &[&str]) -> Result<CommandOutput> {
        let config = self.config();
        let config = ["--config", config.to_str().context("a path is no text")?];
        command(&[&config, args].concat(), self.environment(user)).await
    }

    pub async fn start_services(&self) -> Result<()> {
        for service in SERVICES {
            self.start_as(service, service)?;
        }
        let ports = self.ports();
        for port in [
            ports.sequencer,
            ports.projector_mysql,
            ports.projector_unread,
            ports.query_api,
            ports.ingest,
            ports.gateway,
        ] {
            until(&format!("a ready service on {port}"), async || {
                match self.client.get_at(port, "/readyz").await {
                    Ok(answer) if answer.status == 200 => Ok(()),
                    Ok(answer) => Err(answer.body.to_string()),
                    Err(error) => Err(format!("{error:#}")),
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Starts a service as a user.
    fn start_as(&self, service: &str, user: &str) -> Result<()> {
        let log = File::create(self.dir.path().join(format!("{service}.log")))?;
        let child = Command::new(program()?)
            .args([service, "--config"])
            .arg(self.config())
            .envs(self.environment(user))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.services
            .lock()
            .expect("no test panics here")
            .push(child);
        Ok(())
    }

    /// The logs of the services by their names.
    pub fn logs(&self) -> Result<Vec<(&'static str, String)>> {
        let read = |service| {
            let log = fs::read_to_string(self.dir.path().join(format!("{service}.log")))?;
            Ok((service, log))
        };
        SERVICES.into_iter().map(read).collect()
    }

    pub fn print_logs(&self) {
        for (name, log) in self.logs().into_iter().flatten() {
            if let Some(panic) = log.find("panicked") {
                eprintln!("--- {name} panicked: {:.600}", &log[panic..]);
            }
            let last: Vec<&str> = log.lines().rev().take(30).collect();
            eprintln!("--- {name}");
            last.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        let logs = self.servers.stack().config().run_dir.join("log");
        for name in ["kafka", "redis", "mariadb"] {
            let log = fs::read_to_string(logs.join(format!("{name}.log"))).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(15).collect();
            eprintln!("--- {name}");
            last.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        for mut service in self.services.lock().expect("no test panics here").drain(..) {
            // Of one that has ended there is nothing left to kill.
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

fn closed_servers(certificates: &Certificates) -> ClosedServers {
    let Certificates { ca, cert, key, .. } = certificates;
    let mut closed = ClosedServers::new(ca.clone(), cert.clone(), key.clone());
    closed.kafka_users = KAFKA_USERS
        .map(|user| (user.to_owned(), password(user)))
        .into();
    closed.redis_users = with_passwords("redis-acl", |line| line.split(' ').nth(1));
    closed.mariadb_users = with_passwords("sql", |line| line.split('\'').nth(1));
    closed
}

fn with_passwords(language: &str, user: fn(&str) -> Option<&str>) -> Vec<String> {
    let lines = page::block(language).into_iter();
    lines
        .map(|line| line.replace("<password>", &password(user(line).unwrap_or_default())))
        .collect()
}

//! Kafka: one broker, or several that replicate; each is a KRaft controller, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::clocks::ClockKind;
use crate::environment::JAVA_LOCALE;
use crate::kafka_jars::KafkaJars;
use crate::managed::{Managed, numbered, run};
use crate::run_dir::{RunDir, write_with_parents};
use crate::template::{property, render};
use crate::tools::Tool;
use crate::{ClosedServers, Memory, StackError, probe};

pub(crate) const CONFIG: &str = include_str!("../../../compose/native/kafka.properties.template");
const LOGGING: &str = include_str!("../../../compose/native/kafka-log4j2.properties");
const LOGGING_FILE: &str = "kafka-log4j2.properties";

/// A listener that advertises a proxy to its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxiedListener {
    /// The port on which the broker listens.
    pub port: u16,
    /// The advertised port: the proxy's.
    pub advertised: u16,
}

/// A Kafka cluster on this machine.
#[derive(Debug, Clone)]
pub struct KafkaSpec {
    pub(crate) run_dir: RunDir,
    pub(crate) jars: KafkaJars,
    pub(crate) port: u16,
    pub(crate) controller_port: u16,
    pub(crate) node_count: u16,
    pub(crate) memory: Memory,
    /// For each broker, the listener behind a proxy; empty without proxies.
    pub(crate) proxied: Vec<ProxiedListener>,
    pub(crate) closed: Option<ClosedServers>,
}

impl KafkaSpec {
    /// The brokers, first one first.
    pub fn nodes(&self) -> Vec<KafkaNode> {
        (0..self.node_count)
            .map(|index| KafkaNode {
                cluster: self.clone(),
                index,
            })
            .collect()
    }

    /// The addresses of all brokers for a client, `127.0.0.1:7392,127.0.0.1:7394,…`.
    pub fn brokers(&self) -> String {
        let addresses: Vec<String> = self
            .nodes()
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        addresses.join(",")
    }

    fn voters(&self) -> String {
        let voters: Vec<String> = self
            .nodes()
            .iter()
            .map(|node| format!("{}@127.0.0.1:{}", node.id(), node.controller_port()))
            .collect();
        voters.join(",")
    }

    fn replication(&self) -> u16 {
        self.node_count.min(3)
    }

    /// Runs one of Kafka's own tools on the cluster.
    pub(crate) fn tool(&self, class: &str, args: &[&str]) -> Result<String, StackError> {
        let mut command = self.java()?;
        command
            .arg(format!("org.apache.kafka.tools.{class}"))
            .args(args)
            .args(["--bootstrap-server", &self.bootstrap()]);
        let output = run(&format!("{class} {}", args.join(" ")), &mut command)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The address to which this stack's own tools connect.
    fn bootstrap(&self) -> String {
        match &self.closed {
            Some(closed) => format!("127.0.0.1:{}", closed.kafka_port()),
            None => self.brokers(),
        }
    }

    fn java(&self) -> Result<Command, StackError> {
        // Java unpacks libraries there, and leaves them behind if it is killed; without the option below, its statistics would stay, too.
        let scratch = self.run_dir.data("java-scratch");
        fs::create_dir_all(&scratch)
            .map_err(StackError::io(format!("create {}", scratch.display())))?;
        let mut command = Command::new(Tool::Java.require()?);
        command
            .args(JAVA_LOCALE)
            .arg(format!("-Djava.io.tmpdir={}", scratch.display()))
            .arg("-XX:-UsePerfData")
            // By default a crash is reported in the working directory.
            .arg(format!(
                "-XX:ErrorFile={}",
                self.run_dir.log("java-%p").display()
            ))
            .arg("-cp")
            .arg(self.jars.class_path());
        Ok(command)
    }

    /// The id that all nodes share: drawn by the first start, kept with the data.
    fn cluster_id(&self) -> Result<String, StackError> {
        // The nodes are prepared at the same time, and only one of them may draw.
        static DRAWING: Mutex<()> = Mutex::new(());
        let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.run_dir.data("kafka-cluster-id");
        if let Ok(id) = fs::read_to_string(&path) {
            return Ok(id);
        }
        let drawn = URL_SAFE_NO_PAD.encode(uuid::Uuid::new_v4().as_bytes());
        // A leading dash would look like an option on the command line of the storage tool.
        let id = drawn.replacen('-', "A", usize::from(drawn.starts_with('-')));
        write_with_parents(&path, &id)?;
        Ok(id)
    }
}

/// One broker of a cluster.
#[derive(Debug, Clone)]
pub struct KafkaNode {
    cluster: KafkaSpec,
    index: u16,
}

impl KafkaNode {
    fn id(&self) -> u16 {
        self.index + 1
    }

    /// The port to which clients connect.
    pub fn port(&self) -> u16 {
        self.cluster.port + 2 * self.index
    }

    fn controller_port(&self) -> u16 {
        self.cluster.controller_port + 2 * self.index
    }

    fn config_name(&self) -> String {
        format!("{}.properties", self.name())
    }

    fn properties(&self, data_dir: &Path) -> Result<String, StackError> {
        let cluster = &self.cluster;
        let min_insync = cluster.replication().saturating_sub(1).max(1);
        let mut properties = render(
            CONFIG,
            &[
                ("node_id", self.id().to_string()),
                ("voters", cluster.voters()),
                ("port", self.port().to_string()),
                ("controller_port", self.controller_port().to_string()),
                ("proxied_listener", self.proxied_listener(|one| one.port)),
                (
                    "proxied_advertised",
                    self.proxied_listener(|one| one.advertised),
                ),
                ("data_dir", property(&data_dir.to_string_lossy())),
                ("replication", cluster.replication().to_string()),
                ("min_insync", min_insync.to_string()),
            ],
        );
        if let Some(closed) = &cluster.closed {
            let ports = (self.port(), self.controller_port());
            properties += &closed.kafka_properties(&cluster.run_dir, ports)?;
        }
        Ok(properties)
    }

    /// The listener of a proxy, to be appended to a list of listeners.
    fn proxied_listener(&self, port: impl Fn(&ProxiedListener) -> u16) -> String {
        let listener = self.cluster.proxied.get(usize::from(self.index));
        listener.map_or_else(String::new, |listener| {
            format!(",PROXIED://127.0.0.1:{}", port(listener))
        })
    }

    /// Writes the storage format; the data directory appears complete or not at all.
    fn format(&self, cluster_id: &str) -> Result<(), StackError> {
        let run_dir = &self.cluster.run_dir;
        let data = run_dir.data(&self.name());
        if data.is_dir() {
            return Ok(());
        }
        let partial = run_dir.data(&format!("{}.partial", self.name()));
        let _ = fs::remove_dir_all(&partial);
        let config = run_dir.write_config(
            &format!("{}-format.properties", self.name()),
            &self.properties(&partial)?,
        )?;
        let mut command = self.cluster.java()?;
        command
            .args([
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                cluster_id,
            ])
            .arg("--config")
            .arg(&config);
        if let Some(closed) = &self.cluster.closed {
            command.args(closed.kafka_scram());
        }
        run("format Kafka's storage", &mut command)?;
        fs::rename(&partial, &data).map_err(StackError::io(format!("make {}", data.display())))
    }
}

/// Kafka once named its files in the digits of the user's locale. It would not find such files now, and begin an empty log beside each.
///
/// # Errors
/// [`StackError::KafkaOfAnotherLocale`].
fn expect_ascii_names(data: &Path) -> Result<(), StackError> {
    let list = |dir: &Path| -> std::io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(dir)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    let read = |dir: &Path| list(dir).map_err(StackError::io(format!("list {}", dir.display())));
    if !data.is_dir() {
        return Ok(());
    }
    for path in read(data)? {
        let mut below = if path.is_dir() {
            read(&path)?
        } else {
            Vec::new()
        };
        below.push(path);
        let is_named_otherwise =
            |path: &&PathBuf| !path.file_name().is_some_and(|name| name.is_ascii());
        if let Some(found) = below.iter().find(is_named_otherwise) {
            return Err(StackError::KafkaOfAnotherLocale {
                data: data.to_owned(),
                found: found.clone(),
            });
        }
    }
    Ok(())
}

impl Managed for KafkaNode {
    fn name(&self) -> String {
        numbered("kafka", self.index)
    }

    fn ports(&self) -> Vec<u16> {
        let proxied = self.cluster.proxied.get(usize::from(self.index));
        let internal = self.cluster.closed.as_ref().map(ClosedServers::kafka_port);
        let own = [self.port(), self.controller_port()].into_iter();
        own.chain(proxied.map(|listener| listener.port))
            .chain(internal)
            .collect()
    }

    fn prepare(&self) -> Result<(), StackError> {
        let run_dir = &self.cluster.run_dir;
        self.cluster.jars.ensure()?;
        run_dir.write_config(LOGGING_FILE, LOGGING)?;
        let data = run_dir.data(&self.name());
        expect_ascii_names(&data)?;
        self.format(&self.cluster.cluster_id()?)?;
        let properties = self.properties(&data)?;
        run_dir.write_config(&self.config_name(), &properties)?;
        Ok(())
    }

    fn command(&self) -> Result<Command, StackError> {
        let run_dir = &self.cluster.run_dir;
        let logging = run_dir.config_file(LOGGING_FILE);
        let mut command = self.cluster.java()?;
        command
            .arg(format!("-Xmx{}m", self.cluster.memory.kafka_heap_mib))
            .args([
                "-XX:+UseG1GC",
                "-XX:MaxGCPauseMillis=20",
                "-XX:+ExitOnOutOfMemoryError",
            ])
            .arg("-Djava.awt.headless=true")
            .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
            .arg("kafka.Kafka")
            .arg(run_dir.config_file(&self.config_name()));
        Ok(command)
    }

    fn clock_kind(&self) -> ClockKind {
        ClockKind::Plain
    }

    fn check_ready(&self) -> Result<(), String> {
        let internal = self.cluster.closed.as_ref().map(ClosedServers::kafka_port);
        probe::kafka_brokers(internal.unwrap_or(self.port()), self.cluster.node_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_named_under_another_locale_are_not_left_out() {
        let dir = tempfile::tempdir().unwrap();
        expect_ascii_names(&dir.path().join("not made yet")).unwrap();
        let partition = dir.path().join("chat.events-0");
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("00000000000000000000.log"), "").unwrap();
        expect_ascii_names(dir.path()).unwrap();
        let zeros = "\u{660}".repeat(20);
        fs::write(partition.join(format!("{zeros}.log")), "").unwrap();
        let refused = expect_ascii_names(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("chat.events-0"), "{refused}");
        assert!(refused.contains("another locale"), "{refused}");
    }
}

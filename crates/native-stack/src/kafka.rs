//! Kafka: one broker, or several that replicate, each its own KRaft controller.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::kafka_jars::KafkaJars;
use crate::managed::{Managed, run};
use crate::run_dir::{RunDir, write_with_parents};
use crate::template::render;
use crate::tools::Tool;
use crate::{Memory, StackError, probe};

pub(crate) const CONFIG: &str = include_str!("../../../compose/native/kafka.properties.template");
const LOGGING: &str = include_str!("../../../compose/native/kafka-log4j2.properties");
const LOGGING_FILE: &str = "kafka-log4j2.properties";

/// A Kafka cluster on this machine.
#[derive(Debug, Clone)]
pub struct KafkaSpec {
    pub(crate) run_dir: RunDir,
    pub(crate) jars: KafkaJars,
    pub(crate) port: u16,
    pub(crate) controller_port: u16,
    pub(crate) node_count: u16,
    pub(crate) memory: Memory,
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

    /// Makes the cluster forget a broker, until that is started anew.
    pub(crate) fn unregister(&self, broker: u16) -> Result<(), StackError> {
        let mut command = self.java()?;
        command
            .args(["org.apache.kafka.tools.ClusterTool", "unregister"])
            .args(["--bootstrap-server", &self.brokers()])
            .args(["--id", &broker.to_string()]);
        run("unregister a broker", &mut command)?;
        Ok(())
    }

    fn java(&self) -> Result<Command, StackError> {
        let mut command = Command::new(Tool::Java.require()?);
        command.arg("-cp").arg(self.jars.class_path());
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

    /// Where clients connect.
    pub fn port(&self) -> u16 {
        self.cluster.port + 2 * self.index
    }

    fn controller_port(&self) -> u16 {
        self.cluster.controller_port + 2 * self.index
    }

    fn config_name(&self) -> String {
        format!("{}.properties", self.name())
    }

    fn properties(&self, data_dir: &Path) -> String {
        let cluster = &self.cluster;
        let min_insync = cluster.replication().saturating_sub(1).max(1);
        render(
            CONFIG,
            &[
                ("node_id", self.id().to_string()),
                ("voters", cluster.voters()),
                ("port", self.port().to_string()),
                ("controller_port", self.controller_port().to_string()),
                ("data_dir", data_dir.display().to_string()),
                ("replication", cluster.replication().to_string()),
                ("min_insync", min_insync.to_string()),
            ],
        )
    }

    /// Writes the storage format; the data directory appears whole or not at all.
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
            &self.properties(&partial),
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
        run("format Kafka's storage", &mut command)?;
        fs::rename(&partial, &data).map_err(StackError::io(format!("make {}", data.display())))
    }
}

impl Managed for KafkaNode {
    fn name(&self) -> String {
        match self.id() {
            1 => "kafka".to_owned(),
            id => format!("kafka-{id}"),
        }
    }

    fn ports(&self) -> Vec<u16> {
        vec![self.port(), self.controller_port()]
    }

    fn prepare(&self) -> Result<(), StackError> {
        let run_dir = &self.cluster.run_dir;
        self.cluster.jars.ensure()?;
        run_dir.write_config(LOGGING_FILE, LOGGING)?;
        self.format(&self.cluster.cluster_id()?)?;
        let properties = self.properties(&run_dir.data(&self.name()));
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

    fn check_ready(&self) -> Result<(), String> {
        probe::kafka_brokers(self.port(), self.cluster.node_count)
    }
}

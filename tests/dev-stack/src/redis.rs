//! Redis: one server or more, or a cluster; append-only file, nothing evicted.

use std::fs;
use std::process::Command;

use crate::clocks::ClockKind;
use crate::managed::{Managed, numbered};
use crate::run_dir::RunDir;
use crate::template::render;
use crate::tools::Tool;
use crate::{ClosedServers, StackError, probe};

pub(crate) const CONFIG: &str = include_str!("../../../compose/native/redis.conf.template");

/// A Redis server.
#[derive(Debug, Clone)]
pub struct RedisSpec {
    pub(crate) run_dir: RunDir,
    pub(crate) first_port: u16,
    /// The index of this server, from 0.
    pub(crate) index: u16,
    pub(crate) closed: Option<ClosedServers>,
    /// The number of nodes, if this is a node of a cluster.
    pub(crate) cluster_nodes: Option<u16>,
}

/// After this time a cluster gives up a master that does not answer.
const NODE_TIMEOUT_MS: u16 = 2_000;

impl RedisSpec {
    /// The address for a client, `redis://127.0.0.1:<port>`; `rediss://` for a closed server. For a cluster, all nodes.
    pub fn url(&self) -> String {
        let scheme = if self.closed.is_some() {
            "rediss"
        } else {
            "redis"
        };
        let nodes = 0..self.cluster_nodes.unwrap_or(1);
        let nodes: Vec<String> = nodes
            .map(|index| format!("127.0.0.1:{}", self.port() + index))
            .collect();
        format!("{scheme}://{}", nodes.join(","))
    }

    /// The port for the other nodes of a cluster.
    fn bus_port(&self) -> Option<u16> {
        Some(self.port() + self.cluster_nodes?)
    }

    fn port(&self) -> u16 {
        self.first_port + self.index
    }

    fn config_name(&self) -> String {
        format!("{}.conf", self.name())
    }
}

impl Managed for RedisSpec {
    fn name(&self) -> String {
        numbered("redis", self.index)
    }

    fn ports(&self) -> Vec<u16> {
        let internal = self.closed.as_ref().map(ClosedServers::redis_port);
        let ports = [self.port()].into_iter().chain(internal);
        ports.chain(self.bus_port()).collect()
    }

    fn prepare(&self) -> Result<(), StackError> {
        let data = self.run_dir.data(&self.name());
        fs::create_dir_all(&data).map_err(StackError::io(format!("make {}", data.display())))?;
        let values = [
            ("port", self.port().to_string()),
            ("data_dir", data.display().to_string()),
        ];
        let mut config = render(CONFIG, &values);
        if let Some(closed) = &self.closed {
            config += &closed.redis_config(&self.run_dir, self.port())?;
        }
        if let Some(bus_port) = self.bus_port() {
            config += &format!(
                "cluster-enabled yes\ncluster-port {bus_port}\ncluster-node-timeout {NODE_TIMEOUT_MS}\n\
                 # A part whose master is away is no reason to refuse the others.\n\
                 cluster-require-full-coverage no\nrepl-diskless-sync-delay 0\n\
                 # A replica takes over however long it was cut off.\ncluster-replica-validity-factor 0\n"
            );
        }
        self.run_dir.write_config(&self.config_name(), &config)?;
        Ok(())
    }

    fn command(&self) -> Result<Command, StackError> {
        let mut command = Command::new(Tool::Redis.require()?);
        command.arg(self.run_dir.config_file(&self.config_name()));
        Ok(command)
    }

    fn clock_kind(&self) -> ClockKind {
        ClockKind::Plain
    }

    fn check_ready(&self) -> Result<(), String> {
        match &self.closed {
            Some(closed) => probe::redis_ping(closed.redis_port(), &ClosedServers::redis_login()),
            None => probe::redis_ping(self.port(), ""),
        }
    }
}

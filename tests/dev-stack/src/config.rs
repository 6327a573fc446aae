//! The configuration of a stack: directories, ports, sizes and deadlines.

use std::path::{Path, PathBuf};
use std::time::Duration;

use garde::Validate;
use serde::{Deserialize, Serialize};

use crate::ClosedServers;

/// The settings of one stack (section `stack`); the default is the stack of `make up`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct StackConfig {
    /// The directory of pid files, data, logs and generated configuration. A relative path counts from the working directory.
    #[garde(custom(is_named))]
    pub run_dir: PathBuf,
    /// The directory of Kafka's jars; by default `$TIDEMARK_CACHE`, else `${XDG_CACHE_HOME:-~/.cache}/tidemark`.
    #[garde(skip)]
    pub cache_dir: Option<PathBuf>,
    /// The program that runs our services; by default the one that is running now.
    #[garde(skip)]
    pub service_program: Option<PathBuf>,
    /// The ports, all on 127.0.0.1.
    #[garde(dive, custom(all_differ(self.nodes())))]
    pub ports: Ports,
    /// Closes the servers to unknown clients; only tests use this.
    #[garde(skip)]
    #[serde(skip)]
    pub closed: Option<ClosedServers>,
    /// How many Kafka brokers to run, 1 to 9. Each partition has as many replicas, 3 at most.
    #[garde(range(min = 1, max = 9))]
    pub kafka_nodes: u16,
    /// How many Redis servers to run. Without `redis_cluster` they are independent servers; whoever wants a replica sends `REPLICAOF`.
    #[garde(range(min = 1, max = 9))]
    pub redis_nodes: u16,
    /// Whether the Redis servers, an even number, are a cluster: the first half are its masters, each of the others the replica of one.
    #[garde(custom(has_replicas(self.redis_nodes)))]
    pub redis_cluster: bool,
    /// How many MariaDB servers to run; `mysql.servers` says which database is on which.
    #[garde(range(min = 1, max = 9))]
    pub mariadb_nodes: u16,
    /// How much memory the servers may take.
    #[garde(dive)]
    pub memory: Memory,
    /// How long a process may take to become ready, seconds.
    #[garde(range(min = 1, max = 3_600))]
    pub start_timeout_s: u64,
    /// How long a process may take to stop after SIGTERM, before SIGKILL, seconds.
    #[garde(range(min = 1, max = 3_600))]
    pub stop_timeout_s: u64,
}

impl Default for StackConfig {
    fn default() -> Self {
        Self {
            run_dir: PathBuf::from(".run"),
            cache_dir: None,
            service_program: None,
            ports: Ports::default(),
            closed: None,
            kafka_nodes: 1,
            redis_nodes: 1,
            redis_cluster: false,
            mariadb_nodes: 1,
            memory: Memory::default(),
            start_timeout_s: 90,
            stop_timeout_s: 30,
        }
    }
}

impl StackConfig {
    pub(crate) fn start_timeout(&self) -> Duration {
        Duration::from_secs(self.start_timeout_s)
    }

    pub(crate) fn stop_timeout(&self) -> Duration {
        Duration::from_secs(self.stop_timeout_s)
    }

    fn nodes(&self) -> Nodes {
        Nodes {
            kafka: self.kafka_nodes,
            // Every node of a cluster has a second port, for the other nodes.
            redis: self.redis_nodes * if self.redis_cluster { 2 } else { 1 },
            mariadb: self.mariadb_nodes,
        }
    }
}

/// How many brokers there are, and how many consecutive ports Redis and MariaDB need.
#[derive(Debug, Clone, Copy)]
struct Nodes {
    kafka: u16,
    redis: u16,
    mariadb: u16,
}

/// The ports of a stack, all on 127.0.0.1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(default, deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is named for the process that listens there"
)]
pub struct Ports {
    #[garde(range(min = 1))]
    pub ingest: u16,
    #[garde(range(min = 1))]
    pub query_api: u16,
    #[garde(range(min = 1))]
    pub gateway: u16,
    #[garde(range(min = 1))]
    pub sequencer: u16,
    #[garde(range(min = 1))]
    pub projector_unread: u16,
    #[garde(range(min = 1))]
    pub projector_mysql: u16,
    /// The first broker; broker `i`, from 0, listens on this port + 2 `i`.
    #[garde(range(min = 1))]
    pub kafka: u16,
    /// The first broker's controller; the others follow in steps of two.
    #[garde(range(min = 1))]
    pub kafka_controller: u16,
    /// The first Redis; the others follow.
    #[garde(range(min = 1))]
    pub redis: u16,
    /// The first MariaDB; the others follow.
    #[garde(range(min = 1))]
    pub mariadb: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            ingest: 7301,
            query_api: 7302,
            gateway: 7308,
            sequencer: 7303,
            projector_unread: 7304,
            projector_mysql: 7305,
            kafka: 7392,
            kafka_controller: 7393,
            redis: 7379,
            mariadb: 7306,
        }
    }
}

/// How much memory the servers may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Heap of each Kafka broker, in MiB.
    #[garde(range(min = 256, max = 65_536))]
    pub kafka_heap_mib: u32,
    /// InnoDB's buffer pool, in MiB.
    #[garde(range(min = 16, max = 65_536))]
    pub mariadb_buffer_pool_mib: u32,
    /// InnoDB's redo log, in MiB.
    #[garde(range(min = 8, max = 65_536))]
    pub mariadb_redo_log_mib: u32,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            kafka_heap_mib: 1024,
            mariadb_buffer_pool_mib: 512,
            mariadb_redo_log_mib: 256,
        }
    }
}

impl Memory {
    /// The memory of throw-away servers for tests.
    pub(crate) fn for_tests() -> Self {
        Self {
            kafka_heap_mib: 512,
            mariadb_buffer_pool_mib: 128,
            mariadb_redo_log_mib: 48,
        }
    }
}

fn is_named(directory: &Path, _context: &()) -> garde::Result {
    if directory.as_os_str().is_empty() {
        return Err(garde::Error::new("must be the name of a directory"));
    }
    Ok(())
}

/// Checks that a cluster has replicas, and three masters or more: it continues without a node as long as most of its masters are there.
fn has_replicas(redis_nodes: u16) -> impl FnOnce(&bool, &()) -> garde::Result {
    move |cluster, ()| match cluster {
        true if redis_nodes < 6 || redis_nodes % 2 == 1 => Err(garde::Error::new(
            "needs stack.redis_nodes to be an even number, 6 at least",
        )),
        _ => Ok(()),
    }
}

/// Each process needs ports of its own; every broker has two.
fn all_differ(nodes: Nodes) -> impl FnOnce(&Ports, &()) -> garde::Result {
    move |ports, ()| {
        let mut wanted = vec![
            ("ingest", ports.ingest),
            ("query_api", ports.query_api),
            ("gateway", ports.gateway),
            ("sequencer", ports.sequencer),
            ("projector_unread", ports.projector_unread),
            ("projector_mysql", ports.projector_mysql),
        ];
        for index in 0..nodes.redis {
            wanted.push(("redis", ports.redis.saturating_add(index)));
        }
        for index in 0..nodes.mariadb {
            wanted.push(("mariadb", ports.mariadb.saturating_add(index)));
        }
        for index in 0..nodes.kafka {
            let step = index.saturating_mul(2);
            wanted.push(("kafka", ports.kafka.saturating_add(step)));
            let controller = ports.kafka_controller.saturating_add(step);
            wanted.push(("kafka_controller", controller));
        }
        for (i, (name, port)) in wanted.iter().enumerate() {
            if let Some((other, _)) = wanted[..i].iter().find(|(_, taken)| taken == port) {
                let why = format!("port {port} is both {other}'s and {name}'s");
                return Err(garde::Error::new(why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_directory_without_a_name_is_refused() {
        let config = StackConfig {
            run_dir: PathBuf::new(),
            ..StackConfig::default()
        };
        let refused = config.validate().unwrap_err().to_string();
        assert!(refused.contains("run_dir: must be"), "{refused}");
    }

    #[test]
    fn ports_that_collide_are_refused() {
        let mut config = StackConfig::default();
        assert!(config.validate().is_ok());
        config.kafka_nodes = 3;
        assert!(config.validate().is_ok());
        config.ports.kafka_controller = config.ports.kafka + 2;
        let refused = config.validate().unwrap_err().to_string();
        assert!(refused.contains("kafka_controller's"), "{refused}");
        config = StackConfig::default();
        config.ports.redis = config.ports.ingest;
        assert!(config.validate().is_err());
        config = StackConfig::default();
        config.ports.mariadb = config.ports.redis + 1;
        assert!(config.validate().is_ok());
        config.redis_nodes = 2;
        assert!(config.validate().is_err());
        config = StackConfig::default();
        config.redis_nodes = 6;
        config.redis_cluster = true;
        assert!(config.validate().is_ok());
        config.redis_nodes = 3;
        let refused = config.validate().unwrap_err().to_string();
        assert!(refused.contains("redis_cluster: needs"), "{refused}");
    }
}

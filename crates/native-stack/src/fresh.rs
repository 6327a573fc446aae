//! Throw-away servers on free ports in a temporary directory.

use crate::disposal::DisposableDir;
use crate::kafka_jars::KafkaJars;
use crate::process::Lifetime;
use crate::{Endpoints, Memory, Ports, Stack, StackConfig, StackError, port, tools};

/// Between finding a free port and listening on it another process can take it; then it is tried again.
const ATTEMPTS: usize = 3;

/// Servers of one's own, ready to use, with small memory. They are killed and their data removed when the value is
/// dropped, and also when this process ends in any other way.
#[derive(Debug)]
pub struct FreshServers {
    stack: Stack,
    _dir: DisposableDir,
}

impl FreshServers {
    /// Starts Kafka, Redis and MariaDB.
    pub fn start() -> Result<Self, StackError> {
        Self::start_with(&StackConfig::default())
    }

    /// Starts servers with the given settings; run directory, ports and memory are chosen here.
    pub fn start_with(config: &StackConfig) -> Result<Self, StackError> {
        let missing = tools::find_missing();
        if !missing.is_empty() {
            return Err(tools::missing(&missing));
        }
        KafkaJars::new(config)?.ensure()?;
        let mut attempt = 1;
        loop {
            match Self::try_start(config) {
                Err(StackError::PortTaken { .. } | StackError::Exited { .. })
                    if attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn try_start(config: &StackConfig) -> Result<Self, StackError> {
        let dir = DisposableDir::new()?;
        let config = StackConfig {
            run_dir: dir.path().to_owned(),
            ports: free_ports(config.kafka_nodes),
            memory: Memory::for_tests(),
            ..config.clone()
        };
        let stack = Stack::with_lifetime(config, Lifetime::WithThisProcess)?;
        let fresh = Self { stack, _dir: dir };
        fresh.stack.start_servers()?;
        Ok(fresh)
    }

    /// The stack, for stopping and killing single processes, starting them again, and starting services.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Where clients find the servers.
    pub fn endpoints(&self) -> Endpoints {
        self.stack.endpoints()
    }
}

impl Drop for FreshServers {
    fn drop(&mut self) {
        if let Err(error) = self.stack.kill_all() {
            tracing::warn!(%error, "a throw-away server is left running");
        }
    }
}

/// Free ports for everything. Kafka's nodes count upwards in twos, so theirs are the ones after the others.
fn free_ports(kafka_nodes: u16) -> Ports {
    let run_length = usize::from(2 * kafka_nodes.max(1));
    loop {
        let found = port::find_free(7 + run_length);
        let (single, brokers) = found.split_at(7);
        if !brokers.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            continue;
        }
        return Ports {
            ingest: single[0],
            query_api: single[1],
            sequencer: single[2],
            projector_unread: single[3],
            projector_mysql: single[4],
            redis: single[5],
            mariadb: single[6],
            kafka: brokers[0],
            kafka_controller: brokers[1],
        };
    }
}

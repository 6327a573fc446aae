//! Throw-away servers on free ports in a temporary directory.

use crate::clocks::Clocks;
use crate::disposal::DisposableDir;
use crate::kafka_jars::KafkaJars;
use crate::process::Lifetime;
use crate::stack::FaultHooks;
use crate::{
    Endpoints, Memory, Ports, ProxiedListener, Stack, StackConfig, StackError, port, tools,
};

/// Another process may take a free port before a server listens on it; then the start is repeated.
const ATTEMPTS: usize = 3;

/// Options of servers for tests.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// How much memory the servers may take; by default little, as tests need.
    pub memory: Option<Memory>,
    /// The ports of proxies, one for each broker; none if empty. A broker advertises the proxy to clients that connect through it.
    pub kafka_proxies: Vec<u16>,
    /// Whether wall clocks can be set ([`Stack::set_clock`]).
    pub clocks: bool,
}

impl ServerOptions {
    /// Whether clocks can be set on this machine: whether libfaketime is installed.
    #[must_use]
    pub fn has_clocks() -> bool {
        Clocks::libfaketime().is_some()
    }
}

/// Servers for the caller alone, ready to use. They are killed and their data removed when the value is dropped, and also when this process ends in
/// any other way.
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
        Self::start_with_options(config, &ServerOptions::default())
    }

    /// As [`FreshServers::start_with`], with these options.
    pub fn start_with_options(
        config: &StackConfig,
        options: &ServerOptions,
    ) -> Result<Self, StackError> {
        let missing = tools::find_missing();
        if !missing.is_empty() {
            return Err(tools::missing(&missing));
        }
        KafkaJars::new(config)?.ensure()?;
        let mut attempt = 1;
        loop {
            match Self::try_start(config, options) {
                Err(StackError::PortTaken { .. } | StackError::Exited { .. })
                    if attempt < ATTEMPTS =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn try_start(config: &StackConfig, options: &ServerOptions) -> Result<Self, StackError> {
        let dir = DisposableDir::new()?;
        let proxies = options.kafka_proxies.iter();
        let hooks = FaultHooks {
            kafka: port::find_free(options.kafka_proxies.len())
                .into_iter()
                .zip(proxies)
                .map(|(port, advertised)| ProxiedListener {
                    port,
                    advertised: *advertised,
                })
                .collect(),
            clocks: options.clocks,
        };
        let config = StackConfig {
            run_dir: dir.path().to_owned(),
            ports: free_ports(config),
            memory: options.memory.clone().unwrap_or_else(Memory::for_tests),
            ..config.clone()
        };
        let stack = Stack::with_hooks(config, hooks, Lifetime::WithThisProcess)?;
        let fresh = Self { stack, _dir: dir };
        fresh.stack.start_servers()?;
        Ok(fresh)
    }

    /// The stack, for stopping and killing single processes, starting them again, and starting services.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The addresses of the servers, for clients.
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

/// Free ports for everything. Servers of one kind count upwards, so their ports follow each other.
fn free_ports(config: &StackConfig) -> Ports {
    let brokers = 2 * config.kafka_nodes.max(1);
    let redis = config.redis_nodes.max(1) * if config.redis_cluster { 2 } else { 1 };
    let mariadb = config.mariadb_nodes.max(1);
    loop {
        let found = port::find_free(6 + usize::from(brokers + redis + mariadb));
        let (single, servers) = found.split_at(6);
        if !servers.windows(2).all(|pair| pair[1] == pair[0] + 1) {
            continue;
        }
        let first = servers[0];
        return Ports {
            ingest: single[0],
            query_api: single[1],
            sequencer: single[2],
            projector_unread: single[3],
            projector_mysql: single[4],
            gateway: single[5],
            kafka: first,
            kafka_controller: first + 1,
            redis: first + brokers,
            mariadb: first + brokers + redis,
        };
    }
}

//! An environment with servers of its own, and the services as processes on them.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::{Context as _, Result, ensure};
use dev_stack::{FreshServers, Memory, SERVER_NAMES, ServerOptions, ServiceSpec, StackConfig};
use rustix::process::{Pid, Signal, kill_process};
use schemas::{Partition, event::KNOWN_RULE_VERSION, topics::Topic};
use serde_json::Value;

use crate::{
    Client, CommandOutput, EventLog, Network, PartitionFiles, Redis, SERVICES, Settings, TIMEOUT,
    network::{Addresses, Planned},
    program, saved_logs,
    service::Service,
    settings, until,
};

/// A whole deployment of Tidemark, which ends when the value is dropped.
pub struct TestEnv {
    servers: Arc<FreshServers>,
    network: Option<Network>,
    config: Vec<String>,
    /// All services that can be started, including second instances.
    services: Mutex<Vec<Service>>,
    /// A client of the environment's ingest and query-api.
    pub client: Client,
    /// The environment's Redis.
    pub redis: Redis,
    /// The environment's `chat.events`.
    pub events: EventLog,
}

/// Consecutive uids that no earlier test had: for a group of users that talk with each other.
pub fn new_users<const N: usize>() -> [i64; N] {
    static NEXT: AtomicI64 = AtomicI64::new(7_000_000_000);
    let first = NEXT.fetch_add(N as i64, Ordering::Relaxed);
    let mut next = first..;
    std::array::from_fn(|_| next.next().unwrap_or(first))
}

impl TestEnv {
    /// Starts servers, and the services unless the settings leave them to the test.
    ///
    /// # Errors
    /// If a process is not ready in time.
    pub async fn start(settings: Settings) -> Result<Self> {
        let env = Self::start_servers_only(&settings).await?;
        env.tidemark(&["topics", "apply"]).await?.expect(0)?;
        env.tidemark(&["db", "apply"]).await?.expect(0)?;
        if !settings.without_services {
            env.start_services(&SERVICES).await?;
        }
        Ok(env)
    }

    /// Starts servers: topics, databases and services are left to the test.
    ///
    /// # Errors
    /// If a process is not ready in time.
    pub async fn start_servers_only(settings: &Settings) -> Result<Self> {
        let config = StackConfig {
            service_program: Some(program::path()?),
            kafka_nodes: settings.kafka_nodes,
            redis_nodes: settings.redis_nodes,
            redis_cluster: settings.redis_cluster,
            mariadb_nodes: settings.mariadb_nodes,
            start_timeout_s: TIMEOUT.as_secs(),
            ..StackConfig::default()
        };
        let mut options = ServerOptions {
            clocks: settings.clocks,
            memory: settings.as_shipped.then(Memory::default),
            ..ServerOptions::default()
        };
        let planned = settings
            .proxied
            .then(|| Planned::new(settings.kafka_nodes, settings.mariadb_nodes))
            .transpose()?;
        if let Some(planned) = &planned {
            planned.add_to(&mut options);
        }
        let starting = move || FreshServers::start_with_options(&config, &options);
        let servers = tokio::task::spawn_blocking(starting).await??;
        let (network, addresses) = match planned {
            Some(planned) => {
                let (network, addresses) = planned.connect(&servers)?;
                (Some(network), addresses)
            }
            None => (None, Addresses::direct(&servers)),
        };
        let stack = servers.stack().config();
        let config = settings::write(settings, stack, &addresses)?;
        let ports = &stack.ports;
        Ok(Self {
            services: Mutex::new(Service::firsts(ports, &config)?),
            client: Client::new(ports.ingest, ports.query_api)?,
            redis: Redis { port: ports.redis },
            events: EventLog::new(servers.endpoints().kafka_brokers)?,
            network,
            config,
            servers: Arc::new(servers),
        })
    }

    /// The arguments by which the program finds this environment.
    pub fn config_args(&self) -> &[String] {
        &self.config
    }

    /// Runs a command of the program on this environment.
    ///
    /// # Errors
    /// If the command does not end.
    pub async fn tidemark(&self, args: &[&str]) -> Result<CommandOutput> {
        self.tidemark_reads(args, "").await
    }

    /// As [`TestEnv::tidemark`], with a text on standard input.
    ///
    /// # Errors
    /// If the command does not end.
    pub async fn tidemark_reads(&self, args: &[&str], input: &str) -> Result<CommandOutput> {
        let config = self.config.iter().map(OsString::from);
        let all: Vec<OsString> = config.chain(args.iter().map(OsString::from)).collect();
        program::run_with(&all, Vec::new(), input).await
    }

    /// Waits until the newest rule version is in force in every partition.
    ///
    /// # Errors
    /// If that takes too long.
    pub async fn until_newest_rules(&self) -> Result<()> {
        until("the newest rule version everywhere", async || {
            let shown = self.tidemark(&["rules", "show", "--json"]).await;
            let shown = shown.and_then(|shown| shown.json());
            let shown = shown.map_err(|error| format!("{error:#}"))?;
            let rules = shown["rules"].as_array().into_iter().flatten();
            let is_older = |one: &&Value| one["rule_version"] != KNOWN_RULE_VERSION;
            match rules.filter(is_older).count() {
                0 => Ok(()),
                older => Err(format!("{older} partitions are under an older one")),
            }
        })
        .await
    }

    /// Gets JSON from a service on its own port: `/status`.
    ///
    /// # Errors
    /// If there is no such service, or it does not answer.
    pub async fn get(&self, name: &str, path: &str) -> Result<Value> {
        Ok(self.client.get_at(self.port(name)?, path).await?.body)
    }

    /// The metrics of a service, in Prometheus' text format.
    ///
    /// # Errors
    /// As [`TestEnv::get`].
    pub async fn metrics(&self, name: &str) -> Result<String> {
        self.client.get_text(self.port(name)?, "/metrics").await
    }

    /// The address of the environment's MariaDB, for faults: `mysql://user:password@host:port`.
    #[must_use]
    pub fn mysql_url(&self) -> String {
        let port = self.servers.stack().config().ports.mariadb;
        format!("mysql://tidemark:tidemark@127.0.0.1:{port}")
    }

    /// The port of a service.
    ///
    /// # Errors
    /// If there is no such service.
    pub fn port(&self, name: &str) -> Result<u16> {
        let services = self.services();
        let service = services.iter().find(|service| service.name() == name);
        Ok(service
            .with_context(|| format!("{name} is no service"))?
            .port)
    }

    /// The address for devices of each gateway: `ws://127.0.0.1:…`.
    ///
    /// # Errors
    /// If there is no gateway.
    pub fn gateway_urls(&self) -> Result<Vec<String>> {
        let services = self.services();
        let gateways = services.iter().filter(|one| one.is_of("gateway"));
        let urls: Vec<String> = gateways
            .map(|one| format!("ws://127.0.0.1:{}", one.port))
            .collect();
        ensure!(!urls.is_empty(), "no gateway runs");
        Ok(urls)
    }

    /// Starts those of these services that do not run, and waits until all are ready.
    ///
    /// # Errors
    /// If a service ends, or is not ready in time.
    pub async fn start_services(&self, names: &[&str]) -> Result<()> {
        let services = self.services().clone();
        let wanted = services
            .into_iter()
            .filter(|service| names.contains(&service.name()));
        self.start_specs(wanted.map(|service| service.spec).collect())
            .await
    }

    /// Starts a service that halts. Returns why, as soon as `checks` of its checks say so.
    ///
    /// # Errors
    /// If the service ends, or does not halt in time.
    pub async fn start_halted(&self, name: &str, checks: usize) -> Result<Vec<String>> {
        let services = self.services().clone();
        let service = services.into_iter().find(|one| one.name() == name);
        let service = service.with_context(|| format!("{name} is no service"))?;
        self.start_specs(vec![service.alive()?]).await?;
        self.halted(name, checks).await
    }

    /// Why partitions of a service are halted, as soon as `checks` of its checks say so.
    ///
    /// # Errors
    /// If the checks do not say so in time.
    pub async fn halted(&self, name: &str, checks: usize) -> Result<Vec<String>> {
        let halted = |readiness: &Value| -> Vec<String> {
            let gates = readiness["gates"].as_array().into_iter().flatten();
            let reasons = gates.filter_map(|gate| gate["reason"].as_str());
            let halted = reasons.filter(|reason| reason.contains("is halted"));
            halted.map(str::to_owned).collect()
        };
        let all_halted = |readiness: &Value| halted(readiness).len() == checks;
        let readiness = self.until_readiness(name, "is halted", all_halted).await?;
        Ok(halted(&readiness))
    }

    /// Waits until `/readyz` of a service meets a condition.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn until_readiness(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        until(&format!("{name} {what}"), async || {
            let readiness = self.get(name, "/readyz").await;
            let readiness = readiness.map_err(|error| format!("{error:#}"))?;
            if is_so(&readiness) {
                Ok(readiness)
            } else {
                Err(readiness.to_string())
            }
        })
        .await
    }

    async fn start_specs(&self, specs: Vec<ServiceSpec>) -> Result<()> {
        let servers = Arc::clone(&self.servers);
        let starting = move || servers.stack().start_services(&specs);
        tokio::task::spawn_blocking(starting).await??;
        Ok(())
    }

    /// Starts another instance of a service. Returns its name: `sequencer-2` for the second.
    ///
    /// # Errors
    /// As [`TestEnv::start_services`].
    pub async fn start_another(&self, service: &str) -> Result<String> {
        let another = {
            let mut services = self.services();
            let instances = services.iter().filter(|one| one.is_of(service)).count();
            let another = Service::another(service, instances + 1, &self.config)?;
            services.push(another.clone());
            another
        };
        let (name, port) = (another.name().to_owned(), another.port);
        self.start_services(&[&name]).await?;
        self.client.add_instance(service, port);
        Ok(name)
    }

    /// From its next start on, the service runs the one of two programs that it does not run now: `other`, or the usual one.
    pub fn change_program(&self, name: &str, other: &Path) {
        let mut services = self.services();
        if let Some(service) = services.iter_mut().find(|service| service.name() == name) {
            let program = &mut service.spec.program;
            *program = match program.take() {
                None => Some(other.to_owned()),
                Some(_) => None,
            };
        }
    }

    /// Whether a service runs another program than the usual one, from its next start on.
    pub fn has_other_program(&self, name: &str) -> bool {
        let services = self.services();
        let service = services.iter().find(|service| service.name() == name);
        service.is_some_and(|service| service.spec.program.is_some())
    }

    /// Starts the servers that do not run, and waits until all are ready.
    ///
    /// # Errors
    /// If a server ends, or is not ready in time.
    pub async fn start_servers(&self) -> Result<()> {
        let servers = Arc::clone(&self.servers);
        let starting = move || servers.stack().start_servers();
        tokio::task::spawn_blocking(starting).await??;
        Ok(())
    }

    /// Runs one of Kafka's own tools, for example `ConsumerGroupCommand`. Returns its output.
    ///
    /// # Errors
    /// If the tool fails.
    pub async fn kafka_tool(&self, class: &'static str, args: &[&str]) -> Result<String> {
        let servers = Arc::clone(&self.servers);
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let running = move || {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            servers.stack().kafka_tool(class, &args)
        };
        Ok(tokio::task::spawn_blocking(running).await??)
    }

    /// Sends a signal to a server or a service.
    ///
    /// # Errors
    /// If the process does not run.
    pub fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        let pid = self.servers.stack().pid(name);
        let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.with_context(|| format!("{name} does not run"))?;
        kill_process(pid, signal).with_context(|| format!("signalling {name}"))
    }

    /// Ends a server or a service with a signal, and waits until it is gone.
    ///
    /// # Errors
    /// If the process does not run, or does not end.
    pub async fn end(&self, name: &str, signal: Signal) -> Result<()> {
        self.signal(name, signal)?;
        let gone = async || match self.servers.stack().pid(name) {
            None => Ok(()),
            Some(pid) => Err(format!("pid {pid} is there")),
        };
        until(&format!("the end of {name}"), gone).await
    }

    /// The proxies before the environment's servers.
    ///
    /// # Errors
    /// If the environment was started without proxies.
    pub fn network(&self) -> Result<&Network> {
        self.network
            .as_ref()
            .context("a test environment without proxies")
    }

    /// Sets the wall clock of a server or service `offset_s` seconds off.
    ///
    /// # Errors
    /// If the environment was started without clocks that can be set.
    pub fn set_clock(&self, name: &str, offset_s: i64) -> Result<()> {
        Ok(self.servers.stack().set_clock(name, offset_s)?)
    }

    /// Runs statements on a MariaDB server, with all privileges and bypassing the proxy.
    ///
    /// # Errors
    /// If the server does not run, or refuses.
    pub async fn execute_sql(&self, server: &str, sql: &str) -> Result<()> {
        self.query_sql(server, sql).await.map(drop)
    }

    /// As [`TestEnv::execute_sql`]. Returns the rows, without headings.
    ///
    /// # Errors
    /// As [`TestEnv::execute_sql`].
    pub async fn query_sql(&self, server: &str, sql: &str) -> Result<String> {
        let (servers, server, sql) = (Arc::clone(&self.servers), server.to_owned(), sql.to_owned());
        let executing = move || servers.stack().execute_sql(&server, &sql);
        Ok(tokio::task::spawn_blocking(executing).await??)
    }

    /// A Redis server, bypassing the proxy: `redis-2` for the second.
    #[must_use]
    pub fn redis_node(&self, index: u16) -> Redis {
        Redis {
            port: self.servers.stack().config().ports.redis + index,
        }
    }

    /// The pid of a server or service, while it runs.
    #[must_use]
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.servers.stack().pid(name)
    }

    /// All servers and services that run now, by their names.
    #[must_use]
    pub fn processes(&self) -> Vec<(String, u32)> {
        let services = self.services();
        let services = services.iter().map(Service::name);
        SERVER_NAMES
            .into_iter()
            .chain(services)
            .filter_map(|name| Some((name.to_owned(), self.pid(name)?)))
            .collect()
    }

    /// The data directory of a server.
    #[must_use]
    pub fn data_dir(&self, server: &str) -> PathBuf {
        self.servers.stack().data_dir(server)
    }

    /// The files of a partition on the environment's only broker.
    #[must_use]
    pub fn partition_files(&self, topic: Topic, partition: Partition) -> PartitionFiles {
        let topic = self.events.config().topic(topic);
        let directory = format!("{topic}-{partition}");
        PartitionFiles::new(self.data_dir("kafka").join(directory))
    }

    /// The path of a log for a process that a test itself starts, so that the log is kept with the others.
    pub fn log_file(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// Copies the logs to a permanent place. Returns the place.
    pub(crate) fn save_logs(&self, test: &str) -> String {
        saved_logs::save(&self.logs(), test)
    }

    fn logs(&self) -> PathBuf {
        self.servers.stack().config().run_dir.join("log")
    }

    fn services(&self) -> MutexGuard<'_, Vec<Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

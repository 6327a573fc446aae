//! Servers of its own, and the five services as processes on them.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::{Context as _, Result};
use native_stack::{FreshServers, ServiceSpec, StackConfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    Client, EventLog, Outcome, Redis, SERVICES, Settings, kept_logs, program, service::Service,
    settings, until,
};

/// A whole deployment of Tidemark that ends with the value.
pub struct World {
    servers: Arc<FreshServers>,
    config: Vec<String>,
    /// Every service that may be started, second instances too.
    services: Mutex<Vec<Service>>,
    /// Calls its ingest and its query-api.
    pub client: Client,
    /// Its Redis.
    pub redis: Redis,
    /// Its `chat.events`.
    pub events: EventLog,
}

/// Uids that no test before had, one after the other: for a group of users that talk with each other.
pub fn new_users<const N: usize>() -> [i64; N] {
    static NEXT: AtomicI64 = AtomicI64::new(7_000_000_000);
    let first = NEXT.fetch_add(N as i64, Ordering::Relaxed);
    let mut next = first..;
    std::array::from_fn(|_| next.next().unwrap_or(first))
}

impl World {
    pub(crate) async fn start(settings: Settings) -> Result<Self> {
        let world = Self::start_servers_only(&settings).await?;
        world.tidemark(&["topics", "apply"]).await?.expect(0)?;
        world.tidemark(&["db", "apply"]).await?.expect(0)?;
        if !settings.without_services {
            world.start_services(&SERVICES).await?;
        }
        Ok(world)
    }

    async fn start_servers_only(settings: &Settings) -> Result<Self> {
        let config = StackConfig {
            service_program: Some(program::path()?),
            kafka_nodes: settings.kafka_nodes,
            ..StackConfig::default()
        };
        let starting = move || FreshServers::start_with(&config);
        let servers = tokio::task::spawn_blocking(starting).await??;
        let stack = servers.stack().config();
        let brokers = servers.endpoints().kafka_brokers;
        let config = settings::write(settings, stack, &brokers)?;
        let ports = &stack.ports;
        Ok(Self {
            services: Mutex::new(Service::firsts(ports, &config)?),
            client: Client::new(ports.ingest, ports.query_api)?,
            redis: Redis { port: ports.redis },
            events: EventLog::new(brokers)?,
            config,
            servers: Arc::new(servers),
        })
    }

    /// The arguments by which the program finds this world.
    pub fn config_args(&self) -> &[String] {
        &self.config
    }

    /// Runs a command of the program on this world.
    ///
    /// # Errors
    /// It does not end.
    pub async fn tidemark(&self, args: &[&str]) -> Result<Outcome> {
        let config = self.config.iter().map(OsString::from);
        let all: Vec<OsString> = config.chain(args.iter().map(OsString::from)).collect();
        program::run(&all).await
    }

    /// Asks a service on its own port for JSON: `/status`.
    ///
    /// # Errors
    /// There is no such service, or it does not answer.
    pub async fn get(&self, name: &str, path: &str) -> Result<Value> {
        self.client.get_json(self.port(name)?, path).await
    }

    /// The metrics of a service, in Prometheus' text format.
    ///
    /// # Errors
    /// As [`World::get`].
    pub async fn metrics(&self, name: &str) -> Result<String> {
        self.client.get_text(self.port(name)?, "/metrics").await
    }

    fn port(&self, name: &str) -> Result<u16> {
        let services = self.services();
        let service = services.iter().find(|service| service.name() == name);
        Ok(service
            .with_context(|| format!("{name} is no service"))?
            .port)
    }

    /// Starts those of the services that do not run, and waits until all are ready.
    ///
    /// # Errors
    /// One ends, or is not ready in time.
    pub async fn start_services(&self, names: &[&str]) -> Result<()> {
        let services = self.services().clone();
        let specs: Vec<ServiceSpec> = services
            .into_iter()
            .filter(|service| names.contains(&service.name()))
            .map(|service| service.spec)
            .collect();
        let servers = Arc::clone(&self.servers);
        let starting = move || servers.stack().start_services(&specs);
        tokio::task::spawn_blocking(starting).await??;
        Ok(())
    }

    /// Starts another instance of a service. Gives its name.
    ///
    /// # Errors
    /// As [`World::start_services`].
    pub async fn start_second(&self, service: &str) -> Result<String> {
        let second = Service::second(service, &self.config)?;
        let name = second.name().to_owned();
        self.services().push(second);
        self.start_services(&[&name]).await?;
        Ok(name)
    }

    /// Starts those of the servers that do not run, and waits until all are ready.
    ///
    /// # Errors
    /// One ends, or is not ready in time.
    pub async fn start_servers(&self) -> Result<()> {
        let servers = Arc::clone(&self.servers);
        let starting = move || servers.stack().start_servers();
        tokio::task::spawn_blocking(starting).await??;
        Ok(())
    }

    /// Makes Kafka's controller forget the broker until that is started anew.
    ///
    /// # Errors
    /// Kafka's tool fails.
    pub async fn unregister_broker(&self) -> Result<()> {
        let servers = Arc::clone(&self.servers);
        let telling = move || servers.stack().unregister_broker(1);
        Ok(tokio::task::spawn_blocking(telling).await??)
    }

    /// Sends a signal to a server or a service.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        let pid = self.servers.stack().pid(name);
        let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let pid = pid.with_context(|| format!("{name} does not run"))?;
        kill_process(pid, signal).with_context(|| format!("signalling {name}"))
    }

    /// Ends a server or a service with a signal, and waits until it is gone.
    ///
    /// # Errors
    /// It does not run, or does not end.
    pub async fn end(&self, name: &str, signal: Signal) -> Result<()> {
        self.signal(name, signal)?;
        let gone = async || match self.servers.stack().pid(name) {
            None => Ok(()),
            Some(pid) => Err(format!("pid {pid} is there")),
        };
        until(&format!("the end of {name}"), gone).await
    }

    /// Where a process that a test starts by itself may write its log, so that it is kept with the others.
    pub fn log_file(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// Copies the logs to where they stay; says where.
    pub(crate) fn keep_logs(&self, test: &str) -> String {
        kept_logs::keep(&self.logs(), test)
    }

    fn logs(&self) -> PathBuf {
        self.servers.stack().config().run_dir.join("log")
    }

    fn services(&self) -> MutexGuard<'_, Vec<Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

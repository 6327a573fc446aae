//! Servers of its own, and the five services as processes on them.

use std::{
    ffi::OsString,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use anyhow::{Context as _, Result};
use native_stack::{FreshServers, ServiceSpec, StackConfig};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Client, EventLog, Outcome, Redis, Settings, program, settings, until};

/// The services; those that others wait for come first.
pub const SERVICES: [&str; 5] = [
    "sequencer",
    "projector-mysql",
    "projector-unread",
    "query-api",
    "ingest",
];

/// A whole deployment of Tidemark that ends with the value.
pub struct World {
    servers: Arc<FreshServers>,
    config_file: PathBuf,
    settings: Settings,
    /// Every service that may be started, second instances too.
    services: Mutex<Vec<Service>>,
    /// Calls its ingest and its query-api.
    pub client: Client,
    /// Its Redis.
    pub redis: Redis,
    /// Its `chat.events`.
    pub events: EventLog,
}

/// A service that may be started.
#[derive(Clone)]
struct Service {
    spec: ServiceSpec,
    port: u16,
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
        let config = StackConfig {
            service_program: Some(program::path()?),
            ..StackConfig::default()
        };
        let starting = move || FreshServers::start_with(&config);
        let servers = tokio::task::spawn_blocking(starting).await??;
        let config = servers.stack().config();
        let ports = &config.ports;
        let config_file = config.run_dir.join("tidemark.toml");
        settings::write(&config_file, config)?;
        let services = [
            ("sequencer", ports.sequencer),
            ("projector-mysql", ports.projector_mysql),
            ("projector-unread", ports.projector_unread),
            ("query-api", ports.query_api),
            ("ingest", ports.ingest),
        ];
        let mut world = Self {
            client: Client::new(ports.ingest, ports.query_api)?,
            redis: Redis { port: ports.redis },
            events: EventLog::new(ports.kafka)?,
            servers: Arc::new(servers),
            config_file,
            settings,
            services: Mutex::default(),
        };
        let services: Result<Vec<_>> = services
            .into_iter()
            .map(|(name, port)| world.service(name, name, port, &[]))
            .collect();
        world.services = Mutex::new(services?);
        world.tidemark(&["topics", "apply"]).await?.expect(0)?;
        world.tidemark(&["db", "apply"]).await?.expect(0)?;
        if !settings.without_services {
            world.start_services(&SERVICES).await?;
        }
        Ok(world)
    }

    fn service(
        &self,
        name: &str,
        subcommand: &str,
        port: u16,
        overrides: &[String],
    ) -> Result<Service> {
        let mut args = vec![subcommand.to_owned()];
        args.extend(self.config_args()?);
        for setting in overrides {
            args.extend(["--set".to_owned(), setting.clone()]);
        }
        let spec = ServiceSpec {
            name: name.to_owned(),
            args,
            env: Vec::new(),
            ready: format!("http://127.0.0.1:{port}/readyz").parse()?,
        };
        Ok(Service { spec, port })
    }

    fn services(&self) -> MutexGuard<'_, Vec<Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a service on its own port: `/status`, `/metrics`.
    ///
    /// # Errors
    /// There is no such service, or it does not answer with JSON.
    pub async fn get(&self, name: &str, path: &str) -> Result<Value> {
        let port = self
            .services()
            .iter()
            .find(|s| s.spec.name == name)
            .map(|service| service.port)
            .with_context(|| format!("{name} is no service"))?;
        self.client.get_json(port, path).await
    }

    /// Where a process that a test starts by itself may write its log, so that it is kept with the others.
    pub fn log_file(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    fn logs(&self) -> PathBuf {
        self.servers.stack().config().run_dir.join("log")
    }

    /// The arguments by which the program finds this world.
    ///
    /// # Errors
    /// The path is no text.
    pub fn config_args(&self) -> Result<Vec<String>> {
        let file = self.config_file.to_str().context("a path is no text")?;
        let mut args = vec!["--config".to_owned(), file.to_owned()];
        for setting in self.settings.overrides {
            args.extend(["--set".to_owned(), (*setting).to_owned()]);
        }
        Ok(args)
    }

    /// Runs a command of the program on this world.
    ///
    /// # Errors
    /// It does not end.
    pub async fn tidemark(&self, args: &[&str]) -> Result<Outcome> {
        let mut all: Vec<OsString> = self
            .config_args()?
            .into_iter()
            .map(OsString::from)
            .collect();
        all.extend(args.iter().map(OsString::from));
        program::run(&all).await
    }

    /// Starts those of the services that do not run, and waits until all are ready.
    ///
    /// # Errors
    /// One ends, or is not ready in time.
    pub async fn start_services(&self, names: &[&str]) -> Result<()> {
        let services = self.services().clone();
        let specs: Vec<ServiceSpec> = services
            .into_iter()
            .map(|service| service.spec)
            .filter(|spec| names.contains(&spec.name.as_str()))
            .collect();
        let servers = Arc::clone(&self.servers);
        let starting = move || servers.stack().start_services(&specs);
        tokio::task::spawn_blocking(starting).await??;
        Ok(())
    }

    /// Starts another instance of a service, on a port of its own. Gives its name.
    ///
    /// # Errors
    /// As [`World::start_services`].
    pub async fn start_second(&self, service: &str) -> Result<String> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let name = format!("{service}-2");
        let section = service.replace('-', "_");
        let listen = format!("{section}.listen=127.0.0.1:{port}");
        let second = self.service(&name, service, port, &[listen])?;
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

    /// Copies the logs to where they stay; gives the place.
    pub(crate) fn keep_logs(&self, test: &str) -> String {
        let kept = program::path().map(|program| kept_logs(&program, test));
        let copied = kept.and_then(|kept| copy_files(&self.logs(), &kept).map(|()| kept));
        match copied {
            Ok(kept) => kept.display().to_string(),
            Err(error) => format!("lost: {error:#}"),
        }
    }

    /// The names of the second instances.
    fn seconds(&self) -> Vec<String> {
        let names = self
            .services()
            .clone()
            .into_iter()
            .map(|service| service.spec.name);
        names
            .filter(|name| !SERVICES.contains(&name.as_str()))
            .collect()
    }
}

impl Drop for World {
    /// The servers end the services that they know, which second instances are not among.
    fn drop(&mut self) {
        for name in self.seconds() {
            // One that has ended already is what is wanted.
            let _ = self.signal(&name, Signal::KILL);
        }
    }
}

/// `target/tmp/system-tests/<test>`, for a program in `target/<profile>`.
fn kept_logs(program: &Path, test: &str) -> PathBuf {
    let target = program.ancestors().nth(2).unwrap_or(program);
    target.join("tmp").join("system-tests").join(test)
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().context("a log has no name")?;
        fs::copy(&path, to.join(name))?;
    }
    Ok(())
}

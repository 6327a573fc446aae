//! One set of servers and services under a run directory.

use std::path::PathBuf;

use serde::Serialize;

use crate::clocks::Clocks;
use crate::kafka_jars::KafkaJars;
use crate::managed::Managed;
use crate::orphan;
use crate::pid_file::{self, PidFile};
use crate::process::{Identity, Lifetime};
use crate::run_dir::RunDir;
use crate::service::ServiceProcess;
use crate::start::{self, Starter};
use crate::stop::{self, Force};
use crate::{
    KafkaSpec, MariaDbSpec, ProxiedListener, ReadyUrl, RedisSpec, ServiceSpec, StackConfig,
    StackError, Started, probe, redis_cluster,
};

/// The servers; further ones of a kind are `kafka-2` and so on.
pub const SERVER_NAMES: [&str; 3] = ["kafka", "redis", "mariadb"];

/// Our services, in the order in which they are listed.
pub const SERVICE_NAMES: [&str; 6] = [
    "ingest",
    "sequencer",
    "projector-unread",
    "projector-mysql",
    "query-api",
    "gateway",
];

/// Services wait for each other, so all are checked again once each of them has been ready.
const STEADY_CHECKS: u32 = 2;

/// One set of servers and services. The value holds no process: what runs is read from the run directory each time,
/// so any number of commands may work on the same stack, one after another.
#[derive(Debug)]
pub struct Stack {
    config: StackConfig,
    run_dir: RunDir,
    kafka: KafkaSpec,
    redis: RedisSpec,
    mariadb: MariaDbSpec,
    clocks: Option<Clocks>,
    lifetime: Lifetime,
}

/// Hooks by which tests make the network or the clocks of a stack fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultHooks {
    /// For each broker, one more listener behind a proxy.
    pub kafka: Vec<ProxiedListener>,
    /// Whether [`Stack::set_clock`] is possible: every process preloads libfaketime.
    pub clocks: bool,
}

/// The addresses of the servers, for clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Endpoints {
    /// Kafka's bootstrap addresses, `host:port`, separated by commas.
    pub kafka_brokers: String,
    /// `redis://host:port`; for a cluster, all nodes, separated by commas.
    pub redis_url: String,
    /// `mysql://user:password@host:port`, without a database, for a user who may create databases.
    pub mysql_url: String,
}

/// The status of one process of the stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessStatus {
    /// The process's name.
    pub name: String,
    /// The pid, while the process runs and was started from this run directory.
    pub pid: Option<u32>,
    /// The port on which the process listens.
    pub port: u16,
    /// The state of the process.
    pub state: ProcessState,
    /// Why the process is not ready, if it says so.
    pub reason: Option<String>,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// The process runs and answers.
    Ready,
    /// The process runs and does not answer, or says that it is not ready.
    NotReady,
    /// The process was started and is gone without having been stopped.
    Died,
    /// The process was not started, or it was stopped, and no other one answers in its place.
    Stopped,
}

impl Stack {
    /// A stack whose processes continue after this program ends.
    pub fn new(config: StackConfig) -> Result<Self, StackError> {
        Self::with_hooks(config, FaultHooks::default(), Lifetime::Detached)
    }

    pub(crate) fn with_hooks(
        config: StackConfig,
        hooks: FaultHooks,
        lifetime: Lifetime,
    ) -> Result<Self, StackError> {
        let run_dir = RunDir::new(&config.run_dir)?;
        let kafka = KafkaSpec {
            run_dir: run_dir.clone(),
            jars: KafkaJars::new(&config)?,
            port: config.ports.kafka,
            controller_port: config.ports.kafka_controller,
            node_count: config.kafka_nodes.max(1),
            memory: config.memory.clone(),
            proxied: hooks.kafka,
            closed: config.closed.clone(),
        };
        let redis = RedisSpec {
            run_dir: run_dir.clone(),
            first_port: config.ports.redis,
            index: 0,
            closed: config.closed.clone(),
            cluster_nodes: config.redis_cluster.then_some(config.redis_nodes),
        };
        let mariadb = MariaDbSpec {
            run_dir: run_dir.clone(),
            first_port: config.ports.mariadb,
            index: 0,
            closed: config.closed.clone(),
            memory: config.memory.clone(),
        };
        let clocks = hooks.clocks.then(|| {
            let _marked_as_ours = run_dir.lock()?;
            Clocks::new(&run_dir)
        });
        Ok(Self {
            config,
            run_dir,
            kafka,
            redis,
            mariadb,
            clocks: clocks.transpose()?,
            lifetime,
        })
    }

    /// The settings with which the stack was created.
    pub fn config(&self) -> &StackConfig {
        &self.config
    }

    /// The addresses of the servers, for clients.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            kafka_brokers: self.kafka.brokers(),
            redis_url: self.redis.url(),
            mysql_url: self.mariadb.url(),
        }
    }

    /// Fails if another process has a port of a server or service that does not run yet; to be called before a start does any work.
    pub fn check_ports(&self) -> Result<(), StackError> {
        let _lock = self.run_dir.lock()?;
        orphan::adopt(&self.run_dir)?;
        let servers = self.servers();
        let of_servers = servers.iter().map(|one| (one.name(), one.ports()));
        let of_services = self
            .service_ports()
            .into_iter()
            .map(|(name, port)| (name.to_owned(), vec![port]));
        let is_idle = |(name, _): &(String, Vec<u16>)| self.pid(name).is_none();
        start::check_ports(of_servers.chain(of_services).filter(is_idle))
    }

    /// Starts the servers that are not running, and waits until all of them are ready.
    pub fn start_servers(&self) -> Result<Vec<Started>, StackError> {
        let _lock = self.run_dir.lock()?;
        self.run_dir.check_free_space()?;
        let servers = self.servers();
        let started = self.starter(1).start(&as_managed(&servers))?;
        if self.config.redis_cluster {
            let nodes = 0..self.config.redis_nodes;
            let ports: Vec<u16> = nodes.map(|index| self.config.ports.redis + index).collect();
            redis_cluster::form(&ports, self.config.start_timeout())?;
        }
        Ok(started)
    }

    /// Starts the services that are not running, and waits until all of these, found running or started, are ready and
    /// stay so.
    pub fn start_services(&self, services: &[ServiceSpec]) -> Result<Vec<Started>, StackError> {
        let _lock = self.run_dir.lock()?;
        let program = self.service_program()?;
        let processes: Vec<ServiceProcess> = services
            .iter()
            .map(|spec| ServiceProcess {
                spec,
                program: spec.program.clone().unwrap_or_else(|| program.clone()),
            })
            .collect();
        let wanted: Vec<&dyn Managed> = processes.iter().map(|one| one as &dyn Managed).collect();
        self.starter(STEADY_CHECKS).start(&wanted)
    }

    /// Stops everything, services before servers. Returns the names of the processes that ran.
    pub fn stop(&self) -> Result<Vec<String>, StackError> {
        let _lock = self.run_dir.lock()?;
        self.stop_all(Force::TermThenKill(self.config.stop_timeout()))
    }

    /// Stops everything and removes data, logs and generated configuration. Returns the names of the processes that ran.
    pub fn clean(&self) -> Result<Vec<String>, StackError> {
        let _lock = self.run_dir.lock()?;
        let stopped = self.stop_all(Force::Kill)?;
        self.run_dir.remove_contents()?;
        Ok(stopped)
    }

    /// Stops one process with SIGTERM, then SIGKILL at the deadline; a later start brings it back.
    pub fn stop_one(&self, name: &str) -> Result<(), StackError> {
        self.stop_named(name, Force::TermThenKill(self.config.stop_timeout()))
    }

    /// Kills one process with SIGKILL, as a crash would; a later start brings it back.
    pub fn kill_one(&self, name: &str) -> Result<(), StackError> {
        self.stop_named(name, Force::Kill)
    }

    /// Runs one of Kafka's own tools, such as `ConsumerGroupCommand`, on the cluster; as the administrator of [closed](StackConfig::closed) servers.
    /// Returns its output.
    ///
    /// # Errors
    /// If the tool fails; the error has its output.
    pub fn kafka_tool(&self, class: &str, args: &[&str]) -> Result<String, StackError> {
        self.kafka.tool(class, args)
    }

    /// The listeners of brokers behind proxies, first broker first.
    pub fn proxied_listeners(&self) -> &[ProxiedListener] {
        &self.kafka.proxied
    }

    /// Runs statements on a MariaDB server, bypassing everything that clients go through, with all privileges. Returns the rows, without headings.
    ///
    /// # Errors
    /// If there is no such server, it does not run, or it refuses.
    pub fn execute_sql(&self, server: &str, sql: &str) -> Result<String, StackError> {
        let servers = self.mariadb_servers();
        match servers.iter().find(|one| one.name() == server) {
            Some(server) => server.execute(sql),
            None => Err(StackError::UnknownProcess {
                name: server.to_owned(),
                known: servers.iter().map(Managed::name).collect(),
            }),
        }
    }

    /// Sets the wall clock of a process, whether it runs now or is started later, `offset_s` seconds off.
    ///
    /// # Errors
    /// If the stack was not started with clocks that can be set.
    pub fn set_clock(&self, name: &str, offset_s: i64) -> Result<(), StackError> {
        let clocks = self.clocks.as_ref().ok_or(StackError::NoSettableClocks)?;
        clocks.set(name, offset_s)
    }

    /// The data directory of a server.
    pub fn data_dir(&self, server: &str) -> PathBuf {
        self.run_dir.data(server)
    }

    /// The pid of a process, if it runs.
    pub fn pid(&self, name: &str) -> Option<u32> {
        match pid_file::read(&self.run_dir, name) {
            PidFile::Running(identity) => Some(identity.pid),
            PidFile::Missing | PidFile::Stale => None,
        }
    }

    /// The status of every process of the stack, servers first. Each is checked in its own protocol.
    pub fn status(&self) -> Vec<ProcessStatus> {
        let lost = orphan::find(&self.run_dir);
        let servers = self.servers();
        let of_servers = servers.iter().map(|server| {
            let port = server.ports().first().copied().unwrap_or_default();
            self.status_of(server.name(), port, &lost, || server.check_ready())
        });
        let ports = self.service_ports();
        // `tidemark up` has all services in one process, which answers for them on ingest's port.
        let together = ReadyUrl::local(self.config.ports.ingest).gates();
        let of_services = ports.into_iter().map(|(name, port)| {
            let own = self.status_of(name.to_owned(), port, &lost, || {
                ReadyUrl::local(port).check()
            });
            let is_away = own.pid.is_none() && own.state != ProcessState::Ready;
            match probe::closed_of(name, &together) {
                Some(closed) if is_away => ProcessStatus {
                    port: self.config.ports.ingest,
                    state: if closed.is_empty() {
                        ProcessState::Ready
                    } else {
                        ProcessState::NotReady
                    },
                    reason: (!closed.is_empty()).then_some(closed),
                    ..own
                },
                _ => own,
            }
        });
        of_servers.chain(of_services).collect()
    }

    fn status_of(
        &self,
        name: String,
        port: u16,
        lost: &[(String, Identity)],
        check_ready: impl Fn() -> Result<(), String>,
    ) -> ProcessStatus {
        let recorded = pid_file::read(&self.run_dir, &name);
        let lost = lost.iter().find(|(one, _)| *one == name).cloned();
        let (pid, state, reason) = match (recorded, lost) {
            (PidFile::Running(identity), _) | (_, Some((_, identity))) => match check_ready() {
                Ok(()) => (Some(identity.pid), ProcessState::Ready, None),
                Err(reason) => (Some(identity.pid), ProcessState::NotReady, Some(reason)),
            },
            // Another program may have started it, for example in a container.
            (PidFile::Missing | PidFile::Stale, None) if check_ready().is_ok() => {
                (None, ProcessState::Ready, None)
            }
            (PidFile::Missing, None) => (None, ProcessState::Stopped, None),
            (PidFile::Stale, None) => (None, ProcessState::Died, None),
        };
        ProcessStatus {
            name,
            pid,
            port,
            state,
            reason,
        }
    }

    /// Kills everything at once, for throw-away stacks.
    pub(crate) fn kill_all(&self) -> Result<Vec<String>, StackError> {
        self.stop_all(Force::Kill)
    }

    fn stop_all(&self, force: Force) -> Result<Vec<String>, StackError> {
        // All processes that were started here, including those of a configuration that had more.
        let mut recorded = self.run_dir.recorded_names()?;
        recorded.extend(
            orphan::find(&self.run_dir)
                .into_iter()
                .map(|(name, _)| name),
        );
        recorded.sort();
        recorded.dedup();
        recorded.sort_by_key(|name| (rank(name), name.clone()));
        let (servers, services): (Vec<String>, Vec<String>) =
            recorded.into_iter().partition(|name| is_server(name));
        let mut stopped = stop::stop(&self.run_dir, &services, force)?;
        stopped.extend(stop::stop(&self.run_dir, &servers, force)?);
        Ok(stopped)
    }

    fn stop_named(&self, name: &str, force: Force) -> Result<(), StackError> {
        let _lock = self.run_dir.lock()?;
        let mut known = self.server_names();
        known.extend(SERVICE_NAMES.iter().map(|name| (*name).to_owned()));
        if !known.iter().any(|one| one == name) {
            return Err(StackError::UnknownProcess {
                name: name.to_owned(),
                known,
            });
        }
        stop::stop(&self.run_dir, &[name.to_owned()], force)?;
        Ok(())
    }

    fn servers(&self) -> Vec<Box<dyn Managed>> {
        let brokers = self.kafka.nodes().into_iter();
        let mut servers: Vec<Box<dyn Managed>> = brokers
            .map(|node| Box::new(node) as Box<dyn Managed>)
            .collect();
        servers.extend((0..self.config.redis_nodes).map(|index| {
            let redis = self.redis.clone();
            Box::new(RedisSpec { index, ..redis }) as Box<dyn Managed>
        }));
        let mariadb = self.mariadb_servers().into_iter();
        servers.extend(mariadb.map(|one| Box::new(one) as Box<dyn Managed>));
        servers
    }

    fn mariadb_servers(&self) -> Vec<MariaDbSpec> {
        let server = |index| MariaDbSpec {
            index,
            ..self.mariadb.clone()
        };
        (0..self.config.mariadb_nodes).map(server).collect()
    }

    fn server_names(&self) -> Vec<String> {
        self.servers().iter().map(|server| server.name()).collect()
    }

    fn service_ports(&self) -> [(&'static str, u16); 6] {
        let ports = &self.config.ports;
        [
            ("ingest", ports.ingest),
            ("sequencer", ports.sequencer),
            ("projector-unread", ports.projector_unread),
            ("projector-mysql", ports.projector_mysql),
            ("query-api", ports.query_api),
            ("gateway", ports.gateway),
        ]
    }

    fn service_program(&self) -> Result<PathBuf, StackError> {
        match &self.config.service_program {
            Some(program) => Ok(program.clone()),
            None => std::env::current_exe().map_err(StackError::io("find this program")),
        }
    }

    fn starter(&self, checks: u32) -> Starter<'_> {
        Starter {
            checks,
            clocks: self.clocks.as_ref(),
            run_dir: &self.run_dir,
            lifetime: self.lifetime,
            timeout: self.config.start_timeout(),
        }
    }
}

fn is_server(name: &str) -> bool {
    SERVER_NAMES.contains(&kind_of(name))
}

/// The kind of a server, which further servers of that kind have in their names.
pub(crate) fn kind_of(name: &str) -> &str {
    let kinds = SERVER_NAMES.into_iter();
    let mut further = kinds.filter(|kind| {
        let rest = name.strip_prefix(kind);
        rest.is_some_and(|rest| rest.starts_with('-'))
    });
    further.next().unwrap_or(name)
}

/// Puts processes into the order in which they are listed; those with other names come last.
fn rank(name: &str) -> usize {
    let known = SERVER_NAMES.iter().chain(&SERVICE_NAMES);
    let kind = kind_of(name);
    known
        .clone()
        .position(|one| *one == kind)
        .unwrap_or(known.count())
}

fn as_managed(servers: &[Box<dyn Managed>]) -> Vec<&dyn Managed> {
    servers.iter().map(AsRef::as_ref).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_of_an_earlier_configuration_are_stopped_too() {
        let dir = tempfile::tempdir().unwrap();
        let config = StackConfig {
            run_dir: dir.path().to_owned(),
            kafka_nodes: 1,
            ..StackConfig::default()
        };
        let stack = Stack::new(config).unwrap();
        let names = ["mariadb", "kafka-3", "sequencer-2", "query-api", "kafka-2"];
        let mut children = Vec::new();
        for name in names {
            let mut sleep = std::process::Command::new("sleep");
            let child = sleep.arg("60").spawn().unwrap();
            let identity = Identity::of(child.id()).unwrap();
            pid_file::write(&stack.run_dir, name, &identity).unwrap();
            children.push((child, identity));
        }
        let stopped = stack.clean().unwrap();
        let in_order = ["query-api", "sequencer-2", "kafka-2", "kafka-3", "mariadb"];
        assert_eq!(stopped, in_order);
        for (mut child, identity) in children {
            assert!(!identity.is_alive());
            // If the status was collected already, there is nothing to wait for.
            let _ = child.wait();
        }
        assert!(!dir.path().join("kafka-2.pid").exists());
    }
}

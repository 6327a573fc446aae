//! Starting what is not running, and waiting until all of it is ready.

use std::thread;
use std::time::{Duration, Instant};

use crate::log_file::LogFile;
use crate::managed::Managed;
use crate::pid_file::{self, Noted};
use crate::process::{self, Identity, Lifetime};
use crate::run_dir::RunDir;
use crate::{StackError, port};

const POLL: Duration = Duration::from_millis(50);

/// What a start found or did for one process.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its name.
    pub name: String,
    /// Its pid.
    pub pid: u32,
    /// The port where it listens.
    pub port: u16,
    /// Whether it was running before.
    pub was_running: bool,
    /// How long it took until it was ready.
    pub ready_after: Duration,
}

/// A process that runs and may not be ready yet.
struct Pending<'a> {
    managed: &'a dyn Managed,
    identity: Identity,
    log: LogFile,
    was_running: bool,
}

/// How processes are started.
pub(crate) struct Starter<'a> {
    pub(crate) run_dir: &'a RunDir,
    pub(crate) lifetime: Lifetime,
    pub(crate) timeout: Duration,
}

impl Starter<'_> {
    /// Starts those that are not running, and returns when all are ready. Nothing is started if a port is taken.
    pub(crate) fn start(&self, wanted: &[&dyn Managed]) -> Result<Vec<Started>, StackError> {
        let noted: Vec<Noted> = wanted
            .iter()
            .map(|managed| pid_file::read(self.run_dir, &managed.name()))
            .collect();
        let to_start: Vec<&dyn Managed> = wanted
            .iter()
            .zip(&noted)
            .filter(|(_, noted)| !matches!(noted, Noted::Running(_)))
            .map(|(managed, _)| *managed)
            .collect();
        check_ports(&to_start)?;
        prepare_all(&to_start)?;

        let begun = Instant::now();
        let pending = wanted
            .iter()
            .zip(noted)
            .map(|(managed, noted)| self.ensure_running(*managed, noted))
            .collect::<Result<Vec<_>, _>>()?;
        pending
            .iter()
            .map(|pending| self.wait_until_ready(pending, begun))
            .collect()
    }

    fn ensure_running<'a>(
        &self,
        managed: &'a dyn Managed,
        noted: Noted,
    ) -> Result<Pending<'a>, StackError> {
        match noted {
            Noted::Running(identity) => Ok(Pending {
                managed,
                identity,
                log: LogFile::existing(&self.run_dir.log(&managed.name())),
                was_running: true,
            }),
            Noted::Nothing | Noted::Gone => self.launch(managed),
        }
    }

    fn launch<'a>(&self, managed: &'a dyn Managed) -> Result<Pending<'a>, StackError> {
        let name = managed.name();
        let what = || format!("start {name}");
        let (log, file) =
            LogFile::append(&self.run_dir.log(&name)).map_err(StackError::io(what()))?;
        let child = process::spawn(managed.command()?, file, self.lifetime)
            .map_err(StackError::io(what()))?;
        // A child that has ended already is still known to the kernel until its status is collected.
        let identity = Identity::of(child.id())
            .ok_or_else(|| StackError::io(what())(std::io::Error::other("no such process")))?;
        pid_file::write(self.run_dir, &name, &identity)?;
        Ok(Pending {
            managed,
            identity,
            log,
            was_running: false,
        })
    }

    fn wait_until_ready(&self, pending: &Pending, begun: Instant) -> Result<Started, StackError> {
        let name = pending.managed.name();
        loop {
            // Alive is asked first: a stranger on the port must not count as the server's own answer.
            let alive = pending.identity.is_alive();
            let readiness = pending.managed.check_ready();
            match readiness {
                _ if !alive => {
                    pid_file::remove(self.run_dir, &name)?;
                    return Err(StackError::Exited {
                        name,
                        log: pending.log.path().to_owned(),
                        tail: pending.log.tail(),
                    });
                }
                Ok(()) => return Ok(pending.started(begun.elapsed())),
                Err(reason) if begun.elapsed() >= self.timeout => {
                    return Err(StackError::NotReady {
                        name,
                        waited_s: self.timeout.as_secs(),
                        reason,
                        log: pending.log.path().to_owned(),
                        tail: pending.log.tail(),
                    });
                }
                Err(_) => thread::sleep(POLL),
            }
        }
    }
}

impl Pending<'_> {
    fn started(&self, ready_after: Duration) -> Started {
        Started {
            name: self.managed.name(),
            pid: self.identity.pid,
            port: self.managed.ports().first().copied().unwrap_or_default(),
            was_running: self.was_running,
            ready_after,
        }
    }
}

fn check_ports(to_start: &[&dyn Managed]) -> Result<(), StackError> {
    let taken = to_start.iter().find_map(|managed| {
        let port = managed
            .ports()
            .into_iter()
            .find(|port| !port::is_free(*port))?;
        Some((managed.name(), port))
    });
    match taken {
        None => Ok(()),
        Some((service, port)) => Err(StackError::PortTaken { service, port }),
    }
}

/// Prepares all at once: a first start waits for two programs that take seconds each.
fn prepare_all(to_start: &[&dyn Managed]) -> Result<(), StackError> {
    thread::scope(|scope| {
        let running: Vec<_> = to_start
            .iter()
            .map(|managed| scope.spawn(|| managed.prepare()))
            .collect();
        running.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

//! Starts the processes that do not run, and waits until all are ready.

use std::thread;
use std::time::{Duration, Instant};

use crate::clocks::Clocks;
use crate::log_file::LogFile;
use crate::managed::Managed;
use crate::pid_file::{self, PidFile};
use crate::process::{self, Identity, Lifetime};
use crate::run_dir::RunDir;
use crate::{StackError, Unready, listener, orphan, port};

const POLL: Duration = Duration::from_millis(50);
/// The pause between two checks of processes that are all ready: a ready service may notice late that another one was restarted.
const STEADY: Duration = Duration::from_millis(300);

/// The result of a start for one process.
#[derive(Debug, Clone)]
pub struct Started {
    /// The process's name.
    pub name: String,
    /// The process's pid.
    pub pid: u32,
    /// The port on which the process listens.
    pub port: u16,
    /// Whether the process was running before.
    pub was_running: bool,
    /// How long it took until the process was ready.
    pub ready_after: Duration,
}

/// A process that runs and may not be ready yet.
struct Pending<'a> {
    managed: &'a dyn Managed,
    identity: Identity,
    log: LogFile,
    was_running: bool,
}

/// The means to start processes.
pub(crate) struct Starter<'a> {
    pub(crate) run_dir: &'a RunDir,
    pub(crate) lifetime: Lifetime,
    pub(crate) timeout: Duration,
    /// The clocks, if processes get clocks that can be set.
    pub(crate) clocks: Option<&'a Clocks>,
    /// How many times in a row all processes must be found ready.
    pub(crate) checks: u32,
}

impl Starter<'_> {
    /// Starts the processes that do not run, and returns when all are ready. Nothing is started if a port is taken.
    pub(crate) fn start(&self, wanted: &[&dyn Managed]) -> Result<Vec<Started>, StackError> {
        orphan::adopt(self.run_dir)?;
        let recorded: Vec<PidFile> = wanted
            .iter()
            .map(|managed| pid_file::read(self.run_dir, &managed.name()))
            .collect();
        let to_start: Vec<&dyn Managed> = wanted
            .iter()
            .zip(&recorded)
            .filter(|(_, recorded)| !matches!(recorded, PidFile::Running(_)))
            .map(|(managed, _)| *managed)
            .collect();
        check_ports(to_start.iter().map(|one| (one.name(), one.ports())))?;
        prepare_all(&to_start)?;

        let begun = Instant::now();
        let pending = wanted
            .iter()
            .zip(recorded)
            .map(|(managed, recorded)| self.ensure_running(*managed, recorded))
            .collect::<Result<Vec<_>, _>>()?;
        self.wait_until_steady(&pending, begun)
    }

    fn ensure_running<'a>(
        &self,
        managed: &'a dyn Managed,
        recorded: PidFile,
    ) -> Result<Pending<'a>, StackError> {
        match recorded {
            PidFile::Running(identity) => Ok(Pending {
                managed,
                identity,
                log: LogFile::existing(&self.run_dir.log(&managed.name())),
                was_running: true,
            }),
            PidFile::Missing | PidFile::Stale => self.launch(managed),
        }
    }

    fn launch<'a>(&self, managed: &'a dyn Managed) -> Result<Pending<'a>, StackError> {
        let name = managed.name();
        let what = || format!("start {name}");
        let (log, file) =
            LogFile::append(&self.run_dir.log(&name)).map_err(StackError::io(what()))?;
        let mut command = managed.command()?;
        if let Some(clocks) = self.clocks {
            clocks.apply(managed.clock_kind(), &name, &mut command)?;
        }
        let child = process::spawn(command, file, self.lifetime).map_err(StackError::io(what()))?;
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

    /// Waits for one process after the other, and then checks all of them again.
    fn wait_until_steady(
        &self,
        pending: &[Pending],
        begun: Instant,
    ) -> Result<Vec<Started>, StackError> {
        let mut started: Vec<Started> = Vec::new();
        for one in pending {
            while self.check(one)?.is_some() {
                self.pause(pending, begun, POLL)?;
            }
            started.push(one.started(begun.elapsed()));
        }
        let mut checks = 1;
        while checks < self.checks {
            self.pause(pending, begun, STEADY)?;
            checks = if self.unready(pending)?.is_empty() {
                checks + 1
            } else {
                0
            };
        }
        Ok(started)
    }

    /// Why a process is not ready, if so. Fails if it has ended.
    fn check(&self, pending: &Pending) -> Result<Option<Unready>, StackError> {
        let name = pending.managed.name();
        // Whether it is alive is checked first: a foreign process on the port must not count as the server's own answer.
        let alive = pending.identity.is_alive();
        let readiness = pending.managed.check_ready();
        if !alive {
            pid_file::remove(self.run_dir, &name)?;
            return Err(StackError::Exited {
                name,
                log: pending.log.path().to_owned(),
                tail: pending.log.tail(),
            });
        }
        Ok(readiness.err().map(|reason| Unready { name, reason }))
    }

    fn unready(&self, pending: &[Pending]) -> Result<Vec<Unready>, StackError> {
        let checks = pending.iter().map(|one| self.check(one));
        checks.filter_map(Result::transpose).collect()
    }

    /// Waits before the next check; at the deadline, fails with the processes that are not ready.
    fn pause(
        &self,
        pending: &[Pending],
        begun: Instant,
        pause: Duration,
    ) -> Result<(), StackError> {
        if begun.elapsed() >= self.timeout {
            let unready = self.unready(pending)?;
            let first = unready
                .first()
                .and_then(|first| pending.iter().find(|one| one.managed.name() == first.name));
            if let Some(first) = first {
                return Err(StackError::NotReady {
                    waited_s: self.timeout.as_secs(),
                    log: first.log.path().to_owned(),
                    tail: first.log.tail(),
                    unready,
                });
            }
        }
        thread::sleep(pause);
        Ok(())
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

/// Refuses a start if a port is not free; the arguments are names and ports of processes that do not run yet.
pub(crate) fn check_ports(
    mut to_start: impl Iterator<Item = (String, Vec<u16>)>,
) -> Result<(), StackError> {
    let taken = to_start.find_map(|(service, ports)| {
        let port = ports.into_iter().find(|port| !port::is_free(*port))?;
        Some((service, port))
    });
    match taken {
        None => Ok(()),
        Some((service, port)) => Err(StackError::PortTaken {
            service,
            port,
            holder: listener::describe(port),
        }),
    }
}

/// Prepares all processes at once: a first start waits for two programs that take seconds each.
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

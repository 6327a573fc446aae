//! Processes of the operating system: starts one that outlives this process or dies with it, and recognises one by its start time.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions};

use crate::environment::fix_locale;

/// How long a started process may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// The process continues after this one ends.
    Detached,
    /// The kernel kills the process when this one ends, in whatever way.
    WithThisProcess,
}

/// The identity of a process: pids are reused, start times within one boot are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    start_ticks: u64,
    boot_id: String,
}

impl Identity {
    /// The identity of a process that lives now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        Some(Self {
            pid,
            start_ticks: stat.start_ticks,
            boot_id: boot_id()?,
        })
    }

    /// Whether that very process still runs; a zombie does not count as running.
    pub(crate) fn is_alive(&self) -> bool {
        reap(self.pid);
        let same = |stat: &Stat| stat.start_ticks == self.start_ticks && !stat.has_ended();
        Stat::read(self.pid).is_some_and(|stat| same(&stat))
            && boot_id().is_some_and(|boot| boot == self.boot_id)
    }

    /// Sends a signal if that very process still runs.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.is_alive() {
            return;
        }
        if let Some(pid) = as_pid(self.pid) {
            // The process may have ended since the check: then there is nothing left to signal.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    pub(crate) fn to_line(&self) -> String {
        format!("{} {} {}\n", self.pid, self.start_ticks, self.boot_id)
    }

    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        Some(Self {
            pid: words.next()?.parse().ok()?,
            start_ticks: words.next()?.parse().ok()?,
            boot_id: words.next()?.to_owned(),
        })
    }
}

/// The fields of `/proc/<pid>/stat` that are needed.
struct Stat {
    state: char,
    threads: u32,
    start_ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The program's name is in parentheses and may hold any character, so fields are counted from the last one.
    fn parse(stat: &str) -> Option<Self> {
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut fields = after_name.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let threads = fields.nth(16)?.parse().ok()?;
        let start_ticks = fields.nth(1)?.parse().ok()?;
        Some(Self {
            state,
            threads,
            start_ticks,
        })
    }

    /// The first thread of a killed process is a zombie while others are still ending and hold ports and files.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

fn as_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Collects the exit status of a child of ours, so that it does not stay as a zombie.
fn reap(pid: u32) {
    if let Some(pid) = as_pid(pid) {
        // A process that is not our child has no status for us to collect.
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Starts a process in a session of its own, with nothing on stdin, its output in `log`, no other descriptor of ours and not the user's locale.
pub(crate) fn spawn(mut command: Command, log: File, lifetime: Lifetime) -> io::Result<Child> {
    fix_locale(&mut command);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    match lifetime {
        Lifetime::Detached => {
            isolate(&mut command, None);
            command.spawn()
        }
        Lifetime::WithThisProcess => {
            isolate(&mut command, Some(rustix::process::getpid()));
            spawn_on_lasting_thread(command)
        }
    }
}

/// Arranges what the child does between fork and exec; with a parent given, the child dies with it.
fn isolate(command: &mut Command, parent: Option<Pid>) {
    let before_exec = move || {
        rustix::process::setsid()?;
        if parent.is_some() {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before the line above: then no signal will ever come.
            if rustix::process::getppid() != parent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        close_inherited_on_exec();
        Ok(())
    };
    // SAFETY: the closure runs in the forked child and makes only plain system calls; it takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Marks every descriptor above stderr close-on-exec: a descriptor inherited from a shell or from make would otherwise stay open in the server, and a
/// reader that waits for its end would wait as long as the server lives.
fn close_inherited_on_exec() {
    let flags = libc::CLOSE_RANGE_CLOEXEC.cast_signed();
    // SAFETY: the call only sets a flag on descriptors of this process. A kernel without it leaves them as they are.
    unsafe {
        libc::close_range(3, libc::c_uint::MAX, flags);
    }
}

type SpawnRequest = (Command, Sender<io::Result<Child>>);

/// Starts a process from a thread that never ends: the death signal comes when the *thread* that forked ends, and the
/// threads of tests and of async runtimes do end.
fn spawn_on_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<SpawnRequest>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (requests, inbox) = channel::<SpawnRequest>();
        thread::spawn(move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        });
        requests
    });
    let (answer, reply) = channel();
    spawner
        .send((command, answer))
        .map_err(|_| io::Error::other("the spawning thread has ended"))?;
    reply
        .recv()
        .map_err(|_| io::Error::other("the spawning thread has ended"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_name_with_parentheses() {
        let mut fields = vec!["0"; 30];
        fields[0] = "Z";
        fields[17] = "3";
        fields[19] = "4242";
        let stat = Stat::parse(&format!("17 (a ) b)) {}", fields.join(" "))).unwrap();
        assert_eq!((stat.state, stat.threads, stat.start_ticks), ('Z', 3, 4242));
        assert!(!stat.has_ended());
    }

    #[test]
    fn an_identity_survives_its_file() {
        let identity = Identity::of(std::process::id()).unwrap();
        assert_eq!(
            Identity::from_line(&identity.to_line()),
            Some(identity.clone())
        );
        assert!(identity.is_alive());
    }

    #[test]
    fn the_same_pid_with_another_start_time_is_another_process() {
        let mut identity = Identity::of(std::process::id()).unwrap();
        identity.start_ticks += 1;
        assert!(!identity.is_alive());
    }
}

//! Errors, with one clear line each.

use std::io;
use std::path::PathBuf;

use crate::stack::kind_of;

/// Why a stack could not be installed, started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// Programs are missing and cannot be installed from here.
    #[error("missing: {}; install the packages: {}", programs.join(", "), packages.join(" "))]
    MissingPrograms {
        /// The programs that were not found.
        programs: Vec<String>,
        /// The Debian packages that have them.
        packages: Vec<String>,
    },
    /// Another process listens on a port of this stack.
    #[error(
        "port {port} of {service} is taken by {holder}: stop that process, or set {}",
        settings_of_ports(service)
    )]
    PortTaken {
        /// The process of the stack that wants the port.
        service: String,
        /// The port, on 127.0.0.1.
        port: u16,
        /// The process that listens there: pid and command line.
        holder: String,
    },
    /// The disk is nearly full, and servers would fail in ways that are hard to read.
    #[error("only {free_mib} MiB are free at {}: the stack needs at least {needed_mib} MiB", path.display())]
    DiskFull {
        /// The run directory.
        path: PathBuf,
        /// The free space, in MiB.
        free_mib: u64,
        /// The space that a start requires, in MiB.
        needed_mib: u64,
    },
    /// Another user of the directory has files where the stack would put its own, and the stack would remove them.
    #[error(
        "{} has files that no stack put there, {} among them: name an empty or a new directory in stack.run_dir",
        run_dir.display(), found.display()
    )]
    RunDirOfOthers {
        /// The run directory.
        run_dir: PathBuf,
        /// One of the files.
        found: PathBuf,
    },
    /// The run directory's path has a character that one of the servers' configuration files cannot express.
    #[error("{} has {what} in its path: name a directory without it in stack.run_dir", run_dir.display())]
    RunDirName {
        /// The run directory.
        run_dir: PathBuf,
        /// The character in the path.
        what: &'static str,
    },
    /// Kafka has named its files in the digits of another locale, and would start empty beside them.
    #[error(
        "{} is named in digits other than 0 to 9: Kafka was started under another locale, and would begin an empty log beside it. \
         Rename such files below {} with these digits, or remove what is stored: `tidemark stack clean`",
        found.display(), data.display()
    )]
    KafkaOfAnotherLocale {
        /// Kafka's data directory.
        data: PathBuf,
        /// One of the files.
        found: PathBuf,
    },
    /// A process ended before it was ready.
    #[error("{name} ended while it was starting; its log {} ends with:\n{tail}", log.display())]
    Exited {
        /// The name of the process.
        name: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines that it wrote since this start.
        tail: String,
    },
    /// Processes did not become ready in time, or did not stay so; they are left running.
    #[error("not ready after {waited_s} s: {}; the log {} ends with:\n{tail}", listed(unready), log.display())]
    NotReady {
        /// The processes.
        unready: Vec<Unready>,
        /// How long the start waited, in seconds.
        waited_s: u64,
        /// The log file of the first of them.
        log: PathBuf,
        /// The last lines that it wrote since this start.
        tail: String,
    },
    /// A process outlived SIGKILL.
    #[error("{name} (pid {pid}) is still there after SIGKILL")]
    WouldNotDie {
        /// The name of the process.
        name: String,
        /// Its pid.
        pid: u32,
    },
    /// A preparing program failed.
    #[error("{what} failed ({status}):\n{tail}")]
    CommandFailed {
        /// The action.
        what: String,
        /// How the program ended.
        status: String,
        /// The last lines of its output.
        tail: String,
    },
    /// Another process is starting or stopping the same stack.
    #[error("another process is starting or stopping the stack under {}", run_dir.display())]
    Busy {
        /// The run directory.
        run_dir: PathBuf,
    },
    /// A readiness address is not `http://<ip>:<port>/<path>`.
    #[error("{given:?} is not of the form http://127.0.0.1:7301/readyz")]
    BadReadyUrl {
        /// The given address.
        given: String,
    },
    /// A name that is not of a process of this stack.
    #[error("{name:?} is not a process of the stack; there are: {}", known.join(", "))]
    UnknownProcess {
        /// The given name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// Settable clocks were requested and are not available.
    #[error(
        "the processes' clocks cannot be set: that needs libfaketime (`apt-get install faketime`), at the start"
    )]
    NoSettableClocks,
    /// A container could not be started, or cannot be reached on 127.0.0.1.
    #[error("no container of {image}: {reason}")]
    Container {
        /// The image, with its tag.
        image: String,
        /// The error of the engine or of the readiness check.
        reason: String,
    },
    /// `TIDEMARK_TEST_SERVERS` names no kind of servers that this program can start.
    #[error("TIDEMARK_TEST_SERVERS is {given:?}, but there are only: {}", known.join(", "))]
    UnknownServers {
        /// The given kind.
        given: String,
        /// The known kinds.
        known: Vec<String>,
    },
    /// There is no home directory to keep Kafka's jars in.
    #[error("no place for Kafka's jars: set TIDEMARK_CACHE, XDG_CACHE_HOME or HOME")]
    NoCacheDir,
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// The action.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// A process that is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unready {
    /// The process's name.
    pub name: String,
    /// The reason from the last readiness check.
    pub reason: String,
}

/// The settings of a process's ports.
fn settings_of_ports(service: &str) -> String {
    match kind_of(service) {
        "kafka" => "stack.ports.kafka or stack.ports.kafka_controller".to_owned(),
        kind => format!("stack.ports.{}", kind.replace('-', "_")),
    }
}

fn listed(unready: &[Unready]) -> String {
    let each: Vec<String> = unready
        .iter()
        .map(|one| format!("{} ({})", one.name, one.reason))
        .collect();
    each.join(", ")
}

impl StackError {
    /// Wraps an I/O error with the action, for use in `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_names_its_setting() {
        for (service, setting) in [
            ("mariadb", "set stack.ports.mariadb"),
            ("redis-2", "set stack.ports.redis"),
            ("kafka-3", "or stack.ports.kafka_controller"),
            ("query-api", "set stack.ports.query_api"),
        ] {
            let taken = StackError::PortTaken {
                service: service.to_owned(),
                port: 7306,
                holder: "pid 1 (init)".to_owned(),
            };
            let text = taken.to_string();
            assert!(text.ends_with(setting), "{text}");
        }
    }
}

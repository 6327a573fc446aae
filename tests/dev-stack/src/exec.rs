//! Runs a command with servers of its own.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use rustix::process::Signal;

use crate::test_servers::{ENV_KAFKA, ENV_MYSQL, ENV_REDIS};
use crate::throw_away::ThrowAwayServers;
use crate::{FreshServers, StackConfig, StackError, install};

/// The exit code of a shell for a command that a signal ended is this, plus the signal's number.
const EXIT_BY_SIGNAL: i32 = 128;

/// Installs what is missing, starts fresh servers on free ports, runs the command with their addresses in the environment (see
/// [`crate::TestServers`]) and returns its exit code. The servers and their data are gone afterwards, also if this process is interrupted: the kernel
/// then kills the servers, and a waiting shell removes the data. With the feature `docker` the servers are containers if a Docker engine answers.
pub fn exec_with_fresh_servers(command: &[OsString]) -> Result<i32, StackError> {
    let servers = start_servers(&StackConfig::default())?;
    let endpoints = servers.endpoints();
    let (program, args) = command
        .split_first()
        .ok_or_else(|| StackError::io("run a command")(std::io::ErrorKind::InvalidInput.into()))?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env(ENV_KAFKA, &endpoints.kafka_brokers)
        .env(ENV_REDIS, &endpoints.redis_url)
        .env(ENV_MYSQL, &endpoints.mysql_url);
    end_with_us(&mut command);
    let status = command
        .status()
        .map_err(StackError::io(format!("run {}", program.display())))?;
    Ok(exit_code(status))
}

fn start_servers(config: &StackConfig) -> Result<ThrowAwayServers, StackError> {
    let installed = install(config);
    if let Err(error) = &installed {
        tracing::warn!(%error, "no native servers, which tests that stop or kill a server need");
    }
    ThrowAwayServers::start(|| installed.and_then(|()| FreshServers::start_with(config)))
}

/// Sends SIGTERM to the command when this process is killed: without its servers it could only fail.
fn end_with_us(command: &mut Command) {
    let before_exec = || {
        Ok(rustix::process::set_parent_process_death_signal(Some(
            Signal::TERM,
        ))?)
    };
    // SAFETY: the closure runs in the forked child and makes one system call; it takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(before_exec);
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| EXIT_BY_SIGNAL + status.signal().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_becomes_the_code_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }
}

//! What the stack needs to know of each process that it starts, a server or a service of ours.

use std::process::{Command, Output};

use crate::StackError;
use crate::clocks::ClockKind;
use crate::environment::fix_locale;
use crate::log_file::last_lines;

/// One process of the stack.
pub(crate) trait Managed: Sync {
    /// The name of the process, also of its pid file, log and data directory.
    fn name(&self) -> String;

    /// The ports on 127.0.0.1 on which it will listen; the first is the one to show.
    fn ports(&self) -> Vec<u16>;

    /// Writes the configuration, and creates the data directory if it does not exist yet.
    fn prepare(&self) -> Result<(), StackError>;

    /// The command that runs the process in the foreground.
    fn command(&self) -> Result<Command, StackError>;

    /// How the process gets a wall clock that can be set.
    fn clock_kind(&self) -> ClockKind {
        ClockKind::Waits
    }

    /// Whether the process answers in its own protocol; otherwise the reason.
    fn check_ready(&self) -> Result<(), String>;
}

/// The name of the server with this index (from 0) of its kind: `redis`, `redis-2`, ….
pub(crate) fn numbered(kind: &str, index: u16) -> String {
    match index {
        0 => kind.to_owned(),
        _ => format!("{kind}-{}", index + 1),
    }
}

/// Runs a preparing program to its end.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<Output, StackError> {
    fix_locale(command);
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(StackError::io(what))?;
    if output.status.success() {
        return Ok(output);
    }
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    Err(StackError::CommandFailed {
        what: what.to_owned(),
        status: output.status.to_string(),
        tail: last_lines(&text),
    })
}

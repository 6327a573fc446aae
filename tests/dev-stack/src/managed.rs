//! What the stack needs to know of anything that it starts: a server or a service of ours.

use std::process::{Command, Output};

use crate::StackError;
use crate::clocks::ClockKind;
use crate::environment::fix_locale;
use crate::log_file::last_lines;

/// One process of the stack.
pub(crate) trait Managed: Sync {
    /// Its name: of the pid file, the log and the data directory.
    fn name(&self) -> String;

    /// The ports on 127.0.0.1 where it will listen; the first is the one to show.
    fn ports(&self) -> Vec<u16>;

    /// Writes its configuration and makes its data directory, if that is not there yet.
    fn prepare(&self) -> Result<(), StackError>;

    /// The command that runs it in the foreground.
    fn command(&self) -> Result<Command, StackError>;

    /// How it is given a wall clock that can be set.
    fn clock_kind(&self) -> ClockKind {
        ClockKind::Waits
    }

    /// Whether it answers in its own protocol; otherwise the reason.
    fn check_ready(&self) -> Result<(), String>;
}

/// What the server with this index, from 0, is called among those of its kind: `redis`, `redis-2`, ….
pub(crate) fn numbered(kind: &str, index: u16) -> String {
    match index {
        0 => kind.to_owned(),
        _ => format!("{kind}-{}", index + 1),
    }
}

/// Runs a program that prepares something, to its end.
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

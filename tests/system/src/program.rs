//! The program `tidemark`, as built beside this test.

use std::{env, ffi::OsStr, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

/// The longest time of a command.
const LONGEST: Duration = Duration::from_secs(180);

/// The path of the program: `target/<profile>/tidemark`, for a program of this crate there or a test in its `deps`.
///
/// # Errors
/// If the program is missing; the error names the command that builds it.
pub fn path() -> Result<PathBuf> {
    let this = env::current_exe().context("this process has no path")?;
    let beside = this.ancestors().skip(1).take(2);
    let mut programs = beside.map(|folder| folder.join("tidemark"));
    programs.find(|program| program.is_file()).with_context(|| {
        format!(
            "there is no tidemark near {}: `cargo build --package tidemark` builds it (`make test` does that first)",
            this.display()
        )
    })
}

/// The output of a command, and how it ended.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// The command line.
    pub command: String,
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// The output, if the command ended with this code.
    ///
    /// # Errors
    /// If the command ended otherwise; the error has all of its output.
    pub fn expect(self, code: i32) -> Result<Self> {
        ensure!(
            self.code == Some(code),
            "`{}` ended with {:?} instead of {code}\n{}\n{}",
            self.command,
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(self)
    }

    /// The standard output, followed by the standard error.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The standard output, as JSON.
    ///
    /// # Errors
    /// If the output is not JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout)
            .with_context(|| format!("`{}` printed no JSON: {}", self.command, self.stdout))
    }

    /// The standard output, as one JSON a line.
    ///
    /// # Errors
    /// If a line is not JSON.
    pub fn json_lines(&self) -> Result<Vec<Value>> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).with_context(|| format!("no JSON: {line}")))
            .collect()
    }
}

/// Runs the program to its end, with more variables in its environment.
///
/// # Errors
/// If the program is missing, or does not end.
pub async fn run_as(
    args: &[impl AsRef<OsStr>],
    environment: Vec<(String, String)>,
) -> Result<CommandOutput> {
    run_with(args, environment, "").await
}

/// As [`run_as`], with a text on standard input.
pub(crate) async fn run_with(
    args: &[impl AsRef<OsStr>],
    environment: Vec<(String, String)>,
    input: &str,
) -> Result<CommandOutput> {
    let shown: Vec<_> = args
        .iter()
        .map(|arg| arg.as_ref().to_string_lossy())
        .collect();
    let command = format!("tidemark {}", shown.join(" "));
    let mut process = Command::new(path()?);
    process
        .args(args)
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut process = process.spawn()?;
    if let Some(mut stdin) = process.stdin.take() {
        // A command that does not read its input may have ended.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = timeout(LONGEST, process.wait_with_output())
        .await
        .with_context(|| format!("`{command}` does not end"))??;
    Ok(CommandOutput {
        command,
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

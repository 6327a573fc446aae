//! The program `tidemark`, as it was built beside this test.

use std::{env, ffi::OsStr, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

/// No command takes longer.
const LONGEST: Duration = Duration::from_secs(180);

/// Where the program is: `target/<profile>/tidemark`, for this crate's program there or a test in its `deps`.
///
/// # Errors
/// It is not there; the error names the command that builds it.
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

/// What a command said, and how it ended.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// The command line.
    pub command: String,
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl CommandOutput {
    /// Itself, where it ended with that code.
    ///
    /// # Errors
    /// It ended otherwise; all that it said is in the error.
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

    /// All that it said, wherever it said it.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// What it printed, as JSON.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout)
            .with_context(|| format!("`{}` printed no JSON: {}", self.command, self.stdout))
    }

    /// What it printed, as one JSON a line.
    ///
    /// # Errors
    /// A line is no JSON.
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
/// It is not there, or does not end.
pub async fn run_as(
    args: &[impl AsRef<OsStr>],
    environment: Vec<(String, String)>,
) -> Result<CommandOutput> {
    run_with(args, environment, "").await
}

/// The same, with a text that it reads.
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
        // A command that reads nothing may have ended.
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

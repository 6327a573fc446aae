//! The machine, the date and the sources of the figures.

use std::{fs, process::Command};

use anyhow::Result;
use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Iso8601};

/// The circumstances that belong to every figure.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// The date of the start, in UTC.
    pub(crate) date: String,
    /// The commit of the sources, with `+` if they were changed since.
    pub(crate) commit: String,
    /// The command that measured.
    pub(crate) command: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
}

impl Machine {
    /// This machine, and the command that measures.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn here(command: String) -> Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let meminfo = fs::read_to_string("/proc/meminfo")?;
        let memory_kib = after(&meminfo, "MemTotal").and_then(|text| {
            let number = text.split_whitespace().next()?;
            number.parse::<f64>().ok()
        });
        Ok(Self {
            date: OffsetDateTime::now_utc().format(&Iso8601::DATE)?,
            commit: commit(),
            command,
            cpu: after(&cpuinfo, "model name")
                .unwrap_or("unknown")
                .to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: memory_kib.unwrap_or_default() / f64::from(1 << 20),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?
                .trim()
                .to_owned(),
        })
    }
}

/// The value of a line `name : value`.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn commit() -> String {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty=+"])
        .output();
    match git {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

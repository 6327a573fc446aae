//! Counts instructions by valgrind's callgrind.

use std::{env, process::Command};

use anyhow::{Context as _, Result, bail};
use pure_parts::{COUNT, MOST_RUNS};

/// Instructions for one message. The cost of a run before and after the part does not depend on how often the part is run, and cancels out in the difference.
///
/// # Errors
/// There is no valgrind, or it fails.
pub(crate) fn per_message(part: &str) -> Result<u64> {
    let once = counted(part, 1)?;
    let often = counted(part, MOST_RUNS)?;
    let messages = (MOST_RUNS - 1) * COUNT;
    Ok((often - once) / messages as u64)
}

fn counted(part: &str, times: usize) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["run", part, &times.to_string()])
        .output()
        .context("cannot run valgrind: apt-get install valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind failed: {said}");
    }
    let total = said
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, total) = total.with_context(|| format!("valgrind told no count: {said}"))?;
    total
        .trim()
        .parse()
        .with_context(|| format!("valgrind counted {total:?}"))
}

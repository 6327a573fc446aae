//! What processes use, as Linux counts it.

use std::{collections::BTreeMap, fs, time::Instant};

use anyhow::{Context as _, Result};
use system_tests::World;

use crate::sample::Sample;

/// This program, among the processes.
pub(crate) const CLIENT: &str = "client";

/// Counts from its start on.
pub(crate) struct Meter<'a> {
    world: &'a World,
    before: BTreeMap<String, f64>,
    began: Instant,
}

impl<'a> Meter<'a> {
    /// Starts to count.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(crate) fn start(world: &'a World) -> Result<Self> {
        let before = spent(world)?;
        Ok(Self {
            world,
            before,
            began: Instant::now(),
        })
    }

    /// What `count` of them took since the start.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(crate) fn stop(self, count: u64) -> Result<Sample> {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu_s = spent(self.world)?
            .into_iter()
            .map(|(name, after)| {
                let before = self.before.get(&name).copied().unwrap_or_default();
                (name, after - before)
            })
            .collect();
        Ok(Sample {
            count,
            seconds,
            cpu_s,
            resident_mib: resident_mib(self.world)?,
        })
    }
}

fn processes(world: &World) -> impl Iterator<Item = (String, u32)> {
    let this = (CLIENT.to_owned(), std::process::id());
    world.processes().into_iter().chain([this])
}

/// What each process has used so far, seconds of CPU.
fn spent(world: &World) -> Result<BTreeMap<String, f64>> {
    processes(world)
        .map(|(name, pid)| Ok((name, cpu_s(pid)?)))
        .collect()
}

/// What each process holds in memory, MiB.
pub(crate) fn resident_mib(world: &World) -> Result<BTreeMap<String, f64>> {
    processes(world)
        .map(|(name, pid)| Ok((name, resident_of(pid)?)))
        .collect()
}

/// User and system time of all threads that it has and had (proc(5), fields 14 and 15 of `stat`).
fn cpu_s(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may hold anything.
    let (_, after_name) = stat.rsplit_once(')').context("no stat")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |field: usize| -> Result<u64> {
        let text = fields.get(field - 3).context("a short stat")?;
        Ok(text.parse()?)
    };
    let total = ticks(14)? + ticks(15)?;
    Ok(total as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// What a process holds in memory, MiB.
pub(crate) fn resident_of(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = kib.context("no VmRSS")?.parse()?;
    Ok(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let pid = std::process::id();
        assert!(resident_of(pid).unwrap() > 0.5);
        let began = Instant::now();
        let before = cpu_s(pid).unwrap();
        while cpu_s(pid).unwrap() <= before {
            assert!(began.elapsed().as_secs() < 30, "no time passes");
        }
    }
}

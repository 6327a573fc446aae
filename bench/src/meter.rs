//! The resources that processes use, as Linux counts them.

use std::{collections::BTreeMap, ffi::OsString, fs, path::Path, time::Instant};

use anyhow::{Context as _, Result, ensure};
use system_tests::TestEnv;

use crate::sample::Sample;

/// The services that every message passes through, and the one that answers queries: those of a deployment without devices.
pub(crate) const FIVE: [&str; 5] = [
    "sequencer",
    "projector-mysql",
    "projector-unread",
    "query-api",
    "ingest",
];

/// The name, among the processes, for this program and the programs that it ran to their end.
pub(crate) const CLIENT: &str = "client";

/// Fields of `stat` (proc(5)): user and system time of its own, and of its children that have ended.
const OWN: [usize; 2] = [14, 15];
const CHILDREN: [usize; 2] = [16, 17];

/// The first letters of the names of the compiler threads of a Java process.
const COMPILERS: [&str; 2] = ["C1 Compiler", "C2 Compiler"];

/// The processes of a system, by their names.
pub(crate) trait Processes {
    /// Those that run now.
    fn running(&self) -> Vec<(String, u32)>;
}

impl Processes for TestEnv {
    fn running(&self) -> Vec<(String, u32)> {
        self.processes()
    }
}

/// Measures CPU from its creation on, and memory at the end.
pub(crate) struct Meter<'a> {
    of: &'a dyn Processes,
    before: BTreeMap<String, f64>,
    began: Instant,
}

impl<'a> Meter<'a> {
    /// Starts counting.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn start(of: &'a dyn Processes) -> Result<Self> {
        let before = spent(of)?;
        Ok(Self {
            of,
            before,
            began: Instant::now(),
        })
    }

    /// The sample of `count` items since the start.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn stop(self, count: u64) -> Result<Sample> {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu_s = spent(self.of)?
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
            resident_mib: resident_mib(self.of)?,
        })
    }
}

fn processes(of: &dyn Processes) -> impl Iterator<Item = (String, u32)> {
    let this = (CLIENT.to_owned(), std::process::id());
    of.running().into_iter().chain([this])
}

/// How much CPU each process has used so far, seconds.
fn spent(of: &dyn Processes) -> Result<BTreeMap<String, f64>> {
    let mut all: BTreeMap<String, f64> = processes(of)
        .map(|(name, pid)| Ok((name, cpu_s(pid)?)))
        .collect::<Result<_>>()?;
    let ended = cpu_s_of_children()?;
    all.entry(CLIENT.to_owned()).and_modify(|own| *own += ended);
    Ok(all)
}

/// How much memory each process holds, MiB.
pub(crate) fn resident_mib(of: &dyn Processes) -> Result<BTreeMap<String, f64>> {
    processes(of)
        .map(|(name, pid)| Ok((name, resident_of(pid)?)))
        .collect()
}

/// How much memory our five services hold together, MiB.
///
/// # Errors
/// If one of the services does not run.
pub(crate) fn services_mib(env: &TestEnv) -> Result<f64> {
    let services = processes(env).filter(|(name, _)| FIVE.contains(&name.as_str()));
    let each: Vec<f64> = services
        .map(|(_, pid)| resident_of(pid))
        .collect::<Result<_>>()?;
    ensure!(
        each.len() == FIVE.len(),
        "only {} of our services run",
        each.len()
    );
    Ok(each.into_iter().sum())
}

/// User and system time of all threads that a process has or had, seconds.
///
/// # Errors
/// If the process does not run.
pub(crate) fn cpu_s(pid: u32) -> Result<f64> {
    seconds_in(format!("/proc/{pid}/stat"), OWN)
}

/// As [`cpu_s`], for the ended child processes of this one.
fn cpu_s_of_children() -> Result<f64> {
    seconds_in("/proc/self/stat", CHILDREN)
}

/// How often the threads of each process have given up a processor so far, and had one taken away. Threads that have ended do not count.
///
/// # Errors
/// If a process does not run.
pub(crate) fn switches(env: &TestEnv) -> Result<BTreeMap<String, u64>> {
    processes(env)
        .map(|(name, pid)| Ok((name, switches_of(pid)?)))
        .collect()
}

fn switches_of(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // The thread may end meanwhile.
        let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        let counts = status.lines().filter_map(|line| {
            let (name, count) = line.split_once(':')?;
            name.ends_with("ctxt_switches").then_some(count.trim())
        });
        for count in counts {
            sum += count.parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// How much CPU each of Java's compilers in an environment's broker has used so far, seconds by thread id. The JVM ends idle compiler threads and
/// starts new ones, so a thread may be missing from a later answer.
///
/// # Errors
/// If the broker does not run.
pub(crate) fn compilers(env: &TestEnv) -> Result<BTreeMap<OsString, f64>> {
    let pid = env.pid("kafka").context("no broker runs")?;
    let mut used = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        // The thread may end meanwhile.
        let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if COMPILERS.iter().any(|compiler| name.starts_with(compiler)) {
            let cpu_s = seconds_in(thread.path().join("stat"), OWN).unwrap_or_default();
            used.insert(thread.file_name(), cpu_s);
        }
    }
    Ok(used)
}

/// The sum of two counters of a process or a thread.
fn seconds_in(stat: impl AsRef<Path>, counters: [usize; 2]) -> Result<f64> {
    let stat = fs::read_to_string(stat)?;
    // The name, in parentheses, may have any characters.
    let (_, after_name) = stat.rsplit_once(')').context("no stat")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |field: usize| -> Result<u64> {
        let text = fields.get(field - 3).context("a short stat")?;
        Ok(text.parse()?)
    };
    let [user, system] = counters;
    let total = ticks(user)? + ticks(system)?;
    Ok(total as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// How much memory a process holds, MiB (proc(5), `smaps_rollup`). A page that several processes map (the five services run the same program) is
/// divided among them (PSS), so that the sum is the memory of all together.
fn resident_of(pid: u32) -> Result<f64> {
    let memory = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = memory.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = kib.context("no Pss")?.parse()?;
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

//! Faults one after the other, drawn from a seed, while clients write and read; then the judgement.

mod clocks;
mod disks;
mod fault;
mod fault_schedule;
mod journal;
mod kafka;
mod mariadb;
mod network;
mod offsets;
mod poison;
mod redis;
mod redis_cluster;
mod report;
mod services;
mod snapshots;
mod upgrade;
mod victim;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use dev_stack::ServerOptions;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use self::{
    disks::Disks,
    fault::Need,
    fault_schedule::FaultSchedule,
    journal::Journal,
    report::Recovery,
    victim::{Condition, Victim},
};
pub use self::{
    fault::{FAULTS, Fault},
    report::Report,
};
use crate::{Devices, Difference, Load, SERVICES, Settings, TestEnv};

/// Three brokers; every topic has three copies, two of which acknowledge.
const CLUSTER: Settings = Settings {
    kafka_nodes: 3,
    mariadb_nodes: 2,
    proxied: true,
    // Ten consumers that ask each of three brokers 200 times a second leave a small machine time for little else.
    // Few months are created before they are needed.
    overrides: &[
        "kafka.fetch_wait_ms=50",
        "kafka.session_timeout_ms=10000",
        "projector_mysql.months_ahead=1",
    ],
    ..Settings::USUAL
};

/// Groups of users that write and read at the same time.
const GROUPS: u64 = 6;
/// How many posts are accepted before a fault, so that it strikes a system at work.
const BETWEEN: u64 = 100;
/// Faults between two judgements: an audit of everything takes a while.
const ROUND: usize = 10;
/// How long faults begin after the previous version is gone.
const LAST: Duration = Duration::from_secs(60);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Draws the order of faults and all that is random about them.
    pub seed: u64,
    /// No fault begins after this time.
    pub length: Duration,
    /// The faults; each is injected equally often.
    pub faults: Vec<Fault>,
    /// How many devices of each user are connected.
    pub devices: usize,
    /// A Redis Cluster of three masters and three replicas, instead of one Redis with a replica.
    pub redis_cluster: bool,
    /// A program of the previous version, which knows rule version 2. The cluster begins with it, and the second process of every service runs it.
    /// After the last round all processes run the present program, and the rule version is raised.
    pub before: Option<PathBuf>,
}

/// Runs a cluster of its own with two processes of every service, strikes it, and judges. `print` is called with each line of progress.
///
/// # Errors
/// If a judgement fails, or something does not recover: the text says what, and where the logs are. Or if this machine can inflict none of the
/// faults.
pub async fn run(options: &Options, print: impl Fn(&str)) -> Result<Report> {
    let faults = possible(options, &print);
    ensure!(!faults.is_empty(), "no fault is left");
    let settings = Settings {
        clocks: needs(&faults, Need::Clocks),
        redis_nodes: if options.redis_cluster { 6 } else { 2 },
        redis_cluster: options.redis_cluster,
        ..CLUSTER
    };
    let env = match &options.before {
        Some(before) => upgrade::start_before(&settings, before).await?,
        None => TestEnv::start(settings).await?,
    };
    let journal = Journal::new(&env, &print)?;
    let log = |line: &str| journal.log(line);
    let mut run = ChaosRun::new(&env, options, &faults, log);
    match run.run(&faults).await {
        Ok(()) => Ok(run.report),
        Err(error) => {
            let error = if Difference::is_in(&error) {
                error.context("the judgement is against it")
            } else {
                error
            };
            journal.log(&format!("until then:\n{}", run.report));
            journal.log(&format!("{error:#}"));
            // Small file systems are still mounted, and may have topics and logs that are to be kept.
            journal.keep_topics().await;
            let history = env.save_logs(&format!("chaos-{}", options.seed));
            Err(error.context(format!("seed {}; its history: {history}", options.seed)))
        }
    }
}

fn needs(faults: &[Fault], need: Need) -> bool {
    faults.iter().any(|fault| fault.needs == need)
}

/// The faults that this machine can inflict on such a cluster.
fn possible(options: &Options, print: &impl Fn(&str)) -> Vec<Fault> {
    let lacking = |need, is_there: &dyn Fn() -> bool, why: &str| {
        let lacks = needs(&options.faults, need) && !is_there();
        if lacks {
            print(&format!("left out are faults that need {why}"));
        }
        lacks.then_some(need)
    };
    let lacking = [
        lacking(
            Need::Clocks,
            &ServerOptions::has_clocks,
            "clocks that can be set (`apt-get install faketime`)",
        ),
        lacking(Need::Disks, &disks::can_mount, "the right to mount"),
        lacking(
            Need::OneRedis,
            &|| !options.redis_cluster,
            "one Redis (without `--redis-cluster`)",
        ),
        lacking(
            Need::RedisCluster,
            &|| options.redis_cluster,
            "a Redis Cluster (`--redis-cluster`)",
        ),
    ];
    let faults = options.faults.iter();
    let faults = faults.filter(|fault| !lacking.contains(&Some(fault.needs)));
    faults.copied().collect()
}

struct ChaosRun<'a, S> {
    env: &'a TestEnv,
    options: &'a Options,
    print: S,
    rng: StdRng,
    schedule: FaultSchedule,
    condition: Condition,
    report: Report,
}

impl<'a, S: Fn(&str)> ChaosRun<'a, S> {
    fn new(env: &'a TestEnv, options: &'a Options, faults: &[Fault], print: S) -> Self {
        Self {
            env,
            options,
            print,
            rng: StdRng::seed_from_u64(options.seed),
            schedule: FaultSchedule::new(faults),
            condition: Condition {
                redis_cluster: options.redis_cluster,
                before: options.before.clone(),
                ..Condition::default()
            },
            report: Report::default(),
        }
    }

    /// Sets up the requirements of the faults, and the second process of every service.
    async fn set_up(&mut self, faults: &[Fault]) -> Result<()> {
        let env = self.env;
        if needs(faults, Need::Disks) {
            self.condition.disks = Some(Disks::mount(env).await?);
        }
        let window = clocks::DEDUP_WINDOW_MS;
        env.tidemark(&["rules", "set", "--dedup-window-ms", window])
            .await?
            .expect(0)?;
        if !self.condition.redis_cluster {
            redis::replicate(env, &self.condition).await?;
        }
        if self.options.before.is_some() {
            upgrade::apply_schema(env).await?;
        }
        for service in SERVICES {
            env.start_another(service).await?;
        }
        Ok(())
    }

    async fn run(&mut self, faults: &[Fault]) -> Result<()> {
        self.set_up(faults).await?;
        self.env.check_all_partitions().await?;
        (self.print)("the cluster is up, with two processes of every service");
        let begun = Instant::now();
        let length = self.options.length;
        while begun.elapsed() < length {
            self.round(begun, length).await?;
        }
        if let Some(before) = self.condition.before.take() {
            upgrade::complete(self.env, &before).await?;
            (self.print)("all processes run this program, under its newest rule version");
            self.round(begun, begun.elapsed() + LAST).await?;
        }
        Ok(())
    }

    /// One round: traffic, faults that begin within `length` after `begun`, and the judgement.
    async fn round(&mut self, begun: Instant, length: Duration) -> Result<()> {
        let seed = self.rng.random();
        let mut load = match self.condition.before {
            Some(_) => Load::of_version_2(self.env, GROUPS, seed),
            None => Load::seeded(self.env, GROUPS, seed),
        };
        // The previous version has no gateway.
        let each = self.options.devices;
        let devices = match self.condition.before {
            None if each > 0 => Some(Devices::start(self.env, load.users(), each, seed)?),
            _ => None,
        };
        load.grows_by(BETWEEN).await?;
        // The baseline for the recoveries.
        self.recover(None, 1, &load, load.accepted()).await?;
        for _ in 0..ROUND {
            if begun.elapsed() < length {
                self.inject(&mut load).await?;
            }
        }
        load.grows_by(BETWEEN).await?;
        let finished = load.finish().await?;
        if let Some(devices) = devices {
            let counts = devices.judge(&finished).await;
            let counts = counts.context("judging the devices")?;
            self.report.judged_devices(counts);
        }
        // The rows that the previous version has written are audited once it is gone.
        let judged = match self.condition.before {
            Some(_) => finished.verify().await,
            None => finished.judge(self.env).await,
        };
        judged.context("judging")?;
        self.report.judged(finished.message_count());
        (self.print)(&format!(
            "judged after {} s: nothing lost, doubled, out of order or miscounted",
            begun.elapsed().as_secs()
        ));
        Ok(())
    }

    async fn inject(&mut self, load: &mut Load) -> Result<()> {
        let fault = self.schedule.draw(&mut self.rng);
        load.grows_by(BETWEEN).await?;
        let before = load.accepted();
        let mut victim = Victim {
            env: self.env,
            load,
            rng: &mut self.rng,
            condition: &mut self.condition,
        };
        let injected = (fault.inject)(&mut victim).await;
        let injected = injected.with_context(|| format!("during {}", fault.name))?;
        self.recover(Some(&fault), injected, load, before).await
    }

    /// Waits until messages pass everything; `before` posts were accepted when the fault began.
    async fn recover(
        &mut self,
        fault: Option<&Fault>,
        injected: u64,
        load: &Load,
        before: u64,
    ) -> Result<()> {
        let name = fault.map_or("no fault", |fault| fault.name);
        let healed = Instant::now();
        let passing = self.env.check_all_partitions().await;
        passing.with_context(|| format!("after {name}"))?;
        let recovery = Recovery {
            injected,
            accepted: load.accepted() - before,
            recovered_in: healed.elapsed(),
        };
        (self.print)(&format!(
            "{name}: {} posts accepted meanwhile, all partitions pass {:.1} s after it",
            recovery.accepted,
            recovery.recovered_in.as_secs_f64()
        ));
        self.report.recovered(fault, recovery);
        Ok(())
    }
}

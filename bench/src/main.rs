#![doc = include_str!("../README.md")]

mod backlog;
mod deadline;
mod disk;
mod load;
mod machine;
mod meter;
mod pair;
mod progress;
mod raw;
mod results;
mod sample;
mod stages;
mod warm;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand, builder::PossibleValuesParser};

use crate::{
    machine::Machine,
    raw::{
        broadcast::{self, BroadcastArgs},
        server::{self, ServerArgs},
    },
    results::Results,
    stages::{Plan, STAGES},
};

/// Makes tables and pictures of results.
const REPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/report");

/// Measure each stage against the raw part that it sits on, in turn, on servers of their own
#[derive(Debug, Parser)]
struct Args {
    /// Only these stages, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(STAGES.map(|(name, _)| name)))]
    only: Vec<String>,
    /// How often each side of a pair runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// How long a closed loop runs, seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How long the load on everything at once goes on, seconds
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(20..))]
    whole_seconds: u64,
    /// Where the results are written
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Serve what query-api is compared with
    #[command(hide = true)]
    ServeRaw(ServerArgs),
    /// Serve what a gateway is compared with
    #[command(hide = true)]
    ServeBroadcast(BroadcastArgs),
}

impl Args {
    /// The name of the files: the date, and the stages if they are not all.
    fn name(&self, date: &str) -> String {
        let only = self.only.iter().map(|stage| format!("-{stage}"));
        format!("{date}{}", only.collect::<String>())
    }

    /// The command that measures such figures again, without the place where they are written.
    fn command(&self) -> String {
        let Self {
            rounds,
            seconds,
            whole_seconds,
            ..
        } = self;
        let only = match self.only.as_slice() {
            [] => String::new(),
            only => format!(" --only {}", only.join(",")),
        };
        format!("bench{only} --rounds {rounds} --seconds {seconds} --whole-seconds {whole_seconds}")
    }

    fn plan(&self) -> Plan {
        Plan {
            rounds: self.rounds.into(),
            length: Duration::from_secs(self.seconds),
            whole: Duration::from_secs(self.whole_seconds),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    match &args.part {
        Some(Part::ServeRaw(server)) => server::serve(server).await,
        Some(Part::ServeBroadcast(server)) => broadcast::serve(server).await,
        None => measure(args).await,
    }
}

/// Measures the stages. Until the last is done, the results have a file of their own, and the file of an earlier run stays.
async fn measure(args: &Args) -> Result<()> {
    let mut results = Results {
        machine: Machine::here(args.command())?,
        rows: Vec::new(),
        failed: Vec::new(),
    };
    let name = args.name(&results.machine.date);
    let file = args.out.join(format!("{name}.json"));
    let unfinished = args.out.join(format!("{name}.unfinished.json"));
    fs::create_dir_all(&args.out).context("--out")?;
    results.write(&unfinished).context("--out")?;
    for (stage, run) in STAGES {
        if !args.only.is_empty() && !args.only.iter().any(|only| only == stage) {
            continue;
        }
        eprintln!("{stage} …");
        let began = Instant::now();
        match run(&args.plan()).await {
            Ok(mut rows) => {
                rows.iter_mut().for_each(|row| row.stage = stage);
                results.rows.extend(rows);
            }
            Err(error) => {
                eprintln!("bench: {stage}: {error:#}");
                results.failed.push(stage);
            }
        }
        // Results are kept even if a later stage fails, and the stages do not depend on this write.
        if let Err(error) = results.write(&unfinished) {
            eprintln!("bench: {error:#}");
        }
        eprintln!("{stage}: {} s", began.elapsed().as_secs());
    }
    results.write(&unfinished)?;
    fs::rename(&unfinished, &file)?;
    report(&file)?;
    let failed = &results.failed;
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn report(results: &Path) -> Result<()> {
    let mut python = Command::new("python3");
    let status = python.arg(REPORT).arg(results).status();
    let status = status.context("python3 is missing")?;
    let file = results.display();
    ensure!(status.success(), "no table: python3 {REPORT} {file}");
    Ok(())
}

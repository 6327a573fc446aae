#![doc = include_str!("../README.md")]

mod backlog;
mod curve;
mod deadline;
mod disk;
mod load;
mod machine;
mod markdown;
mod meter;
mod output;
mod pair;
mod picture;
mod progress;
mod raw;
mod results;
mod sample;
mod stages;
mod warm;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand, ValueEnum as _};

use crate::{
    load::devices::HoldArgs,
    machine::Machine,
    output::Output,
    raw::{
        broadcast::{self, BroadcastArgs},
        server::{self, ServerArgs},
    },
    results::{Found, Results},
    stages::{Plan, Stage},
};

/// Measure each stage against the raw part that it sits on, in turn, on servers of their own
#[derive(Debug, Parser)]
struct Args {
    /// Only these stages, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<Stage>,
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
    /// Hold connections to a gateway
    #[command(hide = true)]
    HoldDevices(HoldArgs),
}

impl Args {
    /// Of the files: for the day, and for the stages where it is not all of them.
    fn name(&self, date: &str) -> String {
        let only = self.only.iter().map(|stage| format!("-{}", stage.name()));
        format!("{date}{}", only.collect::<String>())
    }

    /// What gives such figures again, wherever they are written.
    fn command(&self) -> String {
        let Self {
            rounds,
            seconds,
            whole_seconds,
            ..
        } = self;
        let only: Vec<String> = self.only.iter().map(|stage| stage.name()).collect();
        let only = match only.as_slice() {
            [] => String::new(),
            only => format!(" --only {}", only.join(",")),
        };
        format!("bench{only} --rounds {rounds} --seconds {seconds} --whole-seconds {whole_seconds}")
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
        Some(Part::ServeRaw(server)) => return server::serve(server).await,
        Some(Part::ServeBroadcast(server)) => return broadcast::serve(server).await,
        Some(Part::HoldDevices(devices)) => return devices.hold().await,
        None => {}
    }
    let plan = Plan {
        rounds: args.rounds.into(),
        length: Duration::from_secs(args.seconds),
        whole: Duration::from_secs(args.whole_seconds),
    };
    let machine = Machine::here(args.command())?;
    let output = Output::prepare(&args.out, args.name(&machine.date))?;
    let mut results = Results {
        machine,
        found: Found::default(),
        failed: Vec::new(),
    };
    let all = Stage::value_variants().iter().copied();
    let wanted = |stage: &Stage| match args.only.as_slice() {
        [] => !stage.is_experiment(),
        only => only.contains(stage),
    };
    for stage in all.filter(wanted) {
        eprintln!("{} …", stage.name());
        let began = Instant::now();
        match stage.run(&plan).await {
            Ok(found) => {
                eprint!("{found}");
                results.found.extend(found);
            }
            Err(error) => {
                eprintln!("bench: {}: {error:#}", stage.name());
                results.failed.push(stage.name());
            }
        }
        // Whatever becomes of a later stage; and that is not to hang on this.
        if let Err(error) = output.keep(&results) {
            eprintln!("bench: {error:#}");
        }
        eprintln!("{}: {} s", stage.name(), began.elapsed().as_secs());
    }
    println!("{results}");
    output.finish(&results)?;
    let failed = &results.failed;
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

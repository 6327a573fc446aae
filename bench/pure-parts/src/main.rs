//! Instructions of the pure parts, compared with a baseline.

mod baseline;
mod callgrind;

use std::{path::Path, process::ExitCode, thread};

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use pure_parts::Part;

use crate::baseline::{Baseline, Change};

/// Count the instructions of the pure parts, and compare them with the baseline
#[derive(Debug, Parser)]
struct Args {
    /// Overwrite the baseline with the current counts
    #[arg(long)]
    accept: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a part N times, under callgrind
    #[command(hide = true)]
    Run { part: String, times: u64 },
}

const FILE: &str = "bench/pure-parts/baseline.toml";
const HOW_TO_UPDATE: &str = "update it with `make instructions ACCEPT=1`";

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let Some(Command::Run { part, times }) = &args.command {
        return run_part(part, *times);
    }
    let file = Path::new(FILE);
    let mut baseline = Baseline::load(file)?;
    let parts = Part::all();
    let (mut regressed, mut new, mut differs) = (Vec::new(), Vec::new(), false);
    for (part, now) in parts.iter().zip(counts(&parts)?) {
        let change = baseline.compare(part.name, now);
        println!(
            "{:<16} {now:>7} instructions per message, {change}",
            part.name
        );
        match change {
            Change::Regressed { .. } => regressed.push(part.name),
            Change::NewPart => new.push(part.name),
            Change::NewArchitecture | Change::WithinTolerance { .. } | Change::Improved { .. } => {}
        }
        differs |= !matches!(change, Change::WithinTolerance { .. });
        baseline.put(part.name, now);
    }
    if args.accept {
        baseline.keep(|name| parts.iter().any(|part| part.name == name));
        baseline.save(file)?;
        println!("written to {FILE}");
        return Ok(());
    }
    if !regressed.is_empty() {
        bail!(
            "{}: above the baseline; find out why (perf, callgrind), or {HOW_TO_UPDATE}",
            regressed.join(", ")
        );
    }
    if !new.is_empty() {
        bail!(
            "{}: not in the baseline yet; {HOW_TO_UPDATE}",
            new.join(", ")
        );
    }
    if differs {
        println!("New or below the baseline: {HOW_TO_UPDATE}");
    }
    Ok(())
}

/// Instructions per message of each part, counted at the same time: other processes change no count.
fn counts(parts: &[Part]) -> Result<Vec<u64>> {
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    thread::scope(|scope| {
        let count = |name| scope.spawn(move || callgrind::per_message(name));
        let counts: Vec<_> = names.into_iter().map(count).collect();
        let counts = counts.into_iter();
        counts
            .map(|count| count.join().expect("counting does not panic"))
            .collect()
    })
}

fn run_part(name: &str, times: u64) -> Result<()> {
    let Some(mut part) = Part::all().into_iter().find(|part| part.name == name) else {
        bail!("there is no part {name:?}");
    };
    for _ in 0..times {
        part.run();
    }
    Ok(())
}

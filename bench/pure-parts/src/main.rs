//! Instructions of the pure parts, against those that were accepted.

mod accepted;
mod callgrind;

use std::{path::Path, process::ExitCode};

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use pure_parts::Part;

use crate::accepted::{Accepted, Change};

/// Count the instructions of the pure parts, and compare them with those that were accepted
#[derive(Debug, Parser)]
struct Args {
    /// Take the figures over, whatever they are
    #[arg(long)]
    accept: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a part so many times: what is counted
    #[command(hide = true)]
    Run { part: String, times: u64 },
}

const FILE: &str = "bench/pure-parts/accepted.toml";
const TAKE_OVER: &str = "take it over with `make instructions ACCEPT=1`";

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
    let mut accepted = Accepted::load(file)?;
    let parts = Part::all();
    let (mut risen, mut new, mut differs) = (Vec::new(), Vec::new(), false);
    for part in &parts {
        let now = callgrind::per_message(part.name)?;
        let change = accepted.compare(part.name, now);
        println!(
            "{:<16} {now:>7} instructions a message, {change}",
            part.name
        );
        match change {
            Change::Risen { .. } => risen.push(part.name),
            Change::NewPart => new.push(part.name),
            Change::NewArchitecture | Change::Within { .. } | Change::Fallen { .. } => {}
        }
        differs |= !matches!(change, Change::Within { .. });
        accepted.put(part.name, now);
    }
    if args.accept {
        accepted.keep(|name| parts.iter().any(|part| part.name == name));
        accepted.save(file)?;
        println!("accepted, in {FILE}");
        return Ok(());
    }
    if !risen.is_empty() {
        bail!(
            "{}: more than was accepted; find out why (perf, callgrind), or {TAKE_OVER}",
            risen.join(", ")
        );
    }
    if !new.is_empty() {
        bail!("{}: nothing accepted yet; {TAKE_OVER}", new.join(", "));
    }
    if differs {
        println!("What is new or less: {TAKE_OVER}");
    }
    Ok(())
}

fn run_part(name: &str, times: u64) -> Result<()> {
    let Some(part) = Part::all().into_iter().find(|part| part.name == name) else {
        bail!("there is no part {name:?}");
    };
    for _ in 0..times {
        part.run();
    }
    Ok(())
}

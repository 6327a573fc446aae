//! `make chaos`: faults drawn from a seed, and the table of what became of them.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use system_tests::chaos::{self, Fault, Options};

/// Strike a cluster with faults while clients write and read, and judge what they then see
#[derive(Debug, Parser)]
struct Args {
    /// For how long faults begin, minutes
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Repeats a run's order of faults; drawn if absent
    #[arg(long, env = "CHAOS_SEED")]
    seed: Option<u64>,
    /// Which faults, with commas between them; all if absent
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let options = Options {
        seed: args.seed.unwrap_or_else(rand::random),
        length: Duration::from_secs(args.minutes * 60),
        faults: if args.faults.is_empty() {
            Fault::ALL.to_vec()
        } else {
            args.faults
        },
    };
    println!("CHAOS_SEED={}", options.seed);
    match chaos::run(&options, |line| println!("{line}")).await {
        Ok(report) => {
            println!("\n{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

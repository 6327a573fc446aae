//! `make pressure`: memory and time while a store is away, and while one conversation has most of the traffic.

use std::{process::ExitCode, time::Duration};

use clap::{Parser, ValueEnum};
use system_tests::pressure;

/// Take MariaDB, then Redis away under traffic that does not wait, and measure; then first messages, and one conversation with most of the traffic
#[derive(Debug, Parser)]
struct Args {
    /// How long each server is away, seconds
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Messages a second
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Only one of these
    #[arg(long)]
    only: Option<What>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    Mariadb,
    Redis,
    FirstMessages,
    Hot,
}

#[tokio::main]
async fn main() -> ExitCode {
    match measure(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pressure: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(args: &Args) -> anyhow::Result<()> {
    let length = Duration::from_secs(args.seconds);
    let all = What::value_variants().iter().copied();
    for what in all.filter(|what| args.only.is_none_or(|only| only == *what)) {
        let rate = args.rate;
        match what {
            What::Mariadb => println!("{}", pressure::outage("mariadb", length, rate).await?),
            What::Redis => println!("{}", pressure::outage("redis", length, rate).await?),
            What::FirstMessages => println!("{}", pressure::first_messages(rate).await?),
            What::Hot => println!("{}", pressure::busy_conversation(length / 10, rate).await?),
        }
    }
    Ok(())
}

//! The same devices on Tidemark and on a peer, and the table of what they missed.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use system_tests::peer::{self, Options, Table};

/// Let devices come and go while the server is killed, on Tidemark and on a peer, and count what they miss, have twice or count wrongly
#[derive(Debug, Parser)]
struct Args {
    /// For how long devices come and go, seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How often every process is killed meanwhile
    #[arg(long, default_value_t = 3)]
    kills: u32,
    /// How many users there are, each with two devices
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(2..))]
    users: u64,
    /// What the devices do follows from it; drawn if absent
    #[arg(long)]
    seed: Option<u64>,
    /// The program of WuKongIM v3, built from its sources
    #[arg(long, requires = "wukongim_version")]
    wukongim: Option<PathBuf>,
    /// What its version is called in the table
    #[arg(long)]
    wukongim_version: Option<String>,
    /// Leave Tidemark out
    #[arg(long, requires = "wukongim")]
    peer_only: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let options = Options {
        length: Duration::from_secs(args.seconds),
        kills: args.kills,
        users: args.users as usize,
        seed: args.seed.unwrap_or_else(rand::random),
        wukongim: args.wukongim.zip(args.wukongim_version),
        tidemark: !args.peer_only,
    };
    println!("seed {}", options.seed);
    match peer::run(&options).await {
        Ok(all) => {
            println!("{}", Table(&all));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("peer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

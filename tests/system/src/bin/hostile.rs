//! `make hostile`: what accounts that keep within every limit can cost others.

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use system_tests::hostile::{self, Options, WAYS, Way};

/// Try each way in which ordinary accounts could cost others something, beside an account that measures, then all at once; end in an audit
#[derive(Debug, Parser)]
struct Args {
    /// How long each way is tried, seconds
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(8..))]
    seconds: u64,
    /// How long all of them are tried at once, minutes; 0: not at all
    #[arg(long, default_value_t = 2)]
    together: u64,
    /// Which ways, with commas between them; all if absent
    #[arg(long, value_delimiter = ',', value_parser = way)]
    only: Vec<&'static Way>,
    /// Say what ways there are, and end
    #[arg(long)]
    list: bool,
}

fn way(name: &str) -> Result<&'static Way, String> {
    let found = WAYS.iter().find(|way| way.name == name);
    found.ok_or_else(|| format!("there is no way {name}: `hostile --list` has them"))
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        for way in WAYS {
            println!("{:20} {}", way.name, way.what);
        }
        return ExitCode::SUCCESS;
    }
    let ways = match args.only.is_empty() {
        true => WAYS.iter().collect(),
        false => args.only,
    };
    let options = Options {
        length: Duration::from_secs(args.seconds),
        together: (args.together > 0).then(|| Duration::from_secs(args.together * 60)),
        timed: true,
    };
    match hostile::run(&ways, options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostile: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `make chaos`: faults drawn from a seed, and the table of the results.

use std::{
    env,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use clap::Parser;
use system_tests::chaos::{self, FAULTS, Fault, Options};

/// Inject faults into a cluster while clients write and read, and judge what they then see
#[derive(Debug, Parser)]
struct Args {
    /// For how long faults begin, minutes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Repeats a run's order of faults; drawn if absent
    #[arg(long, env = "CHAOS_SEED")]
    seed: Option<u64>,
    /// Which faults, with commas between them; all if absent
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// How many devices of each user are connected, and judged
    #[arg(long, default_value_t = 4)]
    devices: usize,
    /// Run on a Redis Cluster of three masters and three replicas, and strike that instead of one Redis
    #[arg(long)]
    redis_cluster: bool,
    /// `tidemark` of the version before, under rule version 2: the cluster begins with it, and is upgraded while faults go on
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Say what faults there are, and end
    #[arg(long)]
    list: bool,
}

/// Set once this process has mounts of its own.
const ENV_MOUNTS: &str = "CHAOS_OWN_MOUNTS";

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        for fault in FAULTS {
            println!("{:22} {}", fault.name, fault.what);
        }
        return ExitCode::SUCCESS;
    }
    get_mounts_of_its_own();
    run_chaos(args)
}

/// Runs this program again in a mount namespace, if possible: full file systems need mounts, which disappear with the last process of the namespace,
/// however it ends. Returns if that was done before, or is not possible.
fn get_mounts_of_its_own() {
    if env::var_os(ENV_MOUNTS).is_some() {
        return;
    }
    let unshare = || {
        let mut unshare = Command::new("unshare");
        unshare.arg("--mount");
        if !rustix::process::geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        unshare
    };
    let tried = unshare().arg("true").stderr(Stdio::null()).status();
    if tried.is_ok_and(|status| status.success()) {
        let mut again = unshare();
        // The first argument is this program.
        again.args(env::args_os()).env(ENV_MOUNTS, "1");
        eprintln!("chaos: no mounts of its own: {}", again.exec());
    }
}

#[tokio::main]
async fn run_chaos(args: Args) -> ExitCode {
    let options = Options {
        seed: args.seed.unwrap_or_else(rand::random),
        length: Duration::from_secs(args.minutes * 60),
        faults: if args.faults.is_empty() {
            FAULTS.to_vec()
        } else {
            args.faults
        },
        devices: args.devices,
        redis_cluster: args.redis_cluster,
        before: args.before,
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

//! `make upgrade BEFORE=<commit>`: a rolling upgrade under traffic, from an older program and its schema to this one.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use rustix::process::Signal;
use system_tests::{Load, SERVICES, Settings, TestEnv};

/// Replace the services of an older program one by one under traffic, raise the rule version, and judge
#[derive(Debug, Parser)]
struct Args {
    /// The program of the version before, under rule version 2
    before: PathBuf,
}

const GROUPS: u64 = 4;
const MEANWHILE: u64 = 200;

#[tokio::main]
async fn main() -> ExitCode {
    match upgrade(&Args::parse().before).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("upgrade: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn upgrade(before: &Path) -> Result<()> {
    let env = TestEnv::start_servers_only(&Settings::WITHOUT_SERVICES).await?;
    for service in SERVICES {
        env.change_program(service, before);
    }
    for apply in ["topics", "db"] {
        let status = tokio::process::Command::new(before)
            .args(env.config_args())
            .args([apply, "apply"])
            .status()
            .await;
        let status = status.with_context(|| format!("{} does not run", before.display()))?;
        ensure!(
            status.success(),
            "{apply} apply of the version before fails"
        );
    }
    env.start_services(&SERVICES).await?;
    let mut load = Load::of_version_2(&env, GROUPS);
    load.grows_by(MEANWHILE).await?;
    println!("the version before runs; its schema is brought up to date");
    for apply in ["topics", "db"] {
        env.tidemark(&[apply, "apply"]).await?.expect(0)?;
        load.grows_by(MEANWHILE).await?;
    }
    for (n, service) in SERVICES.into_iter().enumerate() {
        let signal = if n % 2 == 0 {
            Signal::KILL
        } else {
            Signal::TERM
        };
        env.end(service, signal).await?;
        env.change_program(service, before);
        env.start_services(&[service]).await?;
        load.grows_by(MEANWHILE).await?;
        println!("{service} is upgraded");
    }
    load.check().await?;
    let raise = ["rules", "set", "--rule-version", "3"];
    env.tidemark(&raise).await?.expect(0)?;
    println!("rule version 3 is in force");
    let mut newer = Load::start(&env, GROUPS);
    newer.grows_by(4 * MEANWHILE).await?;
    load.grows_by(MEANWHILE).await?;
    load.finish().await?.judge(&env).await?;
    newer.finish().await?.judge(&env).await?;
    println!("everybody sees what was sent, and the audit finds no difference");
    Ok(())
}

//! The previous version, and how its services are replaced by the present ones.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use tokio::process::Command;

use super::{GROUPS, services::both};
use crate::{Load, SERVICES, Settings, TestEnv};

const MEANWHILE: u64 = 100;

/// Starts a cluster under the program of the previous version: its topics, its schema, its services.
pub(super) async fn start_before(settings: &Settings, before: &Path) -> Result<TestEnv> {
    let env = TestEnv::start_servers_only(settings).await?;
    for apply in ["topics", "db"] {
        let mut command = Command::new(before);
        let status = command.args(env.config_args()).args([apply, "apply"]);
        let status = status.status().await;
        let status = status.with_context(|| format!("{} does not run", before.display()))?;
        ensure!(
            status.success(),
            "{apply} apply of the version before fails"
        );
    }
    // The previous version may have no gateway.
    for service in SERVICES.into_iter().filter(|name| *name != "gateway") {
        env.change_program(service, before);
    }
    env.start_services(&SERVICES).await?;
    Ok(env)
}

/// Brings topics and schema up to date under traffic, while only the previous version runs.
pub(super) async fn apply_schema(env: &TestEnv) -> Result<()> {
    let mut load = Load::of_version_2(env, GROUPS, 0);
    load.grows_by(MEANWHILE).await?;
    for apply in ["topics", "db"] {
        env.tidemark(&[apply, "apply"]).await?.expect(0)?;
        load.grows_by(MEANWHILE).await?;
    }
    load.finish().await?.verify().await
}

/// Makes every process run this program, one after the other under traffic, and raises the rule version.
pub(super) async fn complete(env: &TestEnv, before: &Path) -> Result<()> {
    let mut load = Load::of_version_2(env, GROUPS, 0);
    load.grows_by(MEANWHILE).await?;
    let names = both(&SERVICES);
    let older = names.iter().filter(|name| env.has_other_program(name));
    for (name, signal) in older.zip([Signal::KILL, Signal::TERM].into_iter().cycle()) {
        env.end(name, signal).await?;
        env.change_program(name, before);
        env.start_services(&[name]).await?;
        load.grows_by(MEANWHILE).await?;
    }
    load.check().await?;
    // The previous version changes rows without their new columns.
    env.tidemark(&["rebuild", "contacts"]).await?.expect(0)?;
    let newest = schemas::event::KNOWN_RULE_VERSION.to_string();
    let raise = ["rules", "set", "--rule-version", &newest];
    env.tidemark(&raise).await?.expect(0)?;
    load.grows_by(MEANWHILE).await?;
    load.finish().await?.judge(env).await
}

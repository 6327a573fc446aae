//! The memory of the services.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use tokio::time::sleep;

use crate::{SERVICES, TestEnv, service::resident_kib};

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The largest resident set of each service, KiB.
pub(super) type Peaks = BTreeMap<&'static str, u64>;

/// Watches until the future is done.
pub(super) async fn while_watching<T>(
    env: &TestEnv,
    peaks: &mut Peaks,
    doing: impl Future<Output = T>,
) -> Result<T> {
    let mut doing = std::pin::pin!(doing);
    loop {
        tokio::select! {
            done = &mut doing => return Ok(done),
            () = sleep(POLL_INTERVAL) => measure(env, peaks)?,
        }
    }
}

fn measure(env: &TestEnv, peaks: &mut Peaks) -> Result<()> {
    for service in SERVICES {
        let pid = env.pid(service);
        let pid = pid.with_context(|| format!("{service} does not run"))?;
        let peak = peaks.entry(service).or_default();
        *peak = resident_kib(pid)?.max(*peak);
    }
    Ok(())
}

//! A backlog, and the service that drains it.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use system_tests::TestEnv;

use crate::{deadline::wait_until, meter::Meter, sample::Sample};

/// Starts a service, measures it from its first records until `done` has reached `end`, and ends it. The time before the first records is not
/// counted.
///
/// # Errors
/// If less than half of the backlog was left when measuring began: that is too little.
pub(super) async fn drained(
    env: &TestEnv,
    service: &str,
    end: u64,
    mut done: impl AsyncFnMut() -> Result<u64>,
) -> Result<Sample> {
    let before = done().await?;
    env.start_services(&[service]).await?;
    let begins = async || Ok(done().await? > before);
    wait_until(&format!("{service}'s first records"), begins).await?;
    let (from, meter) = (done().await?, Meter::start(env)?);
    let ends = async || Ok(done().await? >= end);
    wait_until(&format!("{service}'s last records"), ends).await?;
    let (count, all) = (end.saturating_sub(from), end - before);
    let sample = meter.stop(count)?;
    ensure!(
        2 * count > all,
        "{service} had only {count} of {all} before it when it was measured"
    );
    env.end(service, Signal::TERM).await?;
    Ok(sample)
}

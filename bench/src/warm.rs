//! Warms up a broker: its Java compiles the code that a stage uses.

use std::time::{Duration, Instant};

use anyhow::Result;
use system_tests::TestEnv;

use crate::meter::compilers;

/// For a minute or two, Java compiles the code that a broker uses, which takes up to half a core from everything else.
const AT_MOST: Duration = Duration::from_secs(120);
/// A compiler that is done uses less than this of a core.
const COMPILED_SHARE: f64 = 0.05;

/// Repeats the work that is to be measured until an environment's broker is warm.
///
/// # Errors
/// If the work fails, or the broker does not run.
pub(crate) async fn warm_up(
    env: &TestEnv,
    mut step: impl AsyncFnMut() -> Result<()>,
) -> Result<()> {
    let began = Instant::now();
    loop {
        let (before, from) = (compilers(env)?, Instant::now());
        step().await?;
        let after = compilers(env)?;
        let compiled_s = after.iter().map(|(thread, cpu_s)| {
            let before_s = before.get(thread).copied().unwrap_or_default();
            (cpu_s - before_s).max(0.0)
        });
        let share = compiled_s.sum::<f64>() / from.elapsed().as_secs_f64();
        if share < COMPILED_SHARE || began.elapsed() >= AT_MOST {
            return Ok(());
        }
    }
}

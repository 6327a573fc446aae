//! One test at a time, each with the environment it needs.

use std::{
    panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind},
    path::Path,
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{runtime::Runtime, time::timeout};

use crate::{Settings, TestEnv};

/// The longest time of a test.
const LONGEST: Duration = Duration::from_secs(300);

/// The servers on which a test runs.
#[derive(Clone, Copy, Debug)]
pub enum Servers {
    /// The servers of all tests that break nothing, with all services running.
    Shared,
    /// Servers of the test's own, which are gone after it.
    Own(Settings),
}

/// Held by the running test; has the shared environment between tests.
static TEST_LOCK: Mutex<Option<TestEnv>> = Mutex::new(None);

/// The clients of a shared environment are tied to a runtime, so all tests use the same one.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Runtime::new().expect("the system has threads to spare at start"));

/// Runs a test on its environment, when no other test runs.
///
/// # Panics
/// If the test fails: the message says why, and where the logs are.
#[track_caller]
pub fn run(servers: Servers, test: impl AsyncFnOnce(&TestEnv) -> Result<()>) {
    let name = name_of(Location::caller());
    let mut shared = TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let env = match env_for(servers, &mut shared) {
        Ok(env) => env,
        Err(error) => panic!("{name}: no test environment: {error:#}"),
    };
    let testing = AssertUnwindSafe(|| {
        RUNTIME.block_on(async { timeout(LONGEST, test(&env)).await.context("no end")? })
    });
    let outcome = catch_unwind(testing);
    if matches!(outcome, Ok(Ok(()))) {
        if matches!(servers, Servers::Shared) {
            *shared = Some(env);
        }
        return;
    }
    // An environment in which a test failed may be in any state: the next test gets another.
    let logs = env.save_logs(&name);
    drop(env);
    match outcome {
        Ok(Err(error)) => panic!("{error:#}\nthe logs: {logs}"),
        Ok(Ok(())) => {}
        Err(panic) => {
            eprintln!("the logs: {logs}");
            resume_unwind(panic);
        }
    }
}

fn env_for(servers: Servers, shared: &mut Option<TestEnv>) -> Result<TestEnv> {
    match servers {
        Servers::Shared => match shared.take() {
            Some(env) => Ok(env),
            None => RUNTIME.block_on(TestEnv::start(Settings::default())),
        },
        Servers::Own(settings) => RUNTIME.block_on(TestEnv::start(settings)),
    }
}

/// `story-12`: the file and the line of a test.
fn name_of(at: &Location<'_>) -> String {
    let file = Path::new(at.file()).file_stem().unwrap_or_default();
    format!("{}-{}", file.display(), at.line())
}

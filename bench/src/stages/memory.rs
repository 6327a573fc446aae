//! The memory of the services while nothing happens.

use std::{fs::File, time::Duration};

use anyhow::{Context as _, Result};
use system_tests::{TestEnv, program, until};
use tokio::{process::Command, time::sleep};

use super::{EVERYTHING, Plan, SERVERS, without_gateway};
use crate::{
    load::connection::Connection,
    meter::{SharedPages, resident_of, services_mib},
    results::{Bound, Row},
    sample::Spread,
};

/// By then, memory that the start took for a while has been given back.
const QUIET: Duration = Duration::from_secs(20);

/// Five processes, and all five in one.
pub(super) async fn idle(plan: &Plan) -> Result<Vec<Row>> {
    let env = without_gateway(EVERYTHING).await?;
    sleep(QUIET).await;
    let together = services_mib(&env, SharedPages::Proportional)?;
    let each_by_itself = services_mib(&env, SharedPages::Resident)?;
    drop(env);
    let row = |what, mib, most: Option<f64>| Row::of_one(what, "MiB", mib, most.map(Bound::AtMost));
    Ok(vec![
        row("idle, five processes together", together, Some(150.0)),
        row(
            "idle, the same, pages of the program counted for each",
            each_by_itself,
            None,
        ),
        in_one(plan.rounds).await?,
    ])
}

/// All services in one process, started `rounds` times.
async fn in_one(rounds: usize) -> Result<Row> {
    let env = TestEnv::start(SERVERS).await?;
    let mut mib = Vec::new();
    for _ in 0..rounds {
        mib.push(of_one_start(&env).await?);
    }
    let (spread, most) = (Spread::of(mib), Some(Bound::AtMost(80.0)));
    let what = "idle, `tidemark up`";
    Ok(Row::of_value(what, "MiB", spread, most, &[]))
}

async fn of_one_start(env: &TestEnv) -> Result<f64> {
    let log = File::create(env.log_file("up"))?;
    let mut up = Command::new(program()?)
        .arg("up")
        .args(env.config_args())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()?;
    let port = env.port("ingest")?;
    let ready = async || match Connection::open(port).await {
        Ok(mut connection) => connection.get("/readyz").await.map_err(|e| e.to_string()),
        Err(error) => Err(error.to_string()),
    };
    until("`tidemark up` is ready", ready).await?;
    sleep(QUIET).await;
    let pid = up.id().context("`tidemark up` has ended")?;
    let mib = resident_of(pid, SharedPages::Resident)?;
    up.kill().await?;
    Ok(mib)
}

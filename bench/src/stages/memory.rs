//! What the services hold while nothing happens.

use std::time::Duration;

use anyhow::{Context as _, Result};
use system_tests::{World, program, until};
use tokio::{process::Command, time::sleep};

use super::{EVERYTHING, Plan, SERVERS};
use crate::{
    load::connection::Connection,
    meter::{SharedPages, resident_of, services_mib},
    results::{Bound, Row},
};

/// Whatever a start leaves behind is given back by then.
const QUIET: Duration = Duration::from_secs(20);

/// Five processes, and all five in one.
pub(super) async fn idle(stage: &'static str, _plan: &Plan) -> Result<Vec<Row>> {
    let world = World::start(EVERYTHING).await?;
    sleep(QUIET).await;
    let together = services_mib(&world, SharedPages::Proportional)?;
    let each_by_itself = services_mib(&world, SharedPages::Resident)?;
    drop(world);
    let row = |what, mib, most: Option<f64>| {
        Row::of_one(stage, what, "MiB", mib, most.map(Bound::AtMost))
    };
    Ok(vec![
        row("idle, five processes together", together, Some(150.0)),
        row(
            "idle, the same, pages of the program counted for each",
            each_by_itself,
            None,
        ),
        row("idle, `tidemark up`", in_one().await?, Some(80.0)),
    ])
}

async fn in_one() -> Result<f64> {
    let world = World::start(SERVERS).await?;
    let mut up = Command::new(program()?)
        .arg("up")
        .args(world.config_args())
        .kill_on_drop(true)
        .spawn()?;
    let port = world.port("ingest")?;
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

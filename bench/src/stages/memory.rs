//! What the services hold while nothing happens.

use std::time::Duration;

use anyhow::{Context as _, Result};
use system_tests::{SERVICES, World, program, until};
use tokio::{process::Command, time::sleep};

use super::{EVERYTHING, Plan, SERVERS};
use crate::{
    load::connection::Connection,
    meter,
    results::{Bound, Row},
};

/// Whatever a start leaves behind is given back by then.
const QUIET: Duration = Duration::from_secs(20);

/// Five processes, and all five in one.
pub(super) async fn idle(stage: &'static str, _plan: &Plan) -> Result<Vec<Row>> {
    let world = World::start(EVERYTHING).await?;
    sleep(QUIET).await;
    let all = meter::resident_mib(&world)?;
    let five: f64 = SERVICES.iter().filter_map(|name| all.get(*name)).sum();
    drop(world);
    let row = |what, mib, most| {
        let most = Some(Bound::AtMost(most));
        Row::of_one(stage, what, "MiB", mib, most)
    };
    Ok(vec![
        row("idle, five processes", five, 150.0),
        row("idle, `tidemark up`", in_one().await?, 80.0),
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
    let mib = meter::resident_of(up.id().context("`tidemark up` has ended")?)?;
    up.kill().await?;
    Ok(mib)
}

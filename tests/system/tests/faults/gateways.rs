//! Gateways are killed while devices are connected to them, once with MariaDB away, too: in the end every device knows everything.

use anyhow::ensure;
use rustix::process::Signal;
use system_tests::{Devices, Load, Servers, Settings, run};

/// Devices of each user.
const EACH: usize = 3;

#[test]
fn devices_miss_nothing_while_gateways_are_killed() {
    run(Servers::Own(Settings::default()), async |env| {
        env.start_another("gateway").await?;
        let mut load = Load::start(env, 4);
        let devices = Devices::start(env, load.users(), EACH, 1)?;
        load.grows_by(200).await?;
        for gateway in ["gateway", "gateway-2"] {
            env.end(gateway, Signal::KILL).await?;
            load.grows_by(200).await?;
            env.start_services(&[gateway]).await?;
            load.grows_by(200).await?;
        }
        env.end("mariadb", Signal::KILL).await?;
        env.end("gateway", Signal::KILL).await?;
        load.grows_by(200).await?;
        env.start_servers().await?;
        // It asks MariaDB where to begin.
        env.start_services(&["gateway"]).await?;
        load.grows_by(200).await?;
        let finished = load.finish().await?;
        let counts = devices.judge(&finished).await?;
        finished.judge(env).await?;
        ensure!(counts.connections > 2 * counts.devices, "{counts}");
        ensure!(counts.sent.min(counts.reads) > counts.devices, "{counts}");
        Ok(())
    });
}

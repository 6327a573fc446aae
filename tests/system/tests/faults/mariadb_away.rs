//! MariaDB is away for a while in the middle of a load: nothing on the way of a message needs it, nor do the direct conversations' counts that Redis has.

use std::time::Duration;

use rustix::process::Signal;
use system_tests::{Load, Servers, Settings, run};
use tokio::time::sleep;

/// Once it dies and is soon back; once it is stopped in order, for a minute.
const OUTAGES: [(Signal, Duration); 2] = [
    (Signal::KILL, Duration::from_secs(10)),
    (Signal::TERM, Duration::from_secs(60)),
];

#[test]
fn sends_are_accepted_and_counts_returned_while_mariadb_is_down() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut load = Load::start(env, 8);
        for (signal, outage) in OUTAGES {
            load.grows_by(500).await?;
            // From here on Redis has everybody.
            load.check().await?;
            env.end("mariadb", signal).await?;
            load.grows_by(500).await?;
            load.check_direct().await?;
            sleep(outage).await;
            load.grows_by(500).await?;
            env.start_servers().await?;
            load.grows_by(500).await?;
        }
        load.finish().await?.judge(env).await
    });
}

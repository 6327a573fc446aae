//! Every service dies without a word, in the middle of a load, and is started again.

use rustix::process::Signal;
use system_tests::{Load, SERVICES, Servers, Settings, run};

const ROUNDS: usize = 2;

#[test]
fn nothing_is_lost_or_doubled_when_services_die() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut load = Load::start(env, 8);
        load.grows_by(300).await?;
        for _ in 0..ROUNDS {
            for service in SERVICES {
                env.end(service, Signal::KILL).await?;
                if service != "ingest" {
                    load.grows_by(200).await?;
                }
                env.start_services(&[service]).await?;
                load.grows_by(200).await?;
            }
        }
        for service in SERVICES {
            env.end(service, Signal::KILL).await?;
        }
        env.start_services(&SERVICES).await?;
        load.grows_by(200).await?;
        load.finish().await?.judge(env).await
    });
}

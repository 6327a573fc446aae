//! Two instances of every service that shares out partitions; some stand still long enough to be given up, and come back.

use anyhow::Result;
use rustix::process::Signal;
use system_tests::{Load, SHARED_OUT, Servers, Settings, TestEnv, run, until};

#[test]
fn owners_that_sleep_or_die_change_nothing() {
    run(Servers::Own(Settings::default()), async |env| {
        let mut seconds = Vec::new();
        for service in SHARED_OUT {
            seconds.push(env.start_another(service).await?);
        }
        both_work(env).await?;
        let mut load = Load::start(env, 8);
        load.grows_by(500).await?;

        signal_all(env, &seconds, Signal::STOP)?;
        // It takes until their sessions end that the others work on all partitions.
        env.check_all_partitions().await?;
        signal_all(env, &seconds, Signal::CONT)?;
        for service in SHARED_OUT {
            env.end(service, Signal::KILL).await?;
        }
        load.grows_by(500).await?;
        env.check_all_partitions().await?;
        env.start_services(&SHARED_OUT).await?;
        both_work(env).await?;
        env.check_all_partitions().await?;
        load.finish().await?.judge(env).await
    });
}

fn signal_all(env: &TestEnv, names: &[String], signal: Signal) -> Result<()> {
    names.iter().try_for_each(|name| env.signal(name, signal))
}

/// Waits until each sequencer has a share of the partitions.
async fn both_work(env: &TestEnv) -> Result<()> {
    for name in ["sequencer", "sequencer-2"] {
        until(&format!("the share of {name}"), async || {
            let status = env.get(name, "/status").await;
            let status = status.map_err(|error| format!("{error:#}"))?;
            let share = status["partitions"].as_object().map_or(0, |p| p.len());
            if (1..64).contains(&share) {
                Ok(())
            } else {
                Err(format!("{share} partitions"))
            }
        })
        .await?;
    }
    Ok(())
}

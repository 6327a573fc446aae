//! Devices whose gateways are killed and stopped meanwhile end with what a new device gets, and without a second full sync.

mod device;
mod traffic;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::InboundPosition;
use system_tests::{Servers, Settings, TestEnv, new_users, run, until};

use self::{device::Device, traffic::Traffic};

#[test]
fn devices_of_gateways_that_die_miss_nothing() {
    run(Servers::Own(Settings::default()), async |env| {
        let second = env.start_another("gateway").await?;
        let users = new_users();
        let mut traffic = Traffic::new(env, users);
        let mut posted = traffic.begin().await?;
        let mut devices: Vec<Device> = Vec::new();
        for uid in users {
            devices.push(Device::new(uid, "phone", "mobile"));
            devices.push(Device::new(uid, "desk", "pc"));
        }
        for step in 0..300 {
            posted.push(traffic.step().await?);
            match step {
                80 => env.end("gateway", Signal::KILL).await?,
                120 => env.start_services(&["gateway"]).await?,
                160 => env.end(&second, Signal::TERM).await?,
                200 => env.start_services(&[&second]).await?,
                240 => env.end(&second, Signal::KILL).await?,
                _ => {}
            }
            let ports = [env.port("gateway")?, env.port(&second)?];
            for (which, device) in devices.iter_mut().enumerate() {
                if traffic.happens(30) {
                    device.lose();
                }
                device.turn(env, ports[(step + which) % 2]).await?;
            }
        }
        finish(env, &mut devices, &posted).await
    });
}

/// Once all that was posted is stored, every device knows it, from its frames or from what it asked for since.
async fn finish(env: &TestEnv, devices: &mut [Device], posted: &[InboundPosition]) -> Result<()> {
    let mut newest: BTreeMap<_, InboundPosition> = BTreeMap::new();
    for at in posted {
        let last = newest.entry(at.partition).or_insert(*at);
        last.offset = last.offset.max(at.offset);
    }
    let after: Vec<InboundPosition> = newest.into_values().collect();
    let port = env.port("gateway")?;
    let mut resumed = 0;
    for device in devices {
        env.client.conversations(device.uid, &after).await?;
        let mut new = Device::new(device.uid, "new", "pc");
        new.sync(env).await?;
        let device = tokio::sync::Mutex::new(device);
        let what = format!("what {} knows", new.uid);
        until(&what, async || {
            let mut device = device.lock().await;
            let turned = device.turn(env, port).await;
            turned.map_err(|error| format!("{error:#}"))?;
            match device.knows() == new.knows() {
                true => Ok(()),
                false => Err(format!(
                    "{:#?}\nand a new device {:#?}",
                    device.knows(),
                    new.knows()
                )),
            }
        })
        .await?;
        let device = device.into_inner();
        ensure!(device.full == 1, "{} full syncs", device.full);
        resumed += device.resumed;
    }
    ensure!(resumed > 20, "only {resumed} streams");
    Ok(())
}

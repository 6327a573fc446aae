//! A first story: the boss writes three times, I read on the telephone, the pc still counts three.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use system_tests::{DeviceClass, Servers, TestEnv, run, until};

const ME: i64 = 1000;
const BOSS: i64 = 1001;

#[test]
fn each_step_shows_in_redis() {
    run(Servers::Shared, async |env| {
        shown(env, 0, 0).await?;
        for n in 1..=3 {
            let posted = env
                .client
                .send(BOSS, ME, &format!("story-{n}"), "Call me.")
                .await?;
            ensure!(posted.partition.get() == 17, "{posted:?}");
            shown(env, n, n).await?;
        }
        let read = env.client.ack(ME, BOSS, DeviceClass::Mobile, 3).await?;
        shown(env, 3, 0).await?;
        let after = [read];
        let pc = env.client.unread(ME, DeviceClass::Pc, &after).await?;
        ensure!(pc == BTreeMap::from([(BOSS, 3)]), "{pc:?}");
        let mobile = env.client.unread(ME, DeviceClass::Mobile, &after).await?;
        ensure!(mobile.is_empty(), "{mobile:?}");
        listed(env, "pc", &[3, 2, 1]).await?;
        listed(env, "mobile", &[]).await?;

        env.client.ack(ME, BOSS, DeviceClass::Pc, 2).await?;
        shown(env, 1, 0).await?;
        env.client.ack(ME, BOSS, DeviceClass::Pc, 3).await?;
        shown(env, 0, 0).await?;
        env.audit([ME, BOSS]).await?;
        Ok(())
    });
}

/// Waits until `HGETALL pc-1000` and `HGETALL mobile-1000` show so many messages of the boss. There is no field at zero,
/// so at zero there is no key; one that is there expires some day.
async fn shown(env: &TestEnv, pc: u32, mobile: u32) -> Result<()> {
    for (key, count) in [("pc-1000", pc), ("mobile-1000", mobile)] {
        let expected: BTreeMap<String, String> = (count > 0)
            .then(|| (BOSS.to_string(), count.to_string()))
            .into_iter()
            .collect();
        until(key, async || {
            let view = env.redis.hgetall(key).await;
            let view = view.map_err(|error| format!("{error:#}"))?;
            if view == expected {
                Ok(())
            } else {
                Err(format!("{view:?}, expected {expected:?}"))
            }
        })
        .await?;
        let expires = env.redis.number(&["PTTL", key]).await?;
        ensure!((expires > 0) == (count > 0), "{key} expires in {expires}");
    }
    Ok(())
}

/// What I have not read yet on a class, newest first.
async fn listed(env: &TestEnv, device: &str, mids: &[i64]) -> Result<()> {
    let path = format!("/v1/users/{ME}/conversations/{BOSS}/messages?device={device}");
    until(&path, async || {
        let page = env.client.ask(&path).await;
        let page = page.map_err(|error| format!("{error:#}"))?;
        let items = page["items"].as_array().into_iter().flatten();
        let listed: Vec<i64> = items.filter_map(|item| item["mid"].as_i64()).collect();
        if listed == mids {
            Ok(())
        } else {
            Err(format!("{listed:?}, expected {mids:?}"))
        }
    })
    .await
}

//! How far somebody has read, on which class of devices.

use anyhow::ensure;
use serde_json::Value;
use system_tests::{DeviceClass, Servers, new_users, run};

#[test]
fn a_read_position_ends_with_the_messages_and_is_of_one_class() {
    run(Servers::Shared, async |env| {
        let [from, to] = new_users();
        for id in ["first", "second", "third"] {
            env.client.send(from, to, id, id).await?;
        }
        let past = env.client.ack(to, from, DeviceClass::Pc, 551).await?;
        let outcome = env.client.outcome(past).await?;
        ensure!(outcome["mid"] == 3, "{outcome}");
        let fourth = [env.client.send(from, to, "fourth", "fourth").await?];
        for (device, count) in [(DeviceClass::Pc, 1), (DeviceClass::Mobile, 4)] {
            let unread = env.client.unread(to, device, &fourth).await?;
            ensure!(unread.get(&from) == Some(&count), "{device}: {unread:?}");
            // The page is MySQL's, the count Redis'.
            let after = fourth[0];
            let above = format!(
                "/v1/users/{to}/conversations/{from}/messages?device={device}&after={after}"
            );
            let page = env.client.ask(&above).await?;
            let items = page["items"].as_array().map_or(0, Vec::<Value>::len);
            ensure!(items as i64 == count, "{device}: {page}");
        }
        env.audit([from, to]).await?;
        Ok(())
    });
}

//! Retention of chat.events passes projections that are down: they halt the partition, say how to go on, and do.

use anyhow::ensure;
use rustix::process::Signal;
use schemas::topics::Topic;
use serde_json::Value;
use system_tests::{DeviceClass, Servers, Settings, new_users, run};

const PROJECTORS: [&str; 2] = ["projector-mysql", "projector-unread"];

#[test]
fn projections_stand_still_until_somebody_gives_the_records_up() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let send = async |id: &str| env.client.send(from, to, id, id).await;
        let before = send("before").await?;
        env.client.history(from, to, &[before]).await?;
        env.client.unread(to, DeviceClass::Pc, &[before]).await?;

        for projector in PROJECTORS {
            env.end(projector, Signal::KILL).await?;
        }
        let lost = send("lost").await?;
        env.client.outcome(lost).await?;
        env.events
            .delete_all_of(Topic::Events, lost.partition)
            .await?;
        for (projector, sinks, remedy) in [
            ("projector-mysql", 3, "`tidemark db skip-deleted`"),
            ("projector-unread", 1, "empty this Redis"),
        ] {
            for why in env.start_halted(projector, sinks).await? {
                let is_named = why.contains("records were deleted unread");
                ensure!(is_named && why.contains(remedy), "{why}");
            }
        }

        let shown = env.tidemark(&["db", "skip-deleted", "--json"]).await?;
        let shown = shown.expect(0)?.json_lines()?;
        // A conversation's messages and positions are in one database; contacts may be in any of the four.
        for (sink, databases) in [("messages", 1), ("reads", 1), ("contacts", 4)] {
            let lines = shown.iter().filter(|line| line["sink"] == sink).count();
            ensure!(lines == databases, "{sink}: {shown:?}");
        }
        let is_lost = |line: &Value| line["partition"] == lost.partition.get();
        ensure!(
            shown
                .iter()
                .all(|line| line["skipped"] == false && is_lost(line))
        );
        env.halted("projector-mysql", 3).await?;
        let skipped = env.tidemark(&["db", "skip-deleted", "--yes"]).await?;
        skipped.expect(0)?;
        env.redis.flush_all().await?;

        // They go on by themselves, without a restart.
        env.start_services(&PROJECTORS).await?;
        let after = send("after").await?;
        let items = env.client.history(from, to, &[after]).await?;
        let texts: Vec<&Value> = items.iter().map(|item| &item["msg"]).collect();
        ensure!(texts == ["before", "after"], "{items:?}");
        let unread = env.client.unread(to, DeviceClass::Pc, &[after]).await?;
        ensure!(unread.get(&from) == Some(&3), "{unread:?}");
        env.audit([from, to]).await?;
        Ok(())
    });
}

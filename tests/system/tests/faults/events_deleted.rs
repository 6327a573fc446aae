//! Retention of chat.events passes projections that are down: they refuse to go on, and say how.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::topics::Topic;
use serde_json::Value;
use system_tests::{DeviceClass, Servers, Settings, TestEnv, new_users, run};

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
        refuses(env, "projector-mysql", "`tidemark db skip-deleted`").await?;
        refuses(env, "projector-unread", "empty this Redis").await?;

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
        refuses(env, "projector-mysql", "`tidemark db skip-deleted`").await?;
        let skipped = env.tidemark(&["db", "skip-deleted", "--yes"]).await?;
        skipped.expect(0)?;
        env.redis.flush_all().await?;

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

/// It ends, and its last line says what is missing and what to do.
async fn refuses(env: &TestEnv, projector: &str, remedy: &str) -> Result<()> {
    let ended = env.tidemark(&[projector]).await?.expect(1)?;
    let said = ended.said();
    ensure!(
        said.contains("records were deleted unread") && said.contains(remedy),
        "{said}"
    );
    Ok(())
}

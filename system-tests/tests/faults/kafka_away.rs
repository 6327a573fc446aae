//! Kafka stands still for a while in the middle of a load.

use anyhow::Result;
use rustix::process::Signal;
use system_tests::{Load, Servers, Settings, World, run, until};

/// Short deadlines, so that posts end without a known outcome while Kafka stands still.
const SHORT: Settings = Settings {
    overrides: &[
        "ingest.message_timeout_ms=1000",
        "ingest.request_deadline_ms=1500",
    ],
    ..Settings::USUAL
};

#[test]
fn posts_of_unknown_outcome_are_repeated_without_doubles_or_losses() {
    run(Servers::Own(SHORT), async |world| {
        let mut load = Load::start(world, 8);
        // The second pause is longer than the sessions of consumer groups.
        for unknown in [16, 100] {
            load.grows_by(300).await?;
            world.signal("kafka", Signal::STOP)?;
            let left_unknown = are_left_unknown(world, unknown).await;
            world.signal("kafka", Signal::CONT)?;
            left_unknown?;
            load.grows_by(300).await?;
        }
        load.settle().await?.judge(world).await
    });
}

/// Waits until so many posts more were answered that their outcome is unknown.
async fn are_left_unknown(world: &World, posts: u64) -> Result<()> {
    let goal = world.client.unknown() + posts;
    until("unknown outcomes", async || match world.client.unknown() {
        now if now >= goal => Ok(()),
        now => Err(format!("{now} of {goal}")),
    })
    .await
}

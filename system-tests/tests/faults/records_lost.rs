//! Records of `chat.inbound` are deleted before the sequencer has read them: it refuses to go on until somebody says so.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::{InboundPosition, Partition, event::SrcMark};
use serde_json::json;
use system_tests::{Servers, Settings, World, new_users, run};

use crate::history::told;

#[test]
fn the_sequencer_stands_still_until_the_epoch_is_raised() {
    run(Servers::Own(Settings::default()), async |world| {
        let [from, to] = new_users();
        let send = async |id: &str| world.client.send(from, to, id, id).await;
        let before = send("before").await?;
        world.client.history(from, to, &[before]).await?;

        world.end("sequencer", Signal::KILL).await?;
        let lost = send("lost").await?;
        let kept = send("kept").await?;
        world.events.delete_inbound_before(kept).await?;
        refuses_to_go_on(world).await?;

        ensure!(raise(world).await? == (1, 64));
        stand_at(world, 1, lost).await?;
        world.start_services(&["sequencer"]).await?;
        let after = send("after").await?;
        told(world, [from, to], after, &["before", "kept", "after"]).await?;

        // Nobody raises it under a sequencer that runs.
        let refused = world.tidemark(&["epoch", "raise"]).await?.expect(2)?;
        ensure!(
            refused.stderr.contains("stop every one first"),
            "{refused:?}"
        );
        world.audit([from, to]).await?;
        Ok(())
    });
}

/// Twice in a row, and once more after a raise that broke off.
#[test]
fn a_raise_sequences_nothing_again() {
    run(Servers::Own(Settings::default()), async |world| {
        let [from, to] = new_users();
        world.client.send(from, to, "first", "first").await?;
        let second = world.client.send(from, to, "second", "second").await?;
        world.client.history(from, to, &[second]).await?;

        world.end("sequencer", Signal::KILL).await?;
        let third = world.client.send(from, to, "third", "third").await?;
        is_behind_by_one(world).await?;
        for epoch in [1, 2] {
            ensure!(raise(world).await? == (epoch, 64));
            stand_at(world, epoch, second).await?;
        }
        let mark = SrcMark {
            epoch: 3,
            offset: second.offset,
        };
        let done = second.partition;
        world.events.append_progress(done, mark).await?;
        let end_before = world.events.ends().await?[&done];
        ensure!(raise(world).await? == (3, 63));
        stand_at(world, 3, second).await?;
        ensure!(world.events.ends().await?[&done] == end_before);

        world.start_services(&["sequencer"]).await?;
        told(world, [from, to], third, &["first", "second", "third"]).await?;
        world.audit([from, to]).await?;
        Ok(())
    });
}

/// It ends, and its last line says what is missing and what to do.
async fn refuses_to_go_on(world: &World) -> Result<()> {
    let ended = world.tidemark(&["sequencer"]).await?.expect(1)?;
    let said = ended.said();
    ensure!(said.contains("records were deleted unread"), "{said}");
    ensure!(said.contains("tidemark epoch raise"), "{said}");
    Ok(())
}

/// Status shows that nothing is sequenced.
async fn is_behind_by_one(world: &World) -> Result<()> {
    let status = world.tidemark(&["status", "--json"]).await?.expect(1)?;
    let status = status.json()?;
    let processes = status["processes"].as_array().into_iter().flatten();
    let not_ready: Vec<_> = processes
        .filter(|process| process["state"] != "ready")
        .map(|process| json!([process["name"], process["state"]]))
        .collect();
    ensure!(not_ready == [json!(["sequencer", "died"])], "{status}");
    ensure!(status["lag"]["sequenced (chat.events)"] == 1, "{status}");
    Ok(())
}

/// Raises the epoch, as soon as the group has noticed that its sequencers are gone; to what, and in how many partitions.
async fn raise(world: &World) -> Result<(u64, u64)> {
    let raised = world.tidemark(&["epoch", "raise", "--json"]).await?;
    let raised = raised.expect(0)?.json()?;
    let number = |name: &str| raised[name].as_u64().unwrap_or_default();
    Ok((number("epoch"), number("partitions")))
}

/// All partitions of `chat.events` are in this epoch: one behind `sequenced`, the others, which never had a record, before
/// everything.
async fn stand_at(world: &World, epoch: u64, sequenced: InboundPosition) -> Result<()> {
    let epoch = u32::try_from(epoch)?;
    let mut expected: BTreeMap<Partition, SrcMark> = Partition::all()
        .map(|partition| (partition, SrcMark { epoch, offset: -1 }))
        .collect();
    let offset = sequenced.offset;
    expected.insert(sequenced.partition, SrcMark { epoch, offset });
    let marks = world.events.last_marks().await?;
    ensure!(marks == expected, "{marks:?}");
    Ok(())
}

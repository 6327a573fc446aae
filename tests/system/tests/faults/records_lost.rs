//! Records of `chat.inbound` are deleted before the sequencer has read them: it refuses to go on until somebody says so.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::{InboundPosition, Partition, PartitionMap, event::SourceOffset, topics::Topic};
use serde_json::{Value, json};
use system_tests::{Servers, Settings, TestEnv, new_users, run, until};

use crate::history::expect_texts;

#[test]
fn the_sequencer_stands_still_until_the_epoch_is_raised() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        let send = async |id: &str| env.client.send(from, to, id, id).await;
        let before = send("before").await?;
        env.client.history(from, to, &[before]).await?;
        all_is_sequenced(env, before).await?;

        env.end("sequencer", Signal::KILL).await?;
        let lost = send("lost").await?;
        let kept = send("kept").await?;
        env.events
            .delete_before(Topic::Inbound, kept.partition, kept.offset)
            .await?;
        let elsewhere = halts_and_goes_on_elsewhere(env).await?;
        env.end("sequencer", Signal::TERM).await?;

        ensure!(raise(env).await? == (1, 64));
        stand_at(env, 1, &[lost, elsewhere]).await?;
        env.start_services(&["sequencer"]).await?;
        let after = send("after").await?;
        expect_texts(env, [from, to], after, &["before", "kept", "after"]).await?;

        // Nobody raises it under a sequencer that runs.
        let refused = env.tidemark(&["epoch", "raise"]).await?.expect(2)?;
        ensure!(
            refused.stderr.contains("stop every one first"),
            "{refused:?}"
        );
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// Twice in a row, and once more after a raise that broke off.
#[test]
fn a_raise_sequences_nothing_again() {
    run(Servers::Own(Settings::default()), async |env| {
        let [from, to] = new_users();
        env.client.send(from, to, "first", "first").await?;
        let second = env.client.send(from, to, "second", "second").await?;
        env.client.history(from, to, &[second]).await?;
        all_is_sequenced(env, second).await?;

        env.end("sequencer", Signal::KILL).await?;
        let third = env.client.send(from, to, "third", "third").await?;
        is_behind_by_one(env).await?;
        for epoch in [1, 2] {
            ensure!(raise(env).await? == (epoch, 64));
            stand_at(env, epoch, &[second]).await?;
        }
        let watermark = SourceOffset {
            epoch: 3,
            offset: second.offset,
        };
        let done = second.partition;
        env.events.append_progress(done, watermark).await?;
        let end_before = env.events.ends().await?[done];
        ensure!(raise(env).await? == (3, 63));
        stand_at(env, 3, &[second]).await?;
        ensure!(env.events.ends().await?[done] == end_before);

        env.start_services(&["sequencer"]).await?;
        expect_texts(env, [from, to], third, &["first", "second", "third"]).await?;
        env.audit([from, to]).await?;
        Ok(())
    });
}

/// It says what is missing and what to do, and sequences what comes in another partition. Where that is.
async fn halts_and_goes_on_elsewhere(env: &TestEnv) -> Result<InboundPosition> {
    let why = env.start_halted("sequencer", 1).await?.concat();
    ensure!(why.contains("records were deleted unread"), "{why}");
    ensure!(why.contains("tidemark epoch raise"), "{why}");
    let metrics = env.metrics("sequencer").await?;
    let one = "tidemark_halted_partitions{consumergroup=\"sequencer\"} 1";
    ensure!(metrics.contains(one), "{metrics}");
    let [from, to] = new_users();
    let sent = env.client.send(from, to, "elsewhere", "elsewhere").await?;
    env.client.history(from, to, &[sent]).await?;
    Ok(sent)
}

/// Status shows that nothing is sequenced. On a busy machine another process may not be ready for a moment.
async fn is_behind_by_one(env: &TestEnv) -> Result<()> {
    let is_behind = async || {
        let status = status(env).await.map_err(|error| format!("{error:#}"))?;
        let processes = status["processes"].as_array().into_iter().flatten();
        let not_ready: Vec<_> = processes
            .filter(|process| process["state"] != "ready")
            .map(|process| json!([process["name"], process["state"]]))
            .collect();
        let is_so = not_ready == [json!(["sequencer", "died"])]
            && status["lag"]["sequenced (chat.events)"] == 1;
        is_so.then_some(()).ok_or_else(|| status.to_string())
    };
    until("status to show it", is_behind).await
}

async fn status(env: &TestEnv) -> Result<Value> {
    env.tidemark(&["status", "--json"]).await?.expect(1)?.json()
}

/// Raises the epoch, as soon as the group has noticed that its sequencers are gone; to what, and in how many partitions.
async fn raise(env: &TestEnv) -> Result<(u64, u64)> {
    let raised = env.tidemark(&["epoch", "raise", "--json"]).await?;
    let raised = raised.expect(0)?.json()?;
    let number = |name: &str| raised[name].as_u64().unwrap_or_default();
    Ok((number("epoch"), number("partitions")))
}

/// Waits for the control records of the other partitions too: a sequencer is ready before it has come to them.
async fn all_is_sequenced(env: &TestEnv, sent: InboundPosition) -> Result<()> {
    let is_sequenced = async || {
        let stands = stand_at(env, 0, &[sent]).await;
        stands.map_err(|error| format!("{error:#}"))
    };
    until("everything to be sequenced", is_sequenced).await
}

/// All partitions of `chat.events` are in this epoch: those of `sequenced` behind it, the others behind the control record with which an
/// installation begins.
async fn stand_at(env: &TestEnv, epoch: u64, sequenced: &[InboundPosition]) -> Result<()> {
    let epoch = u32::try_from(epoch)?;
    let mut expected: PartitionMap<SourceOffset> = Partition::all()
        .map(|partition| (partition, SourceOffset { epoch, offset: 0 }))
        .collect();
    for &InboundPosition { partition, offset } in sequenced {
        expected.insert(partition, SourceOffset { epoch, offset });
    }
    let watermarks = env.events.last_watermarks().await?;
    ensure!(watermarks == expected, "{watermarks:?}");
    Ok(())
}

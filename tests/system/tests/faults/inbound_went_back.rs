//! The only broker loses power, and with it the newest records of a partition of chat.inbound, which are sequenced. Later records take
//! their offsets until the log is longer than it was: the sequencer does not go on as if they were the ones that it has read.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::topics::Topic;
use system_tests::{Servers, Settings, TestEnv, run};

use crate::lost_tail::Chat;

const SETTINGS: Settings = Settings {
    // A sequencer keeps its partitions while the broker is away.
    overrides: &["kafka.session_timeout_ms=240000"],
    ..Settings::USUAL
};

/// Who is not there while the broker is away.
const OTHERS: [&str; 3] = ["ingest", "projector-mysql", "projector-unread"];

#[test]
fn a_halted_sequencer_stays_so_when_the_log_is_as_long_again() {
    run(Servers::Own(SETTINGS), async |env| {
        let mut chat = begin(env).await?;
        env.end("sequencer", Signal::TERM).await?;
        lose_the_tail(&chat).await?;
        let why = env.start_halted("sequencer", 1).await?.concat();
        ensure!(why.contains("the log end offset is"), "{why}");
        grow_as_long_again(&mut chat).await?;
        // It has looked again.
        let other = |readiness: &serde_json::Value| {
            let text = readiness.to_string();
            !text.contains("is halted") || text.contains("has leader epoch")
        };
        let readiness = env
            .until_readiness("sequencer", "looks again", other)
            .await?;
        ensure!(readiness.to_string().contains("is halted"), "{readiness}");
        assert_whole_after_a_raise(chat).await
    });
}

/// Of a partition that it has read from since its start, librdkafka notices it by itself.
#[test]
fn a_sequencer_that_was_started_behind_what_was_lost_halts() {
    run(Servers::Own(SETTINGS), async |env| {
        let mut chat = begin(env).await?;
        env.end("sequencer", Signal::TERM).await?;
        env.start_services(&["sequencer"]).await?;
        env.signal("sequencer", Signal::STOP)?;
        lose_the_tail(&chat).await?;
        grow_as_long_again(&mut chat).await?;
        env.signal("sequencer", Signal::CONT)?;
        assert_whole_after_a_raise(chat).await
    });
}

/// All but the first of four sequenced messages were in the broker's memory only.
async fn lose_the_tail(chat: &Chat<'_>) -> Result<()> {
    for name in OTHERS {
        chat.env.end(name, Signal::TERM).await?;
    }
    chat.env.end("kafka", Signal::KILL).await?;
    chat.lose_the_tail()?;
    chat.env.start_servers().await
}

async fn begin(env: &TestEnv) -> Result<Chat<'_>> {
    let mut chat = Chat::begin(env, Topic::Inbound).await?;
    for _ in 2..=4 {
        chat.send().await?;
    }
    let [from, to] = chat.users;
    env.client.history(from, to, &[chat.last]).await?;
    Ok(chat)
}

async fn grow_as_long_again(chat: &mut Chat<'_>) -> Result<()> {
    chat.env.start_services(&OTHERS).await?;
    let end = chat.last.offset + 1;
    chat.send().await?;
    ensure!(chat.last.offset < end, "nothing was lost");
    while chat.last.offset <= end {
        chat.send().await?;
    }
    Ok(())
}

/// The sequencer halts; after what it says is done, all that was ever accepted is there, once.
async fn assert_whole_after_a_raise(mut chat: Chat<'_>) -> Result<()> {
    let env = chat.env;
    let why = env.halted("sequencer", 1).await?.concat();
    ensure!(why.contains("`tidemark epoch raise`"), "{why}");
    env.end("sequencer", Signal::TERM).await?;
    env.tidemark(&["epoch", "raise"]).await?.expect(0)?;
    env.start_services(&["sequencer"]).await?;
    chat.send().await?;
    chat.assert_whole().await
}

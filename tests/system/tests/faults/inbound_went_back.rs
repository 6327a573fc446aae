//! The only broker loses power, and with it the newest records of a partition of chat.inbound, which are sequenced. Later records take
//! their offsets until the log is longer than it was: the sequencer does not go on as if they were the ones that it has read.

use anyhow::{Result, ensure};
use rustix::process::Signal;
use schemas::{InboundPosition, topics::Topic};
use system_tests::{PartitionFiles, Servers, Settings, TestEnv, new_users, run};
use tempfile::TempDir;

use crate::history::expect_texts;

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
        let chat = Chat::begin(env).await?;
        env.end("sequencer", Signal::TERM).await?;
        chat.lose_the_tail().await?;
        let why = env.start_halted("sequencer", 1).await?.concat();
        ensure!(why.contains("the log end offset is"), "{why}");
        let chat = chat.grow_as_long_again().await?;
        // It has looked again.
        let other = |readiness: &serde_json::Value| {
            let text = readiness.to_string();
            !text.contains("is halted") || text.contains("has leader epoch")
        };
        let readiness = env
            .until_readiness("sequencer", "looks again", other)
            .await?;
        ensure!(readiness.to_string().contains("is halted"), "{readiness}");
        chat.assert_whole_after_a_raise().await
    });
}

/// Of a partition that it has read from since its start, librdkafka notices it by itself.
#[test]
fn a_sequencer_that_was_started_behind_what_was_lost_halts() {
    run(Servers::Own(SETTINGS), async |env| {
        let chat = Chat::begin(env).await?;
        env.end("sequencer", Signal::TERM).await?;
        env.start_services(&["sequencer"]).await?;
        env.signal("sequencer", Signal::STOP)?;
        chat.lose_the_tail().await?;
        let chat = chat.grow_as_long_again().await?;
        env.signal("sequencer", Signal::CONT)?;
        chat.assert_whole_after_a_raise().await
    });
}

/// What two users say, and the partition of chat.inbound that has it, as it was after the first message.
struct Chat<'a> {
    env: &'a TestEnv,
    users: [i64; 2],
    sent: Vec<String>,
    last: InboundPosition,
    files: PartitionFiles,
    early: TempDir,
}

impl<'a> Chat<'a> {
    async fn begin(env: &'a TestEnv) -> Result<Self> {
        let users @ [from, to] = new_users();
        let last = env.client.send(from, to, "1", "1").await?;
        env.client.history(from, to, &[last]).await?;
        let files = env.partition_files(Topic::Inbound, last.partition);
        let mut chat = Self {
            env,
            users,
            sent: vec!["1".to_owned()],
            last,
            early: files.copy()?,
            files,
        };
        for _ in 2..=4 {
            chat.send().await?;
        }
        env.client.history(from, to, &[chat.last]).await?;
        Ok(chat)
    }

    async fn send(&mut self) -> Result<()> {
        let [from, to] = self.users;
        let id = (self.sent.len() + 1).to_string();
        self.last = self.env.client.send(from, to, &id, &id).await?;
        self.sent.push(id);
        Ok(())
    }

    /// All but the first record was in the broker's memory only.
    async fn lose_the_tail(&self) -> Result<()> {
        for name in OTHERS {
            self.env.end(name, Signal::TERM).await?;
        }
        self.env.end("kafka", Signal::KILL).await?;
        self.files.put_back(&self.early)?;
        self.env.start_servers().await
    }

    async fn grow_as_long_again(mut self) -> Result<Self> {
        self.env.start_services(&OTHERS).await?;
        let end = self.last.offset + 1;
        self.send().await?;
        ensure!(self.last.offset < end, "nothing was lost");
        while self.last.offset <= end {
            self.send().await?;
        }
        Ok(self)
    }

    /// The sequencer halts; after what it says is done, all that was ever accepted is there, once.
    async fn assert_whole_after_a_raise(mut self) -> Result<()> {
        let env = self.env;
        let why = env.halted("sequencer", 1).await?.concat();
        ensure!(why.contains("`tidemark epoch raise`"), "{why}");
        env.end("sequencer", Signal::TERM).await?;
        env.tidemark(&["epoch", "raise"]).await?.expect(0)?;
        env.start_services(&["sequencer"]).await?;
        self.send().await?;
        expect_texts(env, self.users, self.last, &self.sent).await?;
        env.audit(self.users).await?;
        Ok(())
    }
}

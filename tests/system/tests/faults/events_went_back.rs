//! The only broker loses power, and with it the newest records of a partition of chat.events. They are decided again, with other records of
//! progress between them, so that offsets shift; when the projections look, the log is as long as it was. They halt the partition, and what
//! they say mends it.

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use schemas::topics::Topic;
use system_tests::{DeviceClass, SERVICES, Servers, Settings, TestEnv, run};

use crate::lost_tail::Chat;

const PROJECTORS: [&str; 2] = ["projector-mysql", "projector-unread"];
const WRITERS: [&str; 2] = ["ingest", "sequencer"];

const SETTINGS: Settings = Settings {
    overrides: &[
        // A snapshot of what is lost would stop the sequencer.
        "sequencer.snapshot_interval_ms=3600000",
        "sequencer.snapshot_events=1000000",
        "projector_mysql.reads_interval_ms=50",
        "projector_mysql.contacts_interval_ms=50",
    ],
    ..Settings::USUAL
};

#[test]
fn projections_that_start_on_a_tail_decided_again_refuse_it() {
    run(Servers::Own(SETTINGS), async |env| {
        let chat = StoredChat::begin(env).await?;
        for projector in PROJECTORS {
            env.end(projector, Signal::TERM).await?;
        }
        chat.lose_the_tail().await?;
        env.start_servers().await?;
        let chat = chat.grow_as_long_again().await?;
        env.start_halted("projector-unread", 1).await?;
        env.start_halted("projector-mysql", 3).await?;
        mend(env).await?;
        chat.assert_whole().await
    });
}

#[test]
fn projections_that_slept_while_a_tail_was_decided_again_refuse_it() {
    run(Servers::Own(SETTINGS), async |env| {
        let chat = StoredChat::begin(env).await?;
        chat.lose_the_tail().await?;
        for projector in PROJECTORS {
            env.signal(projector, Signal::STOP)?;
        }
        env.start_servers().await?;
        let chat = chat.grow_as_long_again().await?;
        for projector in PROJECTORS {
            env.signal(projector, Signal::CONT)?;
        }
        mend(env).await?;
        chat.assert_whole().await
    });
}

/// What two users say, and where the log ended when everything that they had sent was in every store.
struct StoredChat<'a> {
    chat: Chat<'a>,
    end: i64,
}

impl<'a> StoredChat<'a> {
    async fn begin(env: &'a TestEnv) -> Result<Self> {
        let mut chat = Chat::begin(env, Topic::Events).await?;
        let [from, to] = chat.users;
        for _ in 2..=5 {
            chat.send().await?;
            env.client.history(from, to, &[chat.last]).await?;
            // A retry, which the sequencer answers for with a record of progress.
            let id = chat.sent.last().context("one was sent")?;
            let again = env.client.send(from, to, id, id).await?;
            env.client.history(from, to, &[again]).await?;
        }
        env.audit(chat.users).await?;
        let mut stored = Self { chat, end: 0 };
        stored.end = stored.log_end().await?;
        Ok(stored)
    }

    async fn log_end(&self) -> Result<i64> {
        Ok(self.chat.env.events.ends().await?[self.chat.last.partition])
    }

    /// The broker dies, and those who write with it; all but the first record was in its memory only.
    async fn lose_the_tail(&self) -> Result<()> {
        for name in WRITERS.into_iter().chain(["kafka"]) {
            self.chat.env.end(name, Signal::KILL).await?;
        }
        self.chat.lose_the_tail()
    }

    /// What was lost is decided again, and new messages come until the log is longer than it was.
    async fn grow_as_long_again(mut self) -> Result<Self> {
        ensure!(self.log_end().await? < self.end, "nothing was lost");
        self.chat.env.start_services(&WRITERS).await?;
        while self.log_end().await? <= self.end {
            self.chat.send().await?;
            self.chat.env.client.outcome(self.chat.last).await?;
        }
        Ok(self)
    }

    /// After everything is up again, all that was ever accepted is there, once.
    async fn assert_whole(self) -> Result<()> {
        let mut chat = self.chat;
        chat.env.start_services(&SERVICES).await?;
        chat.send().await?;
        let ([from, to], after) = (chat.users, [chat.last]);
        let unread = chat.env.client.unread(to, DeviceClass::Pc, &after).await?;
        ensure!(
            unread.get(&from) == Some(&(chat.sent.len() as i64)),
            "{unread:?}"
        );
        chat.assert_whole().await
    }
}

/// Does what the halted projections say that is to be done; they go on by themselves.
async fn mend(env: &TestEnv) -> Result<()> {
    let unread = env.halted("projector-unread", 1).await?.concat();
    ensure!(unread.contains("`tidemark rebuild contacts`, and only then empty this Redis"));
    for why in env.halted("projector-mysql", 3).await? {
        ensure!(why.contains("the end of the log was lost"), "{why}");
        let command = why
            .split('`')
            .find_map(|part| part.strip_prefix("tidemark "));
        let command = command.with_context(|| why.clone())?;
        let args: Vec<&str> = command.split(' ').collect();
        env.tidemark(&args).await?.expect(0)?;
    }
    env.halted("projector-unread", 1).await?;
    env.redis.flush_all().await
}

//! A partition whose newest records were in the broker's memory only, when that lost power.

use anyhow::Result;
use schemas::{InboundPosition, topics::Topic};
use system_tests::{PartitionFiles, TestEnv, new_users};
use tempfile::TempDir;

use crate::history::expect_texts;

/// What two users say, and the partition of a topic that has it, as it was after the first message.
pub struct Chat<'a> {
    pub env: &'a TestEnv,
    pub users: [i64; 2],
    pub sent: Vec<String>,
    pub last: InboundPosition,
    files: PartitionFiles,
    early: TempDir,
}

impl<'a> Chat<'a> {
    /// Sends the first message, and waits until it is stored.
    pub async fn begin(env: &'a TestEnv, topic: Topic) -> Result<Self> {
        let users @ [from, to] = new_users();
        let last = env.client.send(from, to, "1", "1").await?;
        env.client.history(from, to, &[last]).await?;
        let files = env.partition_files(topic, last.partition);
        Ok(Self {
            env,
            users,
            sent: vec!["1".to_owned()],
            last,
            early: files.copy()?,
            files,
        })
    }

    /// Sends the next message; its text is its number.
    pub async fn send(&mut self) -> Result<()> {
        let [from, to] = self.users;
        let id = (self.sent.len() + 1).to_string();
        self.last = self.env.client.send(from, to, &id, &id).await?;
        self.sent.push(id);
        Ok(())
    }

    /// Takes away what came after the first message. The broker must not run.
    pub fn lose_the_tail(&self) -> Result<()> {
        self.files.put_back(&self.early)
    }

    /// Checks that all that was ever accepted is there, once.
    pub async fn assert_whole(&self) -> Result<()> {
        expect_texts(self.env, self.users, self.last, &self.sent).await?;
        self.env.audit(self.users).await?;
        Ok(())
    }
}

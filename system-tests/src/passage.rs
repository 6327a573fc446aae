//! Whether everything works: a message through every partition.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::{Device, World, new_users};

const AT_A_TIME: usize = 16;

impl World {
    /// Sends a message through every partition, and waits until each is counted in Redis and stored in MySQL.
    ///
    /// # Errors
    /// One is refused, does not come through in time, or is not the only one.
    pub async fn all_partitions_pass(&self) -> Result<()> {
        let users = new_users::<65>();
        let (from, to) = (users[0], &users[1..]);
        stream::iter(to)
            .map(|to| self.passes(from, *to))
            .buffer_unordered(AT_A_TIME)
            .try_for_each(async |()| Ok(()))
            .await
            .context("a message through every partition")
    }

    async fn passes(&self, from: i64, to: i64) -> Result<()> {
        let posted = self.client.send(from, to, "pass", "pass").await?;
        let after = [posted];
        let unread = self.client.unread(to, Device::Pc, &after).await?;
        ensure!(unread.get(&from) == Some(&1), "{to}: {unread:?}");
        let items = self.client.history(to, from, &after).await?;
        ensure!(items.len() == 1, "{to}: {items:?}");
        Ok(())
    }
}

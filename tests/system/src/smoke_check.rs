//! Checks that everything works: a message through every partition.

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;

use crate::{DeviceClass, Difference, TestEnv, new_users};

impl TestEnv {
    /// Sends a message through every partition, and waits until each is counted in Redis and stored in MySQL.
    ///
    /// # Errors
    /// If a message is refused, does not come through in time, or is not the only one.
    pub async fn check_all_partitions(&self) -> Result<()> {
        let users = new_users::<65>();
        let (from, to) = (users[0], &users[1..]);
        // All at once: users who are rebuilt wait for the same rows.
        let passing = try_join_all(to.iter().map(|to| self.check_partition(from, *to)));
        passing.await.context("a message through every partition")?;
        Ok(())
    }

    async fn check_partition(&self, from: i64, to: i64) -> Result<()> {
        let posted = self.client.send(from, to, "pass", "pass").await?;
        let after = [posted];
        let unread = self.client.unread(to, DeviceClass::Pc, &after).await?;
        ensure!(
            unread.get(&from) == Some(&1),
            Difference(format!("{to} after {posted}: {unread:?}"))
        );
        let items = self.client.history(to, from, &after).await?;
        ensure!(
            items.len() == 1,
            Difference(format!("{to} after {posted}: {items:?}"))
        );
        Ok(())
    }
}

//! The judge of every test.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::{DeviceClass, Difference, TestEnv};

/// How many users are read at a time.
const AT_A_TIME: usize = 16;

/// The report of an audit without differences.
#[derive(Clone, Debug)]
pub struct Audited {
    report: Value,
}

impl Audited {
    /// How much was compared in an area, for example `messages` or `unread-states`.
    pub fn compared(&self, area: &str) -> u64 {
        let mut checks = self.report["checks"].as_array().into_iter().flatten();
        let check = checks.find(|check| check["area"] == area);
        check
            .and_then(|check| check["compared"].as_u64())
            .unwrap_or(0)
    }
}

impl TestEnv {
    /// Reads every one of `users`, so that Redis has all of them and there is something to compare, then runs `tidemark audit`.
    ///
    /// # Errors
    /// If there is a difference, which the error states, or if Redis does not have all of `users`.
    pub async fn audit(&self, users: impl IntoIterator<Item = i64>) -> Result<Audited> {
        let users: Vec<i64> = users.into_iter().collect();
        stream::iter(&users)
            .map(|uid| self.client.unread(*uid, DeviceClass::Pc, &[]))
            .buffer_unordered(AT_A_TIME)
            .try_for_each(async |_| Ok(()))
            .await
            .context("before the audit")?;
        let outcome = self.tidemark(&["audit", "--json"]).await?;
        if let Ok(report) = outcome.json() {
            let differences = report["differences"].as_u64();
            ensure!(differences == Some(0), Difference(format!("{report:#}")));
        }
        let report = outcome.expect(0)?.json()?;
        let audited = Audited { report };
        let compared = audited.compared("unread-states");
        ensure!(
            compared >= users.len() as u64,
            "the audit compared {compared} users in Redis, of {} that were read: {:#}",
            users.len(),
            audited.report
        );
        Ok(audited)
    }
}

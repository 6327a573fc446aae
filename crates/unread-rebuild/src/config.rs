use std::time::Duration;

use garde::Validate;
use serde::{Deserialize, Serialize};

/// Section `rebuild` in the sections of the services that rebuild.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct RebuildConfig {
    /// The lease of a rebuild, milliseconds; the process renews it during the rebuild. After a crash the users wait this long.
    #[garde(range(min = 1_000, max = 600_000))]
    pub lease_ms: u64,
    /// The timeout of a rebuild, milliseconds.
    #[garde(range(min = 1_000, max = 3_600_000))]
    pub give_up_ms: u64,
    /// The maximum of users that are rebuilt in one batch.
    #[garde(range(min = 1, max = 100_000))]
    pub users_per_round: usize,
    /// How many batches may run at a time, in each database.
    #[garde(range(min = 1, max = 64))]
    pub rounds_per_database: usize,
}

impl Default for RebuildConfig {
    fn default() -> Self {
        Self {
            lease_ms: 15_000,
            give_up_ms: 60_000,
            users_per_round: 2_000,
            rounds_per_database: 4,
        }
    }
}

impl RebuildConfig {
    pub(crate) fn give_up(&self) -> Duration {
        Duration::from_millis(self.give_up_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_unknown_keys_are_rejected() {
        RebuildConfig::default().validate().unwrap();
        assert!(serde_json::from_str::<RebuildConfig>(r#"{"lease": 1}"#).is_err());
    }
}

use std::time::Duration;

use garde::Validate;
use serde::{Deserialize, Serialize};

/// How rebuilds run (`rebuild` in the sections of the services that rebuild).
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct RebuildConfig {
    /// How long a rebuild is left to the process that began it, milliseconds; it is renewed while that process is at it. After a crash
    /// its users wait this long.
    #[garde(range(min = 1_000, max = 600_000))]
    pub lease_ms: u64,
    /// After how long a rebuild that gets nowhere is given up, milliseconds.
    #[garde(range(min = 1_000, max = 3_600_000))]
    pub give_up_ms: u64,
    /// The most users that are rebuilt behind one barrier.
    #[garde(range(min = 1, max = 100_000))]
    pub users_per_round: usize,
    /// How many barriers may be waited for at a time, in each database.
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
    fn the_defaults_are_valid_and_unknown_keys_are_refused() {
        RebuildConfig::default().validate().unwrap();
        assert!(serde_json::from_str::<RebuildConfig>(r#"{"lease": 1}"#).is_err());
    }
}

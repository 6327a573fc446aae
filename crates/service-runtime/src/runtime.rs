//! The runtime of a process.

use std::{io, num::NonZeroUsize, thread};

use serde::{Deserialize, Serialize};

use crate::Profile;

/// Section `runtime`.
#[derive(Debug, Clone, Serialize, Deserialize, garde::Validate)]
#[serde(deny_unknown_fields, default)]
pub struct RuntimeConfig {
    /// `latency`, the default, or `throughput`: the values of settings, in all sections, that are set nowhere else.
    #[garde(skip)]
    pub profile: Profile,
    /// How many threads work on requests and writes; by default as many as there are cores. Clients of Kafka have threads of their own.
    #[garde(range(min = 1, max = 1_024))]
    pub worker_threads: usize,
    /// How long a stop may take before unfinished work is dropped.
    #[garde(range(min = 1, max = 600_000))]
    pub shutdown_deadline_ms: u64,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            worker_threads: thread::available_parallelism().map_or(1, NonZeroUsize::get),
            shutdown_deadline_ms: 10_000,
        }
    }
}

impl RuntimeConfig {
    /// The runtime of a process in which services run.
    ///
    /// # Errors
    /// If the system has no threads to spare.
    pub fn build(&self) -> io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.worker_threads)
            .enable_all()
            .build()
    }
}

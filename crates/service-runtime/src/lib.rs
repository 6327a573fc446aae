#![doc = include_str!("../README.md")]

mod bind;
pub mod config;
mod follow;
mod health;
mod metrics;
mod middleware;
mod openapi;
mod probes;
mod process;
mod serve;
mod shutdown;
mod supervisor;
pub mod telemetry;

pub use bind::{BindError, HttpConfig, bind_listener};
pub use config::{ConfigArgs, ConfigError, ConfigSource, Secret, ValueError};
pub use health::{Gate, GateStatus, Health, Readiness};
pub use metrics::MetricsHandle;
pub use middleware::middleware;
pub use openapi::{described, without_calls};
pub use probes::health_router;
pub use process::{Process, RuntimeConfig, exit_code, main_with, report, run_service};
pub use serve::serve;
pub use shutdown::{Shutdown, Signals};
pub use supervisor::{Supervisor, WorkerFailed};

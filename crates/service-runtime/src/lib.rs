#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod allocator;
mod answers;
mod bind;
mod causes;
pub mod config;
mod cors;
mod health;
mod limited_reads;
mod list_headers;
mod listener_policy;
mod metrics;
mod middleware;
mod openapi;
mod own_hosts;
mod places;
mod poll;
mod probes;
mod process;
mod request_heads;
mod runtime;
mod serve;
mod shutdown;
mod supervisor;
pub mod telemetry;
mod text;
mod tls;
mod watched_stream;

pub use bind::{BindError, HttpConfig, Listener, bind_listener};
pub use causes::with_causes;
pub use config::{ConfigArgs, ConfigError, ConfigSource, Profile, Secret, ValueError};
pub use cors::allow_origins;
pub use health::{CheckStatus, Health, Readiness, ReadinessCheck};
pub use listener_policy::ListenerPolicy;
pub use metrics::MetricsHandle;
pub use middleware::middleware;
pub use openapi::{described, without_calls};
pub use probes::{health_router, metrics_router};
pub use process::{Process, exit_code, run_service};
pub use runtime::RuntimeConfig;
pub use serve::serve;
pub use shutdown::{Shutdown, Signals};
pub use supervisor::{Supervisor, WorkerFailed};
pub use text::{secret_in, without_mark};
pub use tls::{TlsConfig, TlsError, check_certificates, install_crypto_provider};

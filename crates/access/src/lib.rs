#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod access;
mod caller;
mod config;
mod description;
mod guard;
mod key_set;
mod limits;
mod listener_policy;
mod metrics;
mod quota;
mod refusal;
mod reloaded_file;
mod remote_keys;
mod service_key;
mod service_keys;
mod source_status;
#[cfg(feature = "test-issuer")]
pub mod test_issuer;
mod token;
mod verifier;
mod wait_queue;

pub use access::Access;
pub use caller::{Caller, Scope, Service, ValidUntil};
pub use config::{Algorithm, AuthConfig, IssuerConfig, LimitConfig};
pub use quota::{CallerQuota, QuotaPermit};
pub use refusal::Refusal;
pub use service_key::ServiceKey;
pub use service_keys::{KeyEntry, ServiceKeys};
pub use verifier::Verifier;

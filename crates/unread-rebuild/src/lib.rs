#![doc = include_str!("../README.md")]

mod backoff;
mod barrier;
mod batch;
mod config;
mod counts;
mod error;
mod queue;
mod rebuilder;
mod shadow;
mod single_flight;
mod worker;

pub use config::RebuildConfig;
pub use counts::ContactCounts;
pub use error::UnreadRebuildError;
pub use queue::RebuildQueue;
pub use rebuilder::Rebuilder;
pub use shadow::{ShadowRebuild, ShadowRows};

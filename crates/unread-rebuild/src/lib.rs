#![doc = include_str!("../README.md")]

mod barrier;
mod config;
mod counts;
mod error;
mod flights;
mod patience;
mod queue;
mod rebuilder;
mod round;
mod worker;

pub use config::RebuildConfig;
pub use counts::ContactCounts;
pub use error::RebuildError;
pub use queue::RebuildQueue;
pub use rebuilder::Rebuilder;

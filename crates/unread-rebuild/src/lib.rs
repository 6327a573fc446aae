#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod anew;
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

pub use anew::{Anew, AnewRows};
pub use config::RebuildConfig;
pub use counts::ContactCounts;
pub use error::UnreadRebuildError;
pub use queue::RebuildQueue;
pub use rebuilder::Rebuilder;

#![doc = include_str!("../README.md")]

mod build;
mod error;
mod plan;
mod progress;
mod tables;
mod tools;
mod unread;

pub use error::RebuildError;
pub use progress::{Progress, Rebuilt};
pub use tables::tables;
pub use tools::Tools;
pub use unread::unread;

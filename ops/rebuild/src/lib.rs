#![doc = include_str!("../README.md")]

mod build;
mod context;
mod error;
mod fill;
mod plan;
mod progress;
mod tables;
mod unread;

pub use context::Context;
pub use error::RebuildError;
pub use fill::{fill, fill_slice};
pub use progress::{Progress, Rebuilt};
pub use tables::tables;
pub use unread::unread;

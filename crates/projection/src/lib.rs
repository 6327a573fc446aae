#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod brokers;
mod conductor;
mod dead_letters;
mod fetch;
mod lag;
mod lane;
mod look_back;
mod projection;
mod reading;
mod replay;
mod sink;
mod witness;

pub use projection::{ProjectionError, Settings, run};
pub use replay::{Replay, ReplayError};
pub use sink::{Coverage, LogEvent, Sink, SinkError, Slice};

#![doc = include_str!("../README.md")]

mod conductor;
mod dead_letters;
mod fetch;
mod lag;
mod lane;
mod sink;

pub use conductor::{ProjectionError, Settings, Status, run};
pub use sink::{LogEvent, Position, Sink, SinkError, Slice};

#![doc = include_str!("../README.md")]

mod brokers;
mod conductor;
mod dead_letters;
mod fetch;
mod lag;
mod lane;
mod reading;
mod sink;

pub use conductor::{ProjectionError, Settings, Status, run};
pub use sink::{Coverage, LogEvent, Position, Sink, SinkError, Slice};

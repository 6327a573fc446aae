#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod brokers;
mod coordinator;
mod dead_letters;
mod fetch_loop;
mod lag;
mod open_batch;
mod projection;
mod replay;
mod sink;
mod truncation_check;
mod worker;

pub use projection::{ProjectionError, Settings, run};
pub use replay::{Replay, ReplayError};
pub use sink::{Coverage, EventBatch, LogEvent, Sink, SinkError};

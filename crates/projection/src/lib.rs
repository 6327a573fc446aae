#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod brokers;
mod channels;
mod coordinator;
mod dead_letters;
mod error;
mod fetch_loop;
mod lag;
mod open_batch;
mod projection;
mod replay;
mod settings;
mod sink;
mod truncation_check;
mod worker;

pub use error::ProjectionError;
pub use projection::run;
pub use replay::{Replay, ReplayError};
pub use settings::Settings;
pub use sink::{Coverage, EventBatch, LogEvent, Sink, SinkError};

#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod brokers;
mod catch_up;
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

pub use catch_up::catch_up;
pub use error::ProjectionError;
pub use projection::run;
pub use replay::{Replay, ReplayError};
pub use settings::Settings;
pub use sink::{Coverage, EventBatch, LogEvent, Sink, SinkError};

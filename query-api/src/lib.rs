#![doc = include_str!("../README.md")]

mod after;
mod call;
mod call_slot;
mod config;
mod conversation_item;
mod counts;
mod cursor;
mod deadline;
mod epoch;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod inbound;
mod large_reads;
mod limits;
mod listed_group;
mod message_item;
mod newest_groups;
mod openapi;
mod parameters;
mod profiles;
mod readiness;
mod redis_fallback;
mod routes;
mod service;
mod shared_polling;
mod sink_watermarks;
mod snapshot;
mod stalls;
mod state;
mod sync_rows;
mod view;

pub use config::{Config, QueryApiConfig};
pub use service::{serve, start};

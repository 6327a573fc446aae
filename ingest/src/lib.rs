#![doc = include_str!("../README.md")]

mod accepted;
mod batch;
mod body;
mod config;
mod inbound;
mod json;
mod media;
mod metrics;
mod openapi;
mod posted;
mod protobuf;
mod readiness;
mod room;
mod routes;
mod service;
mod single;

#[doc(hidden)]
pub use batch::{fuzzing, measured};
pub use config::{Config, IngestConfig};
pub use service::{serve, start};

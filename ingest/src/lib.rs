#![doc = include_str!("../README.md")]

mod batch;
mod body;
mod config;
mod json;
mod media;
mod openapi;
mod parameters;
mod protobuf;
mod responses;
mod routes;
mod service;
mod single;
mod state;

#[doc(hidden)]
pub use batch::{fuzzing, measured};
pub use config::Config;
pub use service::{serve, start};

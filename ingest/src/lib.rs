#![doc = include_str!("../README.md")]

mod account;
mod added_by;
mod batch;
mod body;
mod byte_budget;
mod config;
mod fair_pool;
mod inbound;
mod json;
mod media;
mod metrics;
mod openapi;
mod parameters;
mod plain_json;
mod post;
mod protobuf;
mod readiness;
mod responses;
mod routes;
mod service;
mod single;
mod state;
mod words;

#[doc(hidden)]
pub use batch::{fuzzing, measured};
pub use config::{AddedBy, Config, GroupsConfig, IngestConfig};
pub use service::{Poster, serve, start};
pub use words::check_dictionary;

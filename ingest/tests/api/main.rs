//! Ingest over real HTTP on a real Kafka.

#![expect(
    clippy::unwrap_used,
    reason = "a test that finds something else has failed"
)]

mod added_by;
mod batches;
mod callers;
mod changes;
mod expect;
mod greedy;
mod groups;
mod ids;
mod kafka_away;
mod limits;
mod log;
mod profiles;
mod raw_http;
mod server;
mod singles;
mod slow_clients;
mod stop;
mod words;

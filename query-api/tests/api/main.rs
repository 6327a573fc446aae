//! The query API against real servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod callers;
mod changes;
mod chat;
mod client_calls;
mod conversations;
mod deployment;
mod device_vectors;
mod group;
mod groups;
mod groups_of_user;
mod inbound;
mod list_with_groups;
mod messages;
mod profiles;
mod redis;
mod service;
mod surface;
mod sync;
mod sync_device;
mod sync_log;
mod unread;

#![doc = include_str!("../README.md")]

mod account;
mod added_by;
mod byte_budget;
mod config;
mod fair_pool;
mod inbound;
mod metrics;
mod plain_json;
mod post;
mod poster;
mod readiness;
mod refusals;
mod words;

pub use byte_budget::{AccountBudget, ByteBudget, BytePermit};
pub use config::{AddedBy, Config, GroupsConfig, IngestConfig};
pub use fair_pool::{FairPool, Full, PoolPermit};
pub use inbound::{InboundRecord, producer_settings};
pub use metrics::PostMetrics;
pub use post::{MadeId, Post, RetryId, check_length, invalid_field};
pub use poster::{NotAdmitted, Poster, watch_producer};
pub use refusals::{not_appended, over_capacity, stopping, unknown_outcome};
pub use words::{check_dictionary, read_filter};

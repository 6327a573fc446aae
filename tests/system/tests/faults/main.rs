//! One fault a file, or one loss; each test has servers of its own. See the crate's README.

mod applied_once;
mod broker_fenced;
mod brokers_of_three;
mod epoch_raised;
mod events_deleted;
mod events_went_back;
mod gateways;
mod history;
mod inbound_went_back;
mod kafka_away;
mod killed_services;
mod lost_tail;
mod mariadb_away;
mod mariadb_of_two;
mod months;
mod others_lose;
mod poison;
mod rebuild;
mod recalls;
mod records_lost;
mod redis_cluster;
mod redis_flushed;
mod sql;
mod stalled;
mod two_instances;
mod watermarks_lost;

//! One theme a file; see the crate's README.

mod alerts;
mod batches;
mod broker_fenced;
mod command_line;
mod contents;
mod dead_letters;
mod kafka_away;
mod killed_services;
mod mariadb_away;
mod one_id;
mod one_process;
mod poison;
mod real_input;
mod records_lost;
mod redis_flushed;
mod story;
mod two_instances;

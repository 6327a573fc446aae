//! One theme a file; nothing that others need is broken here. See the crate's README.

mod alerts;
mod authentication;
mod batches;
mod command_line;
mod connect;
mod contents;
mod costs;
mod dead_letters;
mod described;
mod groups;
mod hostile;
mod one_id;
mod one_process;
mod read_positions;
mod real_input;
mod scenario;
mod story;
mod token_ahead;

#![doc = include_str!("../README.md")]

// The `print!` and `println!` of this module replace the standard ones in the whole program.
#[macro_use]
mod output;

mod answers;
mod args;
mod change_args;
mod client_config;
mod commands;
mod context;
mod credentials;
mod decided;
mod decoder;
mod failure;
mod group_args;
mod input;
mod key_args;
mod last_audit;
mod listener_check;
mod log_point;
mod read_mid;
mod times;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::of_this_process();
    match commands::run(args) {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}

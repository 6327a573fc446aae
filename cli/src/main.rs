#![doc = include_str!("../README.md")]

// Its `print!` and `println!` are those of the whole program.
#[macro_use]
mod output;

mod args;
mod client;
mod client_config;
mod commands;
mod credentials;
mod decoder;
mod failure;
mod handles;
mod input;
mod key_args;
mod last_audit;
mod listeners;
mod posting;
mod stages;
mod times;
mod up_to;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match commands::run(args) {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}

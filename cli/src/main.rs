#![doc = include_str!("../README.md")]

mod args;
mod client;
mod client_config;
mod commands;
mod failure;
mod handles;
mod input;
mod output;
mod posting;
mod stages;
mod times;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match commands::run(args) {
        Ok(code) => code,
        Err(error) => failure::report(&error),
    }
}

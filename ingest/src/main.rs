//! `tidemark-ingest`: the ingest service as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with("tidemark-ingest", env!("CARGO_PKG_VERSION"), ingest::serve)
}

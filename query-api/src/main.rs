//! `tidemark-query-api`: the query service as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-query-api",
        env!("CARGO_PKG_VERSION"),
        query_api::serve,
    )
}

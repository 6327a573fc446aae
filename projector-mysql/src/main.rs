//! `tidemark-projector-mysql`: the MySQL projections as a process of their own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-projector-mysql",
        env!("CARGO_PKG_VERSION"),
        projector_mysql::serve,
    )
}

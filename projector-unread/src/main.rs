//! `tidemark-projector-unread`: the Redis projection as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-projector-unread",
        env!("CARGO_PKG_VERSION"),
        projector_unread::serve,
    )
}

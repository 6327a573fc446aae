//! `tidemark-sequencer`: the sequencer as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-sequencer",
        env!("CARGO_PKG_VERSION"),
        sequencer::serve,
    )
}

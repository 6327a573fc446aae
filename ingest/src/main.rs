//! `tidemark-ingest`: the ingest service as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-ingest",
        env!("CARGO_PKG_VERSION"),
        async |process| {
            let config = process.configure(ingest::Config::load)?;
            let listen = config.ingest.listen;
            let api = ingest::start(config, process.supervisor(), process.health()).await?;
            process.listen("ingest.listen", listen, api).await?;
            Ok(())
        },
    )
}

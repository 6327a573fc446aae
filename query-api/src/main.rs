//! `tidemark-query-api`: the query service as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-query-api",
        env!("CARGO_PKG_VERSION"),
        async |process| {
            let config = process.configure(query_api::Config::load)?;
            let listen = config.query_api.listen;
            let api = query_api::start(config, process.supervisor(), process.health()).await?;
            process.listen("query_api.listen", listen, api).await?;
            Ok(())
        },
    )
}

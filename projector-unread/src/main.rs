//! `tidemark-projector-unread`: the Redis projection as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-projector-unread",
        env!("CARGO_PKG_VERSION"),
        async |process| {
            let config = process.configure(projector_unread::Config::load)?;
            let bind = config.projector_unread.bind;
            let api =
                projector_unread::start(config, process.supervisor(), process.health()).await?;
            process.listen("projector_unread.bind", bind, api).await?;
            Ok(())
        },
    )
}

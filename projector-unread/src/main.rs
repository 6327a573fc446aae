//! `tidemark-projector-unread`: the Redis projection as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-projector-unread",
        env!("CARGO_PKG_VERSION"),
        async |process| {
            let config = process.configure(projector_unread::Config::load)?;
            let listen = config.projector_unread.listen;
            let api =
                projector_unread::start(config, process.supervisor(), process.health()).await?;
            process
                .listen("projector_unread.listen", listen, api)
                .await?;
            Ok(())
        },
    )
}

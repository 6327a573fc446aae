//! `tidemark-projector-mysql`: the MySQL projections as a process of their own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with(
        "tidemark-projector-mysql",
        env!("CARGO_PKG_VERSION"),
        async |process| {
            let config = process.configure(projector_mysql::Config::load)?;
            let listen = config.projector_mysql.listen;
            let api =
                projector_mysql::start(config, process.supervisor(), process.health()).await?;
            process
                .listen("projector_mysql.listen", listen, api)
                .await?;
            Ok(())
        },
    )
}

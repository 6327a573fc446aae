//! The sequencer as a process of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    service_runtime::main_with("sequencer", env!("CARGO_PKG_VERSION"), async |process| {
        let config = process.configure(sequencer::Config::load)?;
        let listen = config.sequencer.listen;
        let api = sequencer::start(config, process.supervisor(), process.health()).await?;
        process.listen("sequencer.listen", listen, api).await?;
        Ok(())
    })
}

//! A bare server in a process of its own: this program again, which ends when the value is dropped.

use std::{net::TcpListener, process::Stdio};

use anyhow::{Context as _, Result};
use system_tests::until;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
};

/// The server's name among the processes.
pub(crate) const BARE: &str = "bare axum";

/// A server that listens.
pub(crate) struct BareServer {
    pub(crate) port: u16,
    pub(crate) pid: u32,
    _process: Child,
}

impl BareServer {
    /// Starts one of this program's hidden commands, with these arguments and a port.
    ///
    /// # Errors
    /// If the server does not listen in time.
    pub(crate) async fn start(command: &str, args: &[&str]) -> Result<Self> {
        // A free port that is released is not assigned again soon.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let process = Command::new(std::env::current_exe()?)
            .arg(command)
            .args(["--port", &port.to_string()])
            .args(args)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let listens = async || match TcpStream::connect(("127.0.0.1", port)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        until("the bare server", listens).await?;
        let pid = process.id().context("the bare server has ended")?;
        Ok(Self {
            port,
            pid,
            _process: process,
        })
    }
}

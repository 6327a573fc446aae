//! Graceful shutdown in two stages: soft at the signal, hard at the deadline.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The two stages of stopping, shared by all workers of a process.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    soft: CancellationToken,
    hard: CancellationToken,
}

impl Shutdown {
    /// Neither stage has begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when the process should stop: take on nothing new, finish what was taken on.
    pub fn soft(&self) -> &CancellationToken {
        &self.soft
    }

    /// Cancelled when the deadline has passed: drop what is unfinished and return.
    pub fn hard(&self) -> &CancellationToken {
        &self.hard
    }

    /// Begins the soft stage, as a signal would.
    pub fn begin(&self) {
        self.soft.cancel();
    }

    /// Begins the hard stage, and the soft one if it had not begun.
    pub fn force(&self) {
        self.soft.cancel();
        self.hard.cancel();
    }
}

/// Receives SIGINT and SIGTERM, from the moment of its creation.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes over both signals. Needs a running tokio runtime.
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of these signals.
    pub async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

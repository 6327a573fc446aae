//! An ingest of the test's own, as the program runs it.

use std::{net::SocketAddr, sync::mpsc, thread, time::Duration};

use access::Access;
use service_runtime::{ConfigSource, Shutdown, run_service};

use crate::log;

/// Runs until it is dropped.
pub struct Server {
    addr: SocketAddr,
    shutdown: Shutdown,
    thread: Option<thread::JoinHandle<anyhow::Result<()>>>,
}

impl Server {
    /// Starts ingest on the tests' Kafka.
    pub fn start(overrides: &[(&str, &str)]) -> Self {
        let kafka = log::kafka();
        let mut all = vec![
            ("kafka.brokers", kafka.brokers.as_str()),
            ("kafka.prefix", kafka.prefix.as_str()),
        ];
        all.extend(overrides);
        Self::start_apart(&all)
    }

    /// Starts ingest with nothing but these settings and a free port.
    pub fn start_apart(overrides: &[(&str, &str)]) -> Self {
        let all: Vec<(String, String)> = [("ingest.listen", "127.0.0.1:0")]
            .iter()
            .chain(overrides)
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let source = ConfigSource::from_parts(None, [], &all).unwrap();
        let (started, starting) = mpsc::channel();
        // A runtime of its own, so that nothing of a test can hold it up.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new()?;
            let ended = runtime.block_on(run_service("ingest", "test", source, async |process| {
                let config = process.configure(ingest::Config::load)?;
                let listen = config.ingest.listen;
                let (supervisor, health) = (process.supervisor(), process.health());
                let access = Access::start(&config.auth, supervisor)?;
                let api = ingest::start(config, &access, supervisor, health).await?;
                let addr = process
                    .listen_with(&access, "ingest.listen", listen, api, None)
                    .await?;
                started.send((addr, process.supervisor().shutdown()))?;
                Ok(())
            }));
            runtime.shutdown_timeout(Duration::from_secs(1));
            ended
        });
        let (addr, shutdown) = starting.recv().expect("ingest starts");
        Self {
            addr,
            shutdown,
            thread: Some(thread),
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Begins a stop as a signal would.
    pub fn begin_stop(&self) {
        self.shutdown.begin();
    }

    /// Waits for the end; how the process would have ended.
    pub fn join(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        match self.thread.take() {
            Some(thread) => thread.join().expect("ingest does not panic"),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The tests that stop a server wait for what is under way; here nothing more is asked of it.
        self.shutdown.force();
        let ended = self.end();
        if !thread::panicking() {
            ended.expect("ingest ends well");
        }
    }
}

/// Waits for something that is about to be so.
pub async fn wait_until(what: &str, condition: impl AsyncFn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !condition().await {
        assert!(
            tokio::time::Instant::now() < deadline,
            "not in time: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

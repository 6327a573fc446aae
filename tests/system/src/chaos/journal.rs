//! The records of a failed run: what was done and when, beside the logs, and the topics themselves.

use std::{cell::RefCell, fs::File, io::Write as _, time::Instant};

use anyhow::{Context as _, Result};

use crate::TestEnv;

const TOPICS: [&str; 3] = ["inbound", "events", "dead-letters"];

/// Prints lines and writes them to a file.
pub(super) struct Journal<'a, S> {
    env: &'a TestEnv,
    print: S,
    begun: Instant,
    file: RefCell<File>,
}

impl<'a, S: Fn(&str)> Journal<'a, S> {
    pub(super) fn new(env: &'a TestEnv, print: S) -> Result<Self> {
        let file = File::create(env.log_file("chaos")).context("a journal")?;
        Ok(Self {
            env,
            print,
            begun: Instant::now(),
            file: file.into(),
        })
    }

    pub(super) fn log(&self, line: &str) {
        (self.print)(line);
        let at = self.begun.elapsed().as_secs_f64();
        if let Err(error) = writeln!(self.file.borrow_mut(), "{at:8.1} {line}") {
            (self.print)(&format!("the journal has a gap: {error}"));
        }
    }

    /// Writes every record of the topics into files beside the logs, as `tidemark tail --json` shows them.
    pub(super) async fn keep_topics(&self) {
        for topic in TOPICS {
            let args = ["tail", topic, "--from", "earliest", "--no-follow", "--json"];
            let kept = async {
                let tail = self.env.tidemark(&args).await?.expect(0)?;
                let path = self.env.log_file(topic);
                std::fs::write(path, tail.stdout).context("writing it")
            };
            if let Err(error) = kept.await {
                self.log(&format!("{topic} is not kept: {error:#}"));
            }
        }
    }
}

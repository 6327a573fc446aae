//! Pipelined HINCRBY: the cost of counting unread messages without regard to repeats, order or absent users.

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use anyhow::{Result, ensure};

/// How many messages a pipeline has, with two commands each.
const MESSAGES: usize = 100;
/// How many pipelines are sent ahead, so that Redis never waits for the client.
const IN_FLIGHT: usize = 8;

/// A connection.
pub(crate) struct Counter {
    commands: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Counter {
    /// Connects.
    ///
    /// # Errors
    /// If no server listens on the port.
    pub(crate) fn connect(port: u16) -> Result<Self> {
        let commands = TcpStream::connect(("127.0.0.1", port))?;
        commands.set_nodelay(true)?;
        let answers = BufReader::with_capacity(1 << 16, commands.try_clone()?);
        Ok(Self { commands, answers })
    }

    /// Counts each message (sender, receiver) for both device classes: `HINCRBY <class>-<to> <from> 1`.
    ///
    /// # Errors
    /// If Redis refuses.
    pub(crate) fn count(&mut self, messages: &[(i64, i64)]) -> Result<()> {
        let mut commands = Vec::new();
        let mut awaited = VecDeque::new();
        for pipeline in messages.chunks(MESSAGES) {
            commands.clear();
            for (from, to) in pipeline {
                write_commands(&mut commands, *from, *to);
            }
            self.commands.write_all(&commands)?;
            awaited.push_back(2 * pipeline.len());
            if awaited.len() > IN_FLIGHT {
                self.take_answers(awaited.pop_front().unwrap_or_default())?;
            }
        }
        self.take_answers(awaited.into_iter().sum())
    }

    fn take_answers(&mut self, count: usize) -> Result<()> {
        let mut answer = Vec::new();
        for _ in 0..count {
            answer.clear();
            self.answers.read_until(b'\n', &mut answer)?;
            ensure!(
                answer.starts_with(b":"),
                "Redis says {}",
                String::from_utf8_lossy(&answer)
            );
        }
        Ok(())
    }
}

fn write_commands(commands: &mut Vec<u8>, from: i64, to: i64) {
    let field = from.to_string();
    for class in ["pc", "mobile"] {
        let key = format!("raw-{class}-{to}");
        let (key_len, field_len) = (key.len(), field.len());
        // Writing to a vector does not fail.
        let _ = write!(
            commands,
            "*4\r\n$7\r\nHINCRBY\r\n${key_len}\r\n{key}\r\n${field_len}\r\n{field}\r\n$1\r\n1\r\n"
        );
    }
}

//! Redis as `redis-cli` shows it: a few commands in its own protocol, without a client of ours.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::until;

/// The Redis of an environment.
#[derive(Clone, Copy, Debug)]
pub struct Redis {
    pub(crate) port: u16,
}

impl Redis {
    /// Its address, as the configuration has it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// `HGETALL`; empty if there is no such key.
    ///
    /// # Errors
    /// If Redis does not answer, or the key is not a hash.
    pub async fn hgetall(self, key: &str) -> Result<BTreeMap<String, String>> {
        let parts = self.command(&["HGETALL", key]).await?;
        let pairs = parts.chunks_exact(2);
        Ok(pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect())
    }

    /// A command whose answer is one number, as text: `PTTL`, `EXISTS`.
    ///
    /// # Errors
    /// If Redis does not answer, or answers with an error.
    pub async fn number(self, command: &[&str]) -> Result<i64> {
        let answer = self.command(command).await?;
        let number = answer.first().context("an empty answer")?;
        Ok(number.parse()?)
    }

    /// `FLUSHALL`.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn flush_all(self) -> Result<()> {
        let answer = self.command(&["FLUSHALL"]).await?;
        ensure!(answer == ["OK"], "FLUSHALL: {answer:?}");
        Ok(())
    }

    /// The port of the server.
    #[must_use]
    pub fn port(self) -> u16 {
        self.port
    }

    /// Makes this server a replica of another Redis.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn replicate(self, primary: Self) -> Result<()> {
        self.follow("127.0.0.1", &primary.port.to_string()).await
    }

    /// Makes this server a primary.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn replicate_nobody(self) -> Result<()> {
        self.follow("NO", "ONE").await
    }

    /// The server's replication state: `role:master`, `master_link_status:up`.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn replication(self) -> Result<String> {
        Ok(self.command(&["INFO", "replication"]).await?.concat())
    }

    /// Waits until the server's replication state has this text.
    ///
    /// # Errors
    /// If it has not in time.
    pub async fn until_replication(self, wanted: &str) -> Result<()> {
        let port = self.port;
        until(
            &format!("{wanted} of the Redis on port {port}"),
            async || match self.replication().await {
                Ok(info) if info.contains(wanted) => Ok(()),
                Ok(info) => Err(info),
                Err(error) => Err(format!("{error:#}")),
            },
        )
        .await
    }

    /// Breaks a replica's connection to its master: the replica lags from now on, until [`Redis::allow_replication`].
    ///
    /// # Errors
    /// If the server does not answer, or does not lose the connection in time.
    pub async fn stop_replication(self) -> Result<()> {
        let no_password = ["CONFIG", "SET", "masterauth", "not-wanted"];
        self.command(&no_password).await?;
        self.command(&["CLIENT", "KILL", "TYPE", "master"]).await?;
        self.until_replication("master_link_status:down").await
    }

    /// Undoes [`Redis::stop_replication`], as a restart would.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn allow_replication(self) -> Result<()> {
        self.command(&["CONFIG", "SET", "masterauth", ""]).await?;
        Ok(())
    }

    async fn follow(self, host: &str, port: &str) -> Result<()> {
        let answer = self.command(&["REPLICAOF", host, port]).await?;
        let first = answer.first().map_or("", String::as_str);
        ensure!(first.starts_with("OK"), "REPLICAOF: {answer:?}");
        Ok(())
    }

    /// The answer's strings: the elements of an array, or a single string.
    ///
    /// # Errors
    /// If Redis does not answer, or answers with an error.
    pub async fn command(self, words: &[&str]) -> Result<Vec<String>> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await;
        let mut stream = BufReader::new(stream.context("Redis cannot be reached")?);
        stream.write_all(request.as_bytes()).await?;
        let (kind, text) = read_line(&mut stream).await?;
        if kind != '*' {
            return Ok(vec![read_rest(&mut stream, kind, text).await?]);
        }
        let mut elements = Vec::new();
        for _ in 0..text.parse::<usize>()? {
            let (kind, text) = read_line(&mut stream).await?;
            elements.push(read_rest(&mut stream, kind, text).await?);
        }
        Ok(elements)
    }
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> Result<(char, String)> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let kind = line.chars().next().context("Redis hung up")?;
    Ok((kind, line[1..].trim_end().to_owned()))
}

/// Reads the rest of an answer after a line: a bulk string follows its length.
async fn read_rest(stream: &mut BufReader<TcpStream>, kind: char, text: String) -> Result<String> {
    match kind {
        '+' | ':' => Ok(text),
        '$' => {
            let mut bytes = vec![0; text.parse::<usize>()? + "\r\n".len()];
            stream.read_exact(&mut bytes).await?;
            bytes.truncate(bytes.len() - "\r\n".len());
            Ok(String::from_utf8(bytes)?)
        }
        _ => bail!("Redis says {kind}{text}"),
    }
}

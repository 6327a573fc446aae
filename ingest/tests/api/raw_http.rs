//! A client that decides itself when it writes and when it reads.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde::Deserialize as _;
use serde_json::Value;

/// One request on a connection of its own.
pub struct RawRequest {
    stream: TcpStream,
}

/// The answer to it, read as it comes.
pub struct RawAnswer {
    reader: BufReader<TcpStream>,
    /// The status code.
    pub status: u16,
    is_chunked: bool,
    /// Whether it says that it is the last one on its connection.
    pub closes: bool,
    /// Bytes of the body that were read and not yet asked for.
    ahead: Vec<u8>,
    is_over: bool,
}

impl RawRequest {
    /// Sends the head of a batch whose body comes in chunks.
    pub fn batch(addr: SocketAddr) -> Self {
        Self::head(
            addr,
            "POST /v1/events HTTP/1.1\r\nhost: t\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
        )
    }

    /// Sends a head as it is.
    pub fn head(addr: SocketAddr, head: &str) -> Self {
        let mut stream = TcpStream::connect(addr).unwrap();
        // No test hangs: what does not come in time fails it.
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
            .set_write_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        Self { stream }
    }

    /// Sends one chunk.
    pub fn send(&mut self, chunk: &[u8]) {
        self.try_send(chunk).unwrap();
    }

    /// Sends one chunk, or learns that the server has hung up.
    pub fn try_send(&mut self, chunk: &[u8]) -> std::io::Result<()> {
        write!(self.stream, "{:x}\r\n", chunk.len())?;
        self.stream.write_all(chunk)?;
        self.stream.write_all(b"\r\n")
    }

    /// Sends chunks until the server has read nothing for a second, or has hung up.
    pub fn send_until_nothing_is_read(&mut self, chunk: &[u8]) {
        let second = Some(Duration::from_secs(1));
        self.stream.set_write_timeout(second).unwrap();
        while self.try_send(chunk).is_ok() {}
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Ends the body.
    pub fn end(&mut self) {
        self.stream.write_all(b"0\r\n\r\n").unwrap();
    }

    /// Reads the head of the answer; the body may still be written.
    pub fn answer(&self) -> RawAnswer {
        let mut reader = BufReader::new(self.stream.try_clone().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let (mut is_chunked, mut closes) = (false, false);
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            match line.trim().to_ascii_lowercase().as_str() {
                "" => break,
                "transfer-encoding: chunked" => is_chunked = true,
                "connection: close" => closes = true,
                _ => {}
            }
        }
        RawAnswer {
            reader,
            status,
            is_chunked,
            closes,
            ahead: Vec::new(),
            is_over: false,
        }
    }
}

impl RawAnswer {
    /// The next line of the body; `None` at its end.
    pub fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.ahead.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            if self.is_over {
                assert!(self.ahead.is_empty(), "the last line is whole");
                return None;
            }
            self.read_chunk();
        }
    }

    /// All lines up to the end.
    pub fn lines(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.line()).collect()
    }

    /// The body of an answer that is one problem.
    pub fn problem(self) -> Value {
        Value::deserialize(&mut serde_json::Deserializer::from_reader(self.reader)).unwrap()
    }

    fn read_chunk(&mut self) {
        assert!(self.is_chunked, "only streams are read by the line");
        let mut size = String::new();
        self.reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).expect("the answer is not broken off");
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        self.ahead.extend_from_slice(&chunk[..size]);
        self.is_over = size == 0;
    }
}

//! A WebSocket connection to a server on this machine that costs the client little: one buffer, no masking, and no frames except text, ping and
//! close.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Buf as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// The servers here do not answer a handshake with more.
const MAX_HEAD_BYTES: usize = 4_096;

/// A client's end of a WebSocket.
pub(crate) struct Socket {
    stream: TcpStream,
    /// Bytes that have come and are not read yet. The buffer takes no memory while none come.
    buffer: BytesMut,
}

impl Socket {
    /// Connects.
    ///
    /// # Errors
    /// If no server listens, or the server does not upgrade.
    pub(crate) async fn open(port: u16, path: &str) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let mut socket = Self {
            stream,
            buffer: BytesMut::new(),
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: tidemark.v1.json\r\n\r\n"
        );
        socket.stream.write_all(request.as_bytes()).await?;
        socket.read_head().await?;
        Ok(socket)
    }

    async fn read_head(&mut self) -> Result<()> {
        loop {
            let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let head = self.buffer.split_to(end + 4);
                let status = String::from_utf8_lossy(&head);
                let status = status.lines().next().unwrap_or_default();
                ensure!(status.starts_with("HTTP/1.1 101"), "no upgrade: {status}");
                return Ok(());
            }
            ensure!(self.buffer.len() < MAX_HEAD_BYTES, "no end of the headers");
            self.fill().await?;
        }
    }

    /// Sends a text frame. The mask is zero, so that it leaves the text unchanged.
    ///
    /// # Errors
    /// If the connection is gone.
    pub(crate) async fn send(&mut self, text: &str) -> Result<()> {
        self.write(TEXT, text.as_bytes()).await
    }

    async fn write(&mut self, opcode: u8, payload: &[u8]) -> Result<()> {
        let mut frame = Vec::with_capacity(payload.len() + 8);
        frame.push(FIN | opcode);
        match u8::try_from(payload.len()) {
            Ok(short @ ..=125) => frame.push(MASKED | short),
            _ => {
                frame.push(MASKED | 126);
                let length = u16::try_from(payload.len()).context("a frame is too long")?;
                frame.extend_from_slice(&length.to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        Ok(self.stream.write_all(&frame).await?)
    }

    /// The next text frame. If the call is dropped before it returns, nothing is lost.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn next(&mut self) -> Result<Bytes> {
        loop {
            while let Some((opcode, payload)) = self.take_frame()? {
                match opcode {
                    TEXT => return Ok(payload),
                    PING => self.write(PONG, &payload).await?,
                    CLOSE => bail!("closed: {:?}", payload.slice(2.min(payload.len())..)),
                    other => bail!("a frame of kind {other}"),
                }
            }
            if self.buffer.is_empty() {
                self.buffer = BytesMut::new();
                self.stream.readable().await?;
            }
            self.fill().await?;
        }
    }

    /// Takes the first frame out of the buffer, if the frame is complete.
    fn take_frame(&mut self) -> Result<Option<(u8, Bytes)>> {
        let [first, second, rest @ ..] = &*self.buffer else {
            return Ok(None);
        };
        ensure!(first & FIN != 0 && second & MASKED == 0, "a frame in parts");
        let opcode = first & 0x0f;
        let (header, length) = match (second, rest) {
            (126, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
            (126, _) => return Ok(None),
            (127, _) => bail!("a frame of more than 64 KiB"),
            (length, _) => (2, usize::from(*length)),
        };
        if self.buffer.len() < header + length {
            return Ok(None);
        }
        self.buffer.advance(header);
        Ok(Some((opcode, self.buffer.split_to(length).freeze())))
    }

    async fn fill(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the server has ended the connection");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        Router,
        extract::{WebSocketUpgrade, ws::Message},
        routing::get,
    };
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn frames_of_all_lengths_go_both_ways() {
        let echo = |upgrade: WebSocketUpgrade| async {
            upgrade.on_upgrade(|mut socket| async move {
                socket.send(Message::Ping("x".into())).await.unwrap();
                while let Some(Ok(message)) = socket.recv().await {
                    if let Message::Text(_) = message {
                        socket.send(message).await.unwrap();
                    }
                }
            })
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().route("/echo", get(echo));
        tokio::spawn(async { axum::serve(listener, router).await });
        let mut socket = Socket::open(port, "/echo").await.unwrap();
        for length in [0, 1, 125, 126, 127, 5_000, 65_535] {
            let text = "a".repeat(length);
            socket.send(&text).await.unwrap();
            assert_eq!(socket.next().await.unwrap(), text);
        }
        assert!(Socket::open(port, "/none").await.is_err());
    }
}

//! The frames of WuKongIM's own protocol, version 6, that devices need. A frame has a byte with kind and flags, the length of the rest in groups of
//! seven bits, and fields in big-endian order; texts have two bytes of length.

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const VERSION: u8 = 6;
const CONNECT: u8 = 1;
const CONNACK: u8 = 2;
const SEND: u8 = 3;
const SENDACK: u8 = 4;
const RECV: u8 = 5;
const RECVACK: u8 = 6;
const PONG: u8 = 8;
const DISCONNECT: u8 = 9;
/// A flag of SEND: the message counts as unread.
const RED_DOT: u8 = 2;
/// A flag of CONNACK: the frame begins with the server's version.
const HAS_VERSION: u8 = 1;
/// A setting of SEND: the payload is not encrypted.
const NOT_ENCRYPTED: u8 = 1 << 4;
/// A point of Curve25519, in base64: a session needs a key, although payloads are not encrypted here.
const CLIENT_KEY: &str = "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// The frames that a device sends.
pub(super) enum ToServer<'a> {
    Connect {
        uid: &'a str,
        device: &'a str,
        flag: u8,
    },
    Send {
        number: u32,
        client_msg_no: &'a str,
        channel: &'a str,
        kind: u8,
    },
    RecvAck {
        id: i64,
        seq: i64,
    },
}

/// The frames that a device receives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FromServer {
    ConnAck { reason: u8 },
    SendAck { number: u32, seq: i64, reason: u8 },
    Recv(Received),
    Disconnect,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) id: i64,
    pub(super) seq: i64,
    pub(super) from: String,
    pub(super) channel: String,
    pub(super) kind: u8,
    pub(super) client_msg_no: String,
}

impl ToServer<'_> {
    fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let text = |body: &mut Vec<u8>, text: &str| {
            body.extend((text.len() as u16).to_be_bytes());
            body.extend(text.as_bytes());
        };
        let head = match self {
            Self::Connect { uid, device, flag } => {
                body.extend([VERSION, *flag]);
                text(&mut body, device);
                text(&mut body, uid);
                text(&mut body, "");
                body.extend(0_i64.to_be_bytes());
                text(&mut body, CLIENT_KEY);
                CONNECT << 4
            }
            Self::Send {
                number,
                client_msg_no,
                channel,
                kind,
            } => {
                body.push(NOT_ENCRYPTED);
                body.extend(number.to_be_bytes());
                text(&mut body, client_msg_no);
                text(&mut body, channel);
                body.push(*kind);
                // The message does not expire, and has no key of its own.
                body.extend(0_u32.to_be_bytes());
                text(&mut body, "");
                body.extend(b"hi");
                SEND << 4 | RED_DOT
            }
            Self::RecvAck { id, seq } => {
                body.extend(id.to_be_bytes());
                body.extend(seq.to_be_bytes());
                RECVACK << 4
            }
        };
        let mut frame = vec![head];
        let mut length = body.len();
        while length > 0x7f {
            frame.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        frame.push(length as u8);
        frame.extend(body);
        frame
    }
}

/// The fields of a frame that are still to be read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk().context("a frame is too short")?;
        self.0 = rest;
        Ok(*first)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.take()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    fn text(&mut self) -> Result<String> {
        let length = usize::from(u16::from_be_bytes(self.take()?));
        let (text, rest) = self.0.split_at_checked(length).context("a cut text")?;
        self.0 = rest;
        Ok(String::from_utf8(text.to_vec())?)
    }
}

fn decode(head: u8, body: &[u8]) -> Result<FromServer> {
    let mut fields = Fields(body);
    Ok(match head >> 4 {
        CONNACK => {
            if head & HAS_VERSION != 0 {
                fields.byte()?;
            }
            // The difference between the clocks.
            fields.i64()?;
            FromServer::ConnAck {
                reason: fields.byte()?,
            }
        }
        SENDACK => {
            // The message's id.
            fields.i64()?;
            FromServer::SendAck {
                number: fields.u32()?,
                seq: fields.i64()?,
                reason: fields.byte()?,
            }
        }
        RECV => {
            // Settings and key.
            fields.byte()?;
            fields.text()?;
            let (from, channel, kind) = (fields.text()?, fields.text()?, fields.byte()?);
            // The expiry of the message.
            fields.u32()?;
            FromServer::Recv(Received {
                client_msg_no: fields.text()?,
                id: fields.i64()?,
                seq: fields.i64()?,
                from,
                channel,
                kind,
            })
        }
        DISCONNECT => FromServer::Disconnect,
        _ => FromServer::Other,
    })
}

/// A connection to the TCP listener of WuKongIM.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    pub(super) async fn write(&mut self, frame: &ToServer<'_>) -> Result<()> {
        Ok(self.stream.write_all(&frame.encode()).await?)
    }

    /// The next frame. If the call is dropped before it returns, nothing is lost.
    pub(super) async fn next(&mut self) -> Result<FromServer> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server has closed the connection");
            }
        }
    }

    fn take_frame(&mut self) -> Result<Option<FromServer>> {
        let Some((&head, rest)) = self.buffer.split_first() else {
            return Ok(None);
        };
        if head >> 4 == PONG {
            self.buffer.remove(0);
            return Ok(Some(FromServer::Other));
        }
        let Some(last) = rest.iter().position(|byte| byte & 0x80 == 0) else {
            return Ok(None);
        };
        let groups = rest[..=last].iter().rev();
        let length = groups.fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
        let Some(body) = rest.get(last + 1..last + 1 + length) else {
            return Ok(None);
        };
        let frame = decode(head, body)?;
        self.buffer.drain(..last + 2 + length);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_in_groups_of_seven_bits() {
        let send = |channel: &str| {
            ToServer::Send {
                number: 7,
                client_msg_no: "a",
                channel,
                kind: 1,
            }
            .encode()
        };
        let short = send("b");
        assert_eq!(short[..2], [0x32, short.len() as u8 - 2]);
        let long = send(&"b".repeat(300));
        let length = long.len() - 3;
        assert_eq!(
            long[1..3],
            [(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]
        );
    }

    #[test]
    fn fields_are_read_in_their_order() {
        let body = [&[0; 8][..], &[0, 0, 0, 7], &9_i64.to_be_bytes(), &[1]].concat();
        let expected = FromServer::SendAck {
            number: 7,
            seq: 9,
            reason: 1,
        };
        assert_eq!(decode(SENDACK << 4, &body).unwrap(), expected);
        assert!(decode(SENDACK << 4, &body[..10]).is_err());
    }
}

//! Devices at a gateway: they answer its pings, and hand on the frames that come.

use std::{future::pending, net::Ipv4Addr, pin::pin, sync::Arc};

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use clap::Args;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::{select, task::JoinSet};

use super::socket::Socket;

/// How many devices connect at a time, unless all connect at once.
const CONNECTING: usize = 64;
/// How many addresses of this machine they use: each has some 28,000 ports.
const ADDRESSES: i64 = 8;

/// A device that is connected.
pub(crate) struct Device {
    socket: Socket,
}

impl Device {
    /// Connects as a device of a user, and continues from a token.
    ///
    /// # Errors
    /// If the gateway refuses, or cannot continue from there.
    pub(crate) async fn connect(port: u16, uid: i64, since: &str) -> Result<Self> {
        let path = format!("/v1/connect?uid={uid}");
        let mut socket = Socket::open(source_of(uid), port, &path).await?;
        let device = json!({"id": "bench", "class": "mobile"});
        let hello = json!({"type": "hello", "device": device, "since": since});
        socket.send(&hello.to_string()).await?;
        let answer = socket.next().await?;
        ensure!(
            answer.starts_with(br#"{"type":"welcome","resumed":true"#),
            "not welcomed: {answer:?}"
        );
        Ok(Self { socket })
    }

    /// One device of each user, some at a time, as [`Self::connect`].
    fn connect_each(
        port: u16,
        uids: impl IntoIterator<Item = i64>,
        since: &str,
    ) -> impl Stream<Item = Result<Self>> {
        let connecting = uids
            .into_iter()
            .map(move |uid| Self::connect(port, uid, since));
        stream::iter(connecting).buffer_unordered(CONNECTING)
    }

    /// Connects one device of each user, and returns all of them. Pings are not answered meanwhile.
    ///
    /// # Errors
    /// As [`Self::connect`], of the first that fails.
    pub(crate) async fn connect_all(
        port: u16,
        uids: impl IntoIterator<Item = i64>,
        since: &str,
    ) -> Result<Vec<Self>> {
        Self::connect_each(port, uids, since).try_collect().await
    }

    /// Connects to a server that sends the same frames to all sockets and requires no messages.
    ///
    /// # Errors
    /// If the server refuses a connection.
    pub(crate) async fn listen(port: u16, count: i64, path: &str) -> Result<Vec<Self>> {
        let opening = (0..count).map(async |number| {
            let socket = Socket::open(source_of(number), port, path).await?;
            Ok(Self { socket })
        });
        let opening = stream::iter(opening).buffer_unordered(CONNECTING);
        opening.try_collect().await
    }

    /// The next frame that is not a ping. If the call is dropped before it returns, no frame is lost.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn next(&mut self) -> Result<Bytes> {
        loop {
            let frame = self.socket.next().await?;
            if !frame.starts_with(br#"{"type":"ping""#) {
                return Ok(frame);
            }
            self.socket.send(r#"{"type":"pong"}"#).await?;
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn send(&mut self, frame: &str) -> Result<()> {
        self.socket.send(frame).await
    }

    /// The next event's frame.
    ///
    /// # Errors
    /// If the connection has ended, or a head has come in place of events.
    pub(crate) async fn event(&mut self) -> Result<Bytes> {
        loop {
            let frame = self.next().await?;
            if is_event(&frame)? {
                return Ok(frame);
            }
        }
    }
}

/// Devices that do nothing but answer pings.
#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    #[arg(long)]
    pub(crate) port: u16,
    /// The user of the first; the others follow.
    #[arg(long)]
    pub(crate) first: i64,
    #[arg(long)]
    pub(crate) count: i64,
    #[arg(long)]
    pub(crate) since: String,
}

impl HoldArgs {
    /// The arguments, as on the command line.
    pub(crate) fn to_args(&self) -> [String; 8] {
        let Self {
            port,
            first,
            count,
            since,
        } = self;
        [
            "--port",
            &port.to_string(),
            "--first",
            &first.to_string(),
            "--count",
            &count.to_string(),
            "--since",
            since,
        ]
        .map(str::to_owned)
    }

    /// Says when all devices are connected, and holds them until the process is killed.
    ///
    /// # Errors
    /// If a device is refused, or its connection ends.
    pub(crate) async fn hold(&self) -> Result<()> {
        let uids = self.first..self.first + self.count;
        let mut crowd = Crowd::of_connected([], |_| {});
        let mut connecting = pin!(Device::connect_each(self.port, uids, &self.since));
        while let Some(device) = connecting.try_next().await? {
            crowd.add(device, |_| {});
        }
        println!("connected");
        crowd.during(pending()).await
    }
}

fn source_of(number: i64) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + (number % ADDRESSES) as u8)
}

fn is_event(frame: &[u8]) -> Result<bool> {
    let is_head = frame.starts_with(br#"{"type":"head""#);
    ensure!(!is_head, "a device was too slow for events");
    Ok(frame.starts_with(br#"{"type":"event""#))
}

/// The number with which the text of a message in an event's frame begins.
pub(crate) fn number_in(frame: &[u8]) -> Option<usize> {
    let key = br#""msg":""#;
    let at = frame.windows(key.len()).position(|window| window == key)?;
    let text = &frame[at + key.len()..];
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// Many connected devices, each in a task, until the value is dropped.
pub(crate) struct Crowd {
    devices: JoinSet<Result<()>>,
}

impl Crowd {
    /// Each device passes its events to `on_event`.
    pub(crate) fn of_connected(
        connected: impl IntoIterator<Item = Device>,
        on_event: impl Fn(&Bytes) + Send + Sync + 'static,
    ) -> Self {
        let on_event = Arc::new(on_event);
        let mut crowd = Self {
            devices: JoinSet::new(),
        };
        for device in connected {
            let on_event = Arc::clone(&on_event);
            crowd.add(device, move |event| on_event(event));
        }
        crowd
    }

    /// Adds a device.
    fn add(&mut self, mut device: Device, on_event: impl Fn(&Bytes) + Send + Sync + 'static) {
        self.devices.spawn(async move {
            loop {
                let event = device.event().await?;
                on_event(&event);
            }
        });
    }

    /// Awaits `done` while all devices stay connected.
    ///
    /// # Errors
    /// The error of `done`, or that a device's connection has ended.
    pub(crate) async fn during<T>(&mut self, done: impl Future<Output = Result<T>>) -> Result<T> {
        select! {
            done = done => done,
            Some(ended) = self.devices.join_next() => {
                ended??;
                bail!("a device has ended")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_it_is_and_which_message_it_has() {
        let event = br#"{"type":"event","at":"3:5","message":{"srcid":"1","msg":"42 words"}}"#;
        assert!(is_event(event).unwrap());
        assert_eq!(number_in(event), Some(42));
        assert_eq!(
            number_in(br#"{"type":"event","at":"3:5","message":{"msg":"words"}}"#),
            None
        );
        assert!(!is_event(br#"{"type":"sent","ref":"1"}"#).unwrap());
        assert!(is_event(br#"{"type":"head","gid":"1"}"#).is_err());
    }
}

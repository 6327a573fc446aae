//! Devices at a gateway: they answer its pings, and hand on the frames that come.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::json;
use tokio::{select, task::JoinSet};

use super::socket::Socket;

/// How many devices connect at a time.
const CONNECTING: usize = 64;

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
        let mut socket = Socket::open(port, &path).await?;
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

    /// Connects one device of each user, and returns all of them. Pings are not answered meanwhile.
    ///
    /// # Errors
    /// As [`Self::connect`], of the first that fails.
    pub(crate) async fn connect_all(
        port: u16,
        uids: impl IntoIterator<Item = i64>,
        since: &str,
    ) -> Result<Vec<Self>> {
        let connecting = uids.into_iter().map(|uid| Self::connect(port, uid, since));
        let connecting = stream::iter(connecting).buffer_unordered(CONNECTING);
        connecting.try_collect().await
    }

    /// Connects to a server that sends the same frames to all sockets and requires no messages.
    ///
    /// # Errors
    /// If the server refuses a connection.
    pub(crate) async fn listen(port: u16, count: i64, path: &str) -> Result<Vec<Self>> {
        let opening = (0..count).map(async |_| {
            let socket = Socket::open(port, path).await?;
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
        let mut devices = JoinSet::<Result<()>>::new();
        for mut device in connected {
            let on_event = Arc::clone(&on_event);
            devices.spawn(async move {
                loop {
                    on_event(&device.event().await?);
                }
            });
        }
        Self { devices }
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

//! A device at the other end of a WebSocket.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, client_async,
    tungstenite::{Error, Message, http::Request},
};

use crate::{deployment::PATIENCE, description};

pub struct Device {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Why the gateway has closed.
    pub reason: String,
}

impl Device {
    pub async fn connect(request: Request<()>) -> Result<Self, Error> {
        let offered = request.headers()["sec-websocket-protocol"].clone();
        // The kernel keeps little of what the device does not read.
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(16_384)?;
        let addr = request.uri().authority().unwrap().as_str().parse().unwrap();
        let socket = MaybeTlsStream::Plain(socket.connect(addr).await?);
        let connected = timeout(PATIENCE, client_async(request, socket))
            .await
            .unwrap();
        let (socket, response) = connected?;
        let subprotocol = &response.headers()["sec-websocket-protocol"];
        assert!(offered.as_bytes().starts_with(subprotocol.as_bytes()));
        Ok(Self {
            socket,
            reason: String::new(),
        })
    }

    /// Says hello: with a token, with null, or without the field.
    pub async fn hello(&mut self, id: &str, since: Option<Option<&str>>) {
        self.hello_as(id, "mobile", since).await;
    }

    pub async fn hello_as(&mut self, id: &str, class: &str, since: Option<Option<&str>>) {
        let mut hello = json!({"type": "hello", "device": {"id": id, "class": class}});
        if let Some(since) = since {
            hello["since"] = json!(since);
        }
        self.send(&hello).await;
    }

    /// Reads the answer to a device that has to sync.
    pub async fn must_sync(&mut self) {
        let answer = json!({"type": "sync_required", "after_ms": 0, "ping_seconds": 25});
        assert_eq!(self.frame().await, answer);
    }

    /// Sends a frame that is described.
    pub async fn send(&mut self, frame: &Value) {
        description::check("device", frame);
        self.send_as_it_is(frame).await;
    }

    pub async fn send_as_it_is(&mut self, frame: &Value) {
        let message = Message::text(frame.to_string());
        self.send_raw(message).await.unwrap();
    }

    pub async fn send_raw(&mut self, message: Message) -> Result<(), Error> {
        timeout(PATIENCE, self.socket.send(message)).await.unwrap()
    }

    /// The next frame.
    pub async fn frame(&mut self) -> Value {
        match self.next().await {
            Ok(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("no frame but {other:?}"),
        }
    }

    /// The next frame that is no ping.
    pub async fn content(&mut self) -> Value {
        loop {
            let frame = self.frame().await;
            if frame["type"] != "ping" {
                return frame;
            }
        }
    }

    /// The next frame, which is an event; its `at`, and the event.
    pub async fn event(&mut self, kind: &str) -> (String, Value) {
        let mut frame = self.content().await;
        assert_eq!(frame["type"], "event", "{frame}");
        let at = frame["at"].as_str().unwrap().to_owned();
        assert!(frame[kind].is_object(), "no {kind}: {frame}");
        (at, frame[kind].take())
    }

    /// Reads until the gateway closes; the code, and what came before.
    pub async fn closed(&mut self) -> (u16, Vec<Value>) {
        let mut frames = Vec::new();
        loop {
            match self.next().await {
                Ok(Message::Text(text)) => frames.push(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(Some(close))) => {
                    assert!(!close.reason.is_empty());
                    self.reason = close.reason.to_string();
                    return (close.code.into(), frames);
                }
                Ok(Message::Pong(_)) => {}
                other => panic!("no close but {other:?}, after {frames:?}"),
            }
        }
    }

    pub async fn next(&mut self) -> Result<Message, Error> {
        let next = timeout(PATIENCE, self.socket.next()).await;
        let next = next
            .expect("a frame in time")
            .expect("a frame before the end");
        if let Ok(Message::Text(text)) = &next {
            description::check("gateway", &serde_json::from_str(text).unwrap());
        }
        next
    }
}

//! A gateway and a query API that say what a test tells them to: for what no real ones can be brought to say when a test wants it.

use std::time::Duration;

use axum::{Json, Router, extract::State, http::Uri};
use client::{
    Client, Retry,
    device::{Device, DeviceSettings, DeviceState, MAX_MSG_BYTES, Outbox},
};
use futures::{SinkExt as _, StreamExt as _};
use schemas::{DeviceClass, NextOffset, PartitionMap, SyncToken};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
        protocol::CloseFrame,
    },
};

const DEADLINE: Duration = Duration::from_secs(20);

/// Waits, but not for ever.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(DEADLINE, what).await.expect("it comes in time")
}

/// A request for the query API, and where its answer goes.
type Asked = (String, oneshot::Sender<Value>);

pub struct Scripted {
    gateway: TcpListener,
    queries: mpsc::UnboundedReceiver<Asked>,
    query_url: String,
}

impl Scripted {
    pub async fn start() -> Self {
        let (asked, queries) = mpsc::unbounded_channel();
        let router = Router::new().fallback(answer).with_state(asked);
        let listener = listener().await;
        let query_url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            gateway: self::listener().await,
            queries,
            query_url,
        }
    }

    /// A device of user 1 that has synced.
    pub fn device(&self) -> Device {
        let mut state = DeviceState::new(1.try_into().unwrap());
        state.take_sync(serde_json::from_value(nothing_new()).unwrap());
        self.device_of(state, Outbox::default())
    }

    pub fn device_of(&self, state: DeviceState, outbox: Outbox) -> Device {
        let settings = DeviceSettings {
            gateways: vec![format!("ws://{}", self.gateway.local_addr().unwrap())],
            device: "phone".to_owned().try_into().unwrap(),
            class: DeviceClass::Mobile,
            name: String::new(),
            token: None,
            max_msg_bytes: MAX_MSG_BYTES,
        };
        let client = Client::builder(&self.query_url, &self.query_url).retry(Retry::NEVER);
        Device::new(client.build().unwrap(), settings, state, outbox).unwrap()
    }

    /// A device's next attempt to connect, before the handshake.
    pub async fn attempt(&self) -> TcpStream {
        soon(self.gateway.accept()).await.unwrap().0
    }

    /// The next connection of a device, with its hello.
    pub async fn accept(&self) -> (Connection, Value) {
        let mut connection = Connection::shake_hands(self.attempt().await).await;
        let hello = connection.receive().await;
        (connection, hello)
    }

    /// The same, and its stream begins.
    pub async fn welcome(&self) -> Connection {
        let (mut connection, _) = self.accept().await;
        connection
            .send(json!({"type": "welcome", "resumed": true}))
            .await;
        connection
    }

    /// The next request.
    pub async fn asked(&mut self) -> Asked {
        soon(self.queries.recv()).await.unwrap()
    }

    /// Whether there is another one.
    pub fn is_asked(&mut self) -> bool {
        self.queries.try_recv().is_ok()
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

async fn answer(State(asked): State<mpsc::UnboundedSender<Asked>>, uri: Uri) -> Json<Value> {
    let (sender, answer) = oneshot::channel();
    asked.send((uri.to_string(), sender)).unwrap();
    Json(answer.await.unwrap())
}

/// A sync without rows, up to offset 10 of each partition.
pub fn nothing_new() -> Value {
    let next = SyncToken::new(1, &PartitionMap::full(|_| NextOffset::new(10)));
    json!({"conversations": [], "groups": [], "left": [], "next": next, "more": false, "full": false})
}

/// A message of user 2.
pub fn message(mid: i64, msg: &str) -> Value {
    json!({"mid": mid, "n": mid, "srcid": "2", "destid": "1", "msg": msg, "ts": "2026-11-26T00:00:00Z", "client_msg_id": "c"})
}

pub struct Connection(WebSocketStream<TcpStream>);

impl Connection {
    pub async fn shake_hands(stream: TcpStream) -> Self {
        let speak = |_: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
            let protocol = "tidemark.v1.json".parse().unwrap();
            response
                .headers_mut()
                .insert("sec-websocket-protocol", protocol);
            Ok(response)
        };
        Self(soon(accept_hdr_async(stream, speak)).await.unwrap())
    }

    pub async fn receive(&mut self) -> Value {
        let message = soon(self.0.next()).await.unwrap().unwrap();
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }

    pub async fn send(&mut self, frame: Value) {
        let message = Message::text(frame.to_string());
        soon(self.0.send(message)).await.unwrap();
    }

    /// Everything that the device has written before it answers a ping.
    pub async fn receive_all(&mut self) -> Vec<Value> {
        self.send(json!({"type": "ping"})).await;
        let mut frames = Vec::new();
        loop {
            match self.receive().await {
                pong if pong["type"] == "pong" => return frames,
                frame => frames.push(frame),
            }
        }
    }

    pub async fn close(mut self, code: u16) {
        let reason = "as the test says".into();
        let code = code.into();
        soon(self.0.close(Some(CloseFrame { code, reason })))
            .await
            .unwrap();
    }
}

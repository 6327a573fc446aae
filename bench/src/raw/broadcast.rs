//! A bare axum WebSocket server: every socket gets the messages of a tokio broadcast channel. The server runs as a process of its own, as a gateway
//! does.

use anyhow::Result;
use axum::{
    Router,
    extract::{
        State, WebSocketUpgrade,
        ws::{Message, Utf8Bytes, WebSocket},
    },
    http::StatusCode,
    response::Response,
    routing::{get, post},
};
use clap::Args;
use tokio::{net::TcpListener, select, sync::broadcast};

/// More than are posted at once.
const CAPACITY: usize = 1_024;

pub(crate) const SOCKETS: &str = "/sockets";
pub(crate) const FRAMES: &str = "/frames";

/// Where it listens.
#[derive(Debug, Args)]
pub(crate) struct BroadcastArgs {
    #[arg(long)]
    pub(crate) port: u16,
}

type Channel = broadcast::Sender<Utf8Bytes>;

/// Serves until it is killed.
///
/// # Errors
/// If the port is taken.
pub(crate) async fn serve(args: &BroadcastArgs) -> Result<()> {
    let calls = Router::new()
        .route(SOCKETS, get(connect))
        .route(FRAMES, post(send))
        .with_state(Channel::new(CAPACITY));
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await?;
    axum::serve(listener, calls).await?;
    Ok(())
}

async fn connect(State(channel): State<Channel>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(move |socket| copy(channel.subscribe(), socket))
}

/// A socket that lags misses frames, which the client notices.
async fn copy(mut frames: broadcast::Receiver<Utf8Bytes>, mut socket: WebSocket) {
    loop {
        let written = select! {
            Ok(frame) = frames.recv() => socket.send(Message::Text(frame)).await,
            Some(Ok(_)) = socket.recv() => Ok(()),
            else => return,
        };
        if written.is_err() {
            return;
        }
    }
}

/// Sends each line of a body as a frame.
async fn send(State(channel): State<Channel>, lines: String) -> StatusCode {
    for line in lines.lines() {
        // The channel may have no receivers.
        let _ = channel.send(line.into());
    }
    StatusCode::OK
}

//! Sends back every message, over a socket as the gateway's: what `make conformance` tests. The first line of output is the address.

use axum::{
    Router,
    extract::ws::{Message, WebSocket, WebSocketUpgrade},
    routing::any,
};
use tokio::net::TcpListener;

/// As `ingest.max_body_bytes` by default.
const MAX_BYTES: usize = 256 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let upgrade = async |upgrade: WebSocketUpgrade| {
        gateway::limit_socket(upgrade, MAX_BYTES).on_upgrade(echo)
    };
    axum::serve(listener, Router::new().route("/", any(upgrade))).await
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let is_content = matches!(message, Message::Text(_) | Message::Binary(_));
        if is_content && socket.send(message).await.is_err() {
            return;
        }
    }
}

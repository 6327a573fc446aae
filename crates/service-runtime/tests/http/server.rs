//! A server for one test, and clients that say what they want.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use reqwest::{Client, Response};
use service_runtime::{HttpConfig, Shutdown, bind_listener, serve};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here takes; a test that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a free port, for one test.
pub struct Server {
    pub addr: SocketAddr,
    pub shutdown: Shutdown,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Server {
    pub async fn start(router: Router, http: HttpConfig) -> Self {
        Self::start_reading(router, http, None).await
    }

    /// Starts one that reads so many bytes a second of a connection.
    pub async fn start_reading(router: Router, http: HttpConfig, per_s: Option<u32>) -> Self {
        let listener = bind_listener("test.bind", any_port(), &http, &http)
            .unwrap()
            .read_at_most(per_s);
        let (addr, shutdown) = (listener.local_addr().unwrap(), Shutdown::new());
        let watched = shutdown.clone();
        let task = tokio::spawn(async move { serve(listener, router, &http, watched).await });
        Self {
            addr,
            shutdown,
            task,
        }
    }

    pub async fn get(&self, path: &str) -> Response {
        let url = format!("http://{}{path}", self.addr);
        Client::new().get(url).send().await.unwrap()
    }

    /// What a client gets that writes `bytes` and then waits until the server hangs up.
    pub async fn tell(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        // The server may hang up before it has read everything.
        let _ = stream.write_all(bytes).await;
        rest_of(&mut stream).await
    }

    pub async fn ended(self) {
        let ended = timeout(PATIENCE, self.task).await;
        ended.expect("the server ends").unwrap().unwrap();
    }
}

pub fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// All that a server says until it hangs up, which it must do.
pub async fn rest_of(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    let closed = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    // A reset is a way of hanging up, too.
    let _ = closed.expect("the server hangs up");
    String::from_utf8(answer).unwrap()
}

//! An HTTP connection that stays open.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, StatusCode,
    client::conn::http1::{self, SendRequest},
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection to a service on this machine.
pub(crate) struct Connection {
    requests: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// If no service listens on the port.
    pub(crate) async fn open(port: u16) -> Result<Self> {
        let host = format!("127.0.0.1:{port}");
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The requests notice the end of the connection.
        tokio::spawn(connection);
        Ok(Self { requests, host })
    }

    /// Posts a body, and returns that of the answer.
    ///
    /// # Errors
    /// If the connection breaks, or the answer has another status.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
        expected: StatusCode,
    ) -> Result<Bytes> {
        let request = Request::post(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, content_type)
            .body(Full::from(body))?;
        self.call(request, expected).await
    }

    /// Sends a GET request, and returns the answer's body.
    ///
    /// # Errors
    /// As [`Connection::post`].
    pub(crate) async fn get(&mut self, path: &str) -> Result<Bytes> {
        let request = Request::get(path)
            .header(HOST, &self.host)
            .body(Full::default())?;
        self.call(request, StatusCode::OK).await
    }

    async fn call(&mut self, request: Request<Full<Bytes>>, expected: StatusCode) -> Result<Bytes> {
        self.requests.ready().await?;
        let answer = self.requests.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await;
        let body = body.context("an answer broke off")?.to_bytes();
        ensure!(
            status == expected,
            "answered {status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }
}

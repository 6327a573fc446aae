//! A WebSocket to a gateway: the handshake, and frames in both directions.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{SinkExt as _, StreamExt as _};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{ClientRequestBuilder, Error, Message},
};

use crate::{ClientError, Problem};

/// How long a gateway may take to answer a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

pub(super) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    outgoing: VecDeque<Message>,
}

impl Socket {
    /// Connects; `hello` is the first frame.
    pub(super) async fn connect(
        url: String,
        request: ClientRequestBuilder,
        tls: Option<Arc<rustls::ClientConfig>>,
        hello: String,
    ) -> Result<Self, ClientError> {
        let unreachable = |cause: String| ClientError::Unreachable { url, cause };
        let tls = tls.map(Connector::Rustls);
        let handshake = connect_async_tls_with_config(request, None, true, tls);
        let mut socket = match timeout(HANDSHAKE, handshake).await {
            Err(_) => return Err(unreachable("no answer in time".into())),
            Ok(Err(Error::Http(response))) => {
                let body = response.body().as_deref().unwrap_or_default();
                let body = String::from_utf8_lossy(body);
                let problem = Problem::of_response(response.status(), &body);
                return Err(ClientError::Problem(Box::new(problem)));
            }
            Ok(Err(error)) => return Err(unreachable(error.to_string())),
            Ok(Ok((stream, _))) => Self {
                stream,
                outgoing: VecDeque::new(),
            },
        };
        socket.push(hello);
        Ok(socket)
    }

    /// Queues a frame, which goes out while the next one is waited for.
    pub(super) fn push(&mut self, frame: String) {
        self.outgoing.push_back(Message::text(frame));
    }

    /// The next message; dropped at any point, nothing is lost of either direction.
    pub(super) async fn next(&mut self) -> Option<Result<Message, Error>> {
        std::future::poll_fn(|cx| {
            // An error of writing shows when reading, too.
            let _ = self.poll_write(cx);
            self.stream.poll_next_unpin(cx)
        })
        .await
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.outgoing.is_empty() {
            std::task::ready!(self.stream.poll_ready_unpin(cx))?;
            if let Some(message) = self.outgoing.pop_front() {
                self.stream.start_send_unpin(message)?;
            }
        }
        self.stream.poll_flush_unpin(cx)
    }
}

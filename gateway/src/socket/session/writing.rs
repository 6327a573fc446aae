//! What the device gets.

use api::ServerFrame;
use axum::extract::ws::WebSocket;
use futures::SinkExt;
use tokio::time::{Instant, timeout};

use super::Session;
use crate::{
    frames,
    hub::{End, Next, Outgoing},
    metrics,
    socket::close_code::{CloseCode, Ended},
};

/// How many frames are written before the device's own are looked at again.
const WRITTEN_AT_ONCE: usize = 64;

impl Session<'_> {
    /// Writes what waits; what fits into the buffer goes to the kernel in one call.
    pub(super) async fn write_waiting(&mut self) -> Result<(), Ended> {
        for written in 0..WRITTEN_AT_ONCE {
            let item = match self.connection.next() {
                Next::Write(item) => item,
                Next::Wait => {
                    if written > 0 {
                        self.in_time(SinkExt::flush).await?;
                    }
                    if self.liveness.is_behind_a_burst() {
                        self.ping();
                    }
                    return Ok(());
                }
                Next::Close(End::QueueFull) => return Err(Some(CloseCode::QueueFull.into())),
                Next::Close(End::Forgotten) => return Err(Some(CloseCode::Forgotten.into())),
                Next::Close(End::Replaced) => {
                    self.write_frame(&ServerFrame::Replaced).await?;
                    return Err(Some(CloseCode::Replaced.into()));
                }
            };
            self.buffer_item(item).await?;
        }
        self.connection.wake();
        self.in_time(SinkExt::flush).await
    }

    async fn buffer_item(&mut self, item: Outgoing) -> Result<(), Ended> {
        let (frame, kind) = match item {
            Outgoing::Event(event) => {
                self.liveness.event_written();
                let uid = self.connection.uid();
                (event.frame_for(uid), "event")
            }
            Outgoing::Head(head) => {
                self.liveness.event_written();
                (frames::encode(&ServerFrame::Head(head)), "head")
            }
            Outgoing::Ping(token) => {
                let frame = ServerFrame::Ping {
                    token: Some((&*token).into()),
                };
                let frame = frames::encode(&frame);
                self.liveness.ping_written(Some(token), Instant::now());
                (frame, "ping")
            }
            Outgoing::Answer(answer) => (frames::encode(&answer.frame()), "other"),
            Outgoing::Frame(frame) => (frame, "other"),
        };
        metrics::written(kind, 1);
        self.in_time(|socket| socket.feed(frame.into_message()))
            .await
    }

    pub(super) async fn write_frame(&mut self, frame: &ServerFrame<'_>) -> Result<(), Ended> {
        let frame = frames::encode(frame).into_message();
        self.in_time(|socket| socket.send(frame)).await
    }

    /// Writes within the time that a device may take for a frame.
    async fn in_time<'s, F>(
        &'s mut self,
        write: impl FnOnce(&'s mut WebSocket) -> F,
    ) -> Result<(), Ended>
    where
        F: Future<Output = Result<(), axum::Error>>,
    {
        match timeout(self.gateway.config.answer_time(), write(&mut self.socket)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(None),
            Err(_) => Err(Some(CloseCode::TimedOut.into())),
        }
    }
}

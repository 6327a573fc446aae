//! A connection of a device, from its hello to the close.

mod hello;
mod reading;
mod writing;

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use api::{ServerFrame, Since};
use axum::extract::ws::WebSocket;
use rand::Rng as _;
use schemas::TimestampMs;
use time::OffsetDateTime;
use tokio::time::{Instant, sleep_until};

use self::{hello::StreamStart, reading::Complaints};
use super::{
    Peer,
    close_code::{CloseCode, Ended, close, of_error},
    liveness::Liveness,
};
use crate::{hub::Connection, state::Gateway};

/// How often the token of an open connection is saved.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// What is done for a device while its connection goes on.
type UnderWay<'a, T> = Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>;
/// A send or a read.
type Posting<'a> = UnderWay<'a, ()>;

pub(super) struct Session<'a> {
    gateway: &'a Arc<Gateway>,
    peer: &'a Peer,
    socket: WebSocket,
    connection: Arc<Connection>,
    name: String,
    is_streaming: bool,
    /// The search for where the stream goes on, until that is known.
    beginning: UnderWay<'a, StreamStart>,
    /// How often the device was told to sync, and until when it is to wait with its resume.
    syncs: usize,
    resume_at: Instant,
    /// Resumes that came before `resume_at`.
    early_resumes: usize,
    liveness: Liveness,
    /// What the device has handled and when, and when that is to be saved.
    handled: Option<(Arc<str>, TimestampMs)>,
    save_at: Instant,
    complaints: Complaints,
    begun: Instant,
    /// When the user typed last.
    typed_at: Option<Instant>,
}

impl<'a> Session<'a> {
    /// What is done once is boxed, here and below, so that the future of an idle connection reserves no space for it.
    pub(super) async fn run(gateway: &Arc<Gateway>, peer: Peer, socket: WebSocket) {
        let greeted = Box::pin(Session::greet(gateway, &peer, socket)).await;
        let Some((mut session, since)) = greeted else {
            return;
        };
        let ended = session.serve(since).await;
        gateway.focus.set(&session.connection, None);
        gateway.presence.exit(&session.connection);
        let now_ms = gateway.now_ms();
        gateway.hub().close(&session.connection, now_ms);
        session.save();
        Box::pin(close(session.socket, ended)).await;
    }

    async fn serve(&mut self, since: Since) -> Ended {
        if let Err(ended) = self.find_beginning(since) {
            return ended;
        }
        let shutdown = self.gateway.shutdown.soft().clone();
        let connection = Arc::clone(&self.connection);
        let expires = self.expires();
        let mut posting: Posting<'a> = None;
        loop {
            let answer_by = self.liveness.answer_by();
            let waited = tokio::select! {
                // A pong that has come is taken before the time for it ends the connection.
                biased;
                () = shutdown.cancelled() => return Box::pin(self.leave()).await,
                () = until(expires) => Err(Some(CloseCode::Expired.into())),
                found = finish(&mut self.beginning) => {
                    self.beginning = None;
                    Box::pin(self.begin(found)).await
                }
                () = finish(&mut posting) => { posting = None; Ok(()) }
                () = sleep_until(self.liveness.next_ping()) => { self.ping(); Ok(()) }
                // One post at a time keeps a device's sends in its order, and holds back a device that sends too fast.
                frame = self.socket.recv(), if posting.is_none() => match frame {
                    Some(Ok(message)) => self.take(message, &mut posting).await,
                    Some(Err(error)) => Err(of_error(error)),
                    None => Err(None),
                },
                () = connection.changed() => Ok(()),
                () = until(answer_by), if posting.is_none() => Err(Some(CloseCode::TimedOut.into())),
            };
            if let Err(ended) = waited {
                return ended;
            }
            if let Err(ended) = self.write_waiting().await {
                return ended;
            }
        }
    }

    /// When the token of the connection ends.
    fn expires(&self) -> Option<Instant> {
        let left = self.peer.until.0? - OffsetDateTime::now_utc();
        // A time in the past is now; a time that no clock here reaches is never.
        Instant::now().checked_add(Duration::try_from(left).unwrap_or_default())
    }

    /// The device has handled everything that a token covers. Of a reader nothing is kept.
    fn handled(&mut self, token: Arc<str>) {
        if self.peer.is_reader {
            return;
        }
        self.handled = Some((token, SystemTime::now().into()));
        let now = Instant::now();
        if now >= self.save_at {
            self.save_at = now + SAVE_INTERVAL;
            self.save();
        }
    }

    fn save(&self) {
        if let Some((token, at)) = &self.handled {
            let device = self.connection.device();
            self.gateway.devices.save(device, &self.name, token, *at);
        }
    }

    /// Sends a token, and asks whether the device is still there.
    fn ping(&mut self) {
        let now = Instant::now();
        if !self.liveness.begin_ping(now) {
            return;
        }
        if !self.is_streaming {
            self.connection
                .push_frame(&ServerFrame::Ping { token: None });
            self.liveness.ping_written(None, now);
        } else {
            self.gateway.hub().ping(&self.connection);
        }
    }

    /// The gateway ends: its devices come to others, not all at once.
    async fn leave(&mut self) -> Ended {
        match self.write_frame(&reconnect(self.gateway)).await {
            Ok(()) => Some(CloseCode::GoingAway.into()),
            Err(ended) => ended,
        }
    }
}

fn reconnect(gateway: &Gateway) -> ServerFrame<'static> {
    let after_ms = rand::rng().random_range(0..=gateway.config.drain_ms);
    ServerFrame::Reconnect { after_ms }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn finish<T>(under_way: &mut UnderWay<'_, T>) -> T {
    match under_way {
        Some(under_way) => under_way.await,
        None => std::future::pending().await,
    }
}

//! A connection of a device, from its hello to the close.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::extract::ws::{Message, WebSocket};
use futures::SinkExt;
use problem::json::Object;
use rand::Rng as _;
use schemas::{Recipient, SyncToken, TimestampMs};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    Peer,
    close_code::{CloseCode, Ended, close, of_error},
    hello,
    liveness::Liveness,
    posting,
};
use crate::{
    frames::{
        ClientFrame, Format, Hello, NoFrame, Resume, ServerFrame, ShortText, Since, head_frame,
    },
    hub::{Connection, DeviceOf, End, Next, NoStream, Outgoing},
    metrics,
    rates::TooMuch,
    state::Gateway,
};

/// Frames that are none, before the connection is closed.
const MAX_ERRORS: usize = 10;
/// So many frames are written before the device's own are looked at again.
const WRITTEN_AT_ONCE: usize = 64;
/// Of a connection that goes on, the token is saved so often.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// Of a connection, typing is passed on so often.
const TYPING_INTERVAL: Duration = Duration::from_secs(1);

type Posting<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

pub(super) struct Session<'a> {
    gateway: &'a Arc<Gateway>,
    peer: &'a Peer,
    socket: WebSocket,
    connection: Arc<Connection>,
    name: String,
    is_streaming: bool,
    /// How often the device was told to sync.
    syncs: usize,
    liveness: Liveness,
    /// What the device has handled and when, and when that is to be saved.
    handled: Option<(Arc<str>, TimestampMs)>,
    save_at: Instant,
    errors: usize,
    begun: Instant,
    /// When the user typed last.
    typed_at: Option<Instant>,
}

impl<'a> Session<'a> {
    /// What is done once is boxed, here and below: a connection that waits holds nothing of it.
    pub(super) async fn run(gateway: &Arc<Gateway>, peer: Peer, format: Format, socket: WebSocket) {
        let greeted = Box::pin(Session::greet(gateway, &peer, format, socket)).await;
        let Some((mut session, since)) = greeted else {
            return;
        };
        let ended = session.serve(since).await;
        gateway.presence.focus.set(&session.connection, None);
        gateway.presence.exit(&session.connection);
        if let Some(mut hub) = gateway.hub() {
            hub.close(&session.connection, gateway.now_ms());
        }
        session.save();
        Box::pin(close(session.socket, ended)).await;
    }

    /// Reads the hello; `None` where the connection has ended.
    async fn greet(
        gateway: &'a Arc<Gateway>,
        peer: &'a Peer,
        format: Format,
        mut socket: WebSocket,
    ) -> Option<(Self, Since)> {
        let (ping, answer_time) = (gateway.config.ping_interval(), gateway.config.answer_time());
        let hello = timeout(answer_time, hello::read(&mut socket, format)).await;
        let Hello {
            device: Object(device),
            since,
        } = match hello.unwrap_or(Err(Some(CloseCode::TimedOut.into()))) {
            Ok(hello) => hello,
            Err(ended) => {
                close(socket, ended).await;
                return None;
            }
        };
        let of = DeviceOf {
            uid: peer.uid,
            id: device.id,
            class: device.class,
        };
        let now = Instant::now();
        let session = Session {
            gateway,
            peer,
            socket,
            connection: Arc::new(gateway.connection(of, format)),
            name: device.name.0,
            is_streaming: false,
            syncs: 0,
            liveness: Liveness::new(ping, answer_time, now),
            handled: None,
            save_at: now,
            errors: 0,
            begun: now,
            typed_at: None,
        };
        Some((session, since))
    }

    async fn serve(&mut self, since: Since) -> Ended {
        if let Err(ended) = Box::pin(self.say_hello(since)).await {
            return ended;
        }
        let shutdown = self.gateway.shutdown.soft().clone();
        let connection = Arc::clone(&self.connection);
        let expires = self.expires();
        let mut posting: Option<Posting<'a>> = None;
        loop {
            let answer_by = self.liveness.answer_by();
            let waited = tokio::select! {
                // A pong that is here comes before the end of the time for it.
                biased;
                () = shutdown.cancelled() => return Box::pin(self.leave()).await,
                () = until(expires) => Err(Some(CloseCode::Expired.into())),
                () = finish(&mut posting) => { posting = None; Ok(()) }
                () = sleep_until(self.liveness.next_ping()) => { self.ping(); Ok(()) }
                // One post at a time keeps a device's sends in its order, and holds back one that sends too fast.
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
        // A time that is over is now; one that no clock here reaches is never.
        Instant::now().checked_add(Duration::try_from(left).unwrap_or_default())
    }

    /// Begins from the device's token, from the one that was kept for it where it has lost its own, or with a sync.
    async fn say_hello(&mut self, since: Since) -> Result<(), Ended> {
        let device = self.connection.device().clone();
        match since {
            Since::Token(since) => self.begin(&since).await,
            Since::Nothing => self.require_sync(None, NoStream::SyncRequired).await,
            Since::Lost => {
                let kept = self.gateway.devices.token_of(&self.gateway.store, &device);
                let kept = kept.await.unwrap_or_else(|error| {
                    tracing::debug!(%error, "the token of a device is not read");
                    None
                });
                match kept {
                    Some(kept) => self.begin_from_kept(&kept).await,
                    None => self.require_sync(None, NoStream::SyncRequired).await,
                }
            }
        }
    }

    /// Gives the device its stream from its token on, or says that it has to sync.
    async fn begin(&mut self, since: &str) -> Result<(), Ended> {
        match SyncToken::parse_any_version(since) {
            Ok(Some(token)) => self.welcome(&token, None).await,
            // Of another version of the program: as good as none.
            Ok(None) => self.require_sync(None, NoStream::SyncRequired).await,
            Err(error) => {
                self.complain(format!("since {error}")).await?;
                self.require_sync(None, NoStream::SyncRequired).await
            }
        }
    }

    async fn begin_from_kept(&mut self, kept: &str) -> Result<(), Ended> {
        match SyncToken::parse_any_version(kept) {
            Ok(Some(token)) => self.welcome(&token, Some(kept)).await,
            Ok(None) | Err(_) => self.require_sync(None, NoStream::SyncRequired).await,
        }
    }

    async fn welcome(&mut self, since: &SyncToken, kept: Option<&str>) -> Result<(), Ended> {
        // In the middle of a sync the token does not say yet what the device knows.
        let welcomed = match since.page() {
            Some(_) => Err(NoStream::SyncRequired),
            None => hello::welcome(self.gateway, &self.connection, since).await,
        };
        match welcomed {
            Ok(()) => {
                metrics::hello("resumed");
                self.is_streaming = true;
                let connection = &self.connection;
                self.gateway.presence.enter(connection, self.begun);
                let token = since.to_string();
                let frame = ServerFrame::Welcome {
                    resumed: true,
                    token: &token,
                };
                // Before anything that waits in the queue.
                self.write_frame(&frame).await?;
                // What was kept may be older than what another gateway is about to save.
                if kept.is_none() {
                    self.handled(token.into());
                }
                self.write_waiting().await
            }
            Err(why) => self.require_sync(kept, why).await,
        }
    }

    /// Where it did not help before, with a pause: a while, and not all devices at the same time.
    async fn require_sync(&mut self, token: Option<&str>, why: NoStream) -> Result<(), Ended> {
        metrics::hello(why.as_str());
        let pauses = why != NoStream::SyncRequired || self.syncs > 0;
        self.syncs += 1;
        let after_ms = match pauses {
            true => rand::rng().random_range(500..2_000),
            false => 0,
        };
        let frame = ServerFrame::SyncRequired { after_ms, token };
        self.write_frame(&frame).await?;
        self.write_waiting().await
    }

    async fn take(
        &mut self,
        message: Message,
        posting: &mut Option<Posting<'a>>,
    ) -> Result<(), Ended> {
        self.charge(&message)?;
        match message {
            Message::Close(_) => return Err(None),
            // axum answers pings by itself.
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Text(_) | Message::Binary(_) => {}
        };
        let frame = self.connection.format().parse(&message);
        let (gateway, peer, connection) =
            (&**self.gateway, self.peer, Arc::clone(&self.connection));
        match frame.ok_or(Some(CloseCode::WrongKind.into()))? {
            Ok(ClientFrame::Pong {}) => {
                if let Some(token) = self.liveness.pong() {
                    self.handled(token);
                }
            }
            Ok(ClientFrame::Resume(Resume { since })) if !self.is_streaming => {
                return Box::pin(self.begin(&since)).await;
            }
            Ok(ClientFrame::Hello(_) | ClientFrame::Resume(_)) => {
                let detail = "hello comes first and once, resume after sync_required";
                return self.complain(detail.to_owned()).await;
            }
            Ok(ClientFrame::Send(frame)) => {
                let sending = async move { posting::send(gateway, peer, &connection, frame).await };
                *posting = Some(Box::pin(sending));
            }
            Ok(ClientFrame::Read(frame)) => {
                let reading = async move { posting::read(gateway, peer, &connection, frame).await };
                *posting = Some(Box::pin(reading));
            }
            Ok(ClientFrame::Typing(frame)) => match frame.recipient() {
                Ok(to) => self.type_to(to),
                Err(wrong) => return self.complain(wrong).await,
            },
            Ok(ClientFrame::Focus(frame)) => match frame.at() {
                Ok(at) => self.gateway.presence.look(&connection, at),
                Err(wrong) => return self.complain(wrong).await,
            },
            Err(NoFrame { reference, detail }) => match reference {
                Some(ShortText(reference)) => {
                    let refused = posting::invalid(&reference, &detail);
                    return self.write_frame(&refused).await;
                }
                None => return self.complain(detail).await,
            },
        }
        Ok(())
    }

    /// Nobody types in two places at once: what comes too soon says nothing new.
    fn type_to(&mut self, to: Recipient) {
        let now = Instant::now();
        let is_soon = |at: Instant| now < at + TYPING_INTERVAL;
        if !self.typed_at.is_some_and(is_soon) {
            self.typed_at = Some(now);
            let hub = self.gateway.hub();
            self.gateway
                .typing
                .publish(hub.as_deref(), self.peer.uid, to);
        }
    }

    fn charge(&self, message: &Message) -> Result<(), Ended> {
        let bytes = match message {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
            Message::Close(_) => return Ok(()),
        };
        let charged = self
            .gateway
            .rates
            .charge(self.peer.uid, bytes, self.gateway.now_us());
        charged.map_err(|too_much| {
            let code = match too_much {
                TooMuch::OfUser => CloseCode::TooFast,
                TooMuch::InAll => CloseCode::Overloaded,
            };
            Some(code.into())
        })
    }

    async fn complain(&mut self, detail: String) -> Result<(), Ended> {
        self.errors += 1;
        if self.errors > MAX_ERRORS {
            return Err(Some(CloseCode::Malformed.because(detail)));
        }
        self.write_frame(&ServerFrame::Error { detail: &detail })
            .await
    }

    /// The device has handled everything that a token covers.
    fn handled(&mut self, token: Arc<str>) {
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

    /// A token, and the question whether the device is still there.
    fn ping(&mut self) {
        let now = Instant::now();
        if !self.liveness.begin_ping(now) {
            return;
        }
        if !self.is_streaming {
            self.connection
                .push_frame(&ServerFrame::Ping { token: None });
            self.liveness.ping_written(None, now);
        } else if let Some(hub) = self.gateway.hub() {
            hub.ping(&self.connection);
        }
    }

    /// Writes what waits; what fits into the buffer goes to the kernel in one call.
    async fn write_waiting(&mut self) -> Result<(), Ended> {
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
        let format = self.connection.format();
        let (frame, kind) = match item {
            Outgoing::Event(event) => {
                self.liveness.event_written();
                (event.frame(format).clone().into_message(), "event")
            }
            Outgoing::Head(head) => {
                self.liveness.event_written();
                (format.encode(&head_frame(&head)), "head")
            }
            Outgoing::Ping(token) => {
                let frame = format.encode(&ServerFrame::Ping {
                    token: Some(&token),
                });
                self.liveness.ping_written(Some(token), Instant::now());
                (frame, "ping")
            }
            Outgoing::Answer(answer) => (format.encode(&answer.frame()), "other"),
            Outgoing::Frame(frame) => (frame.into_message(), "other"),
        };
        metrics::written(kind, 1);
        self.in_time(|socket| socket.feed(frame)).await
    }

    async fn write_frame(&mut self, frame: &ServerFrame<'_>) -> Result<(), Ended> {
        let frame = self.connection.format().encode(frame);
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

    /// The gateway ends: its devices come to others, not all at once.
    async fn leave(&mut self) -> Ended {
        let after_ms = rand::rng().random_range(0..=self.gateway.config.drain_ms);
        match self.write_frame(&ServerFrame::Reconnect { after_ms }).await {
            Ok(()) => Some(CloseCode::GoingAway.into()),
            Err(ended) => ended,
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn finish(posting: &mut Option<Posting<'_>>) {
    match posting {
        Some(posting) => posting.await,
        None => std::future::pending().await,
    }
}

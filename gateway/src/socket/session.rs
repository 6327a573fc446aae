//! A connection of a device, from the upgrade to the close.

use std::{pin::Pin, sync::Arc, time::Duration};

use access::Caller;
use axum::{
    extract::{
        State,
        ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade},
    },
    response::Response,
};
use problem::{Problem, Query};
use rand::Rng as _;
use schemas::{DeviceClass, SyncToken, UserId};
use serde::Deserialize;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{
    frames::{
        ClientFrame, Hello, ServerFrame, head_frame, parse, ping_frame, post_of_read, post_of_send,
    },
    hub::{Connection, End, Next, NoStream, Outgoing, StoredMemberships},
    memberships,
    state::Gateway,
};

const SUBPROTOCOL: &str = "tidemark.v1.json";

/// With the defaults a connection takes 128 KiB for reading alone.
const READ_BUFFER_BYTES: usize = 1_024;

/// Memberships that MySQL does not have yet are read again, so often and with so much time between.
const MEMBERSHIP_ATTEMPTS: usize = 10;
const MEMBERSHIP_PAUSE: Duration = Duration::from_millis(200);

/// Frames that are none, before the connection is closed.
const MOST_ERRORS: usize = 10;
/// So many frames are written before the device's own are looked at again.
const WRITTEN_AT_ONCE: usize = 64;
/// So many events without a ping: a device that has handled a burst gets a token.
const BURST: usize = 100;

/// Why the server closes. Below 4100 the device comes back with its token, from there on it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseCode {
    /// The gateway ends.
    GoingAway = 4000,
    /// The device takes its frames too slowly.
    QueueFull = 4001,
    /// No hello, pong or progress in time.
    TimedOut = 4002,
    /// Too many frames that are none.
    Malformed = 4100,
    /// Another connection has taken its place.
    Replaced = 4101,
}

impl CloseCode {
    fn reason(self) -> &'static str {
        match self {
            Self::GoingAway => "the gateway ends: come back with your token",
            Self::QueueFull => "too much waits: come back with your token",
            Self::TimedOut => "no answer in time: come back with your token",
            Self::Malformed => "too many frames that are none",
            Self::Replaced => "another connection has taken its place",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectQuery {
    /// Whose device it is, where the caller is no user.
    #[serde(default)]
    uid: Option<UserId>,
}

/// Upgrades to a WebSocket.
pub(crate) async fn connect(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    Query(query): Query<ConnectQuery>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    let uid = match (&caller, query.uid) {
        (Caller::User(subject), None) => *subject,
        (_, Some(uid)) => uid,
        (_, None) => return Err(Problem::invalid_field("uid", "is missing", "present")),
    };
    caller.may_read(uid)?;
    let is_open = gateway.hub().is_some() && !gateway.shutdown.soft().is_cancelled();
    if !is_open || !gateway.has_place() {
        return Err(Problem::unavailable(
            "this gateway takes no connections at present",
            1,
        ));
    }
    let upgrade = upgrade
        .protocols([SUBPROTOCOL])
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_frame_size(gateway.poster.max_body_bytes())
        .max_message_size(gateway.poster.max_body_bytes());
    Ok(upgrade.on_upgrade(move |socket| async move {
        let Some(place) = gateway.take_place() else {
            return;
        };
        let device = Device { uid, caller };
        Session::run(&gateway, device, socket).await;
        drop(place);
    }))
}

/// Who is at the other end.
struct Device {
    uid: UserId,
    caller: Caller,
}

type Posting<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

struct Session<'a> {
    gateway: &'a Arc<Gateway>,
    device: &'a Device,
    socket: WebSocket,
    class: DeviceClass,
    connection: Arc<Connection>,
    is_streaming: bool,
    /// When the device has to have said something at the latest.
    answer_by: Option<Instant>,
    next_ping: Instant,
    unpinged: usize,
    errors: usize,
}

/// How a connection ends: with a code of ours, or it is gone.
type Ended = Option<CloseCode>;

impl<'a> Session<'a> {
    async fn run(gateway: &Arc<Gateway>, device: Device, mut socket: WebSocket) {
        let answer_time = gateway.config.answer_time();
        let hello = match timeout(answer_time, read_hello(&mut socket)).await {
            Ok(Ok(hello)) => hello,
            Ok(Err(ended)) => return close(socket, ended).await,
            Err(_) => return close(socket, Some(CloseCode::TimedOut)).await,
        };
        let connection = Connection::new(device.uid, hello.device.id, gateway.config.queue_bytes);
        let mut session = Session {
            gateway,
            device: &device,
            socket,
            class: hello.device.class,
            connection: Arc::new(connection),
            is_streaming: false,
            answer_by: None,
            next_ping: Instant::now() + gateway.config.ping_interval(),
            unpinged: 0,
            errors: 0,
        };
        let ended = session.serve(hello.since).await;
        if let Some(mut hub) = gateway.hub() {
            hub.close(&session.connection, gateway.now_ms());
        }
        close(session.socket, ended).await;
    }

    async fn serve(&mut self, since: Option<String>) -> Ended {
        if let Err(ended) = self.begin(since.as_deref()).await {
            return ended;
        }
        let shutdown = self.gateway.shutdown.soft().clone();
        let connection = Arc::clone(&self.connection);
        let mut posting: Option<Posting<'a>> = None;
        loop {
            let answer_by = self.answer_by;
            let waited = tokio::select! {
                // One post at a time keeps a device's sends in its order, and holds back one that sends too fast.
                frame = self.socket.recv(), if posting.is_none() => match frame {
                    Some(Ok(message)) => self.take(message, &mut posting).await,
                    Some(Err(_)) | None => Err(None),
                },
                frame = poll_posting(&mut posting) => {
                    posting = None;
                    connection.push_frame(frame.into());
                    Ok(())
                },
                () = connection.changed() => Ok(()),
                () = sleep_until(self.next_ping) => { self.ping(); Ok(()) },
                () = sleep_until(answer_by.unwrap_or_else(Instant::now)), if answer_by.is_some() => {
                    Err(Some(CloseCode::TimedOut))
                },
                () = shutdown.cancelled() => return self.leave().await,
            };
            if let Err(ended) = waited {
                return ended;
            }
            if let Err(ended) = self.write_waiting().await {
                return ended;
            }
        }
    }

    /// Gives the device its stream, or says that it has to sync.
    async fn begin(&mut self, since: Option<&str>) -> Result<(), Ended> {
        let frame = match since.map(str::parse::<SyncToken>) {
            // Without a token there is nothing to go on from.
            None => sync_required(0),
            Some(Err(error)) => {
                let detail = format!("since is no token of this system: {error}");
                self.write(ServerFrame::Error { detail: &detail }.to_json().into())
                    .await?;
                sync_required(0)
            }
            Some(Ok(token)) => match welcome(self.gateway, &self.connection, &token).await {
                Ok(()) => {
                    self.is_streaming = true;
                    let token = token.to_string();
                    ServerFrame::Welcome {
                        resumed: true,
                        token: &token,
                    }
                    .to_json()
                }
                Err(NoStream::SyncRequired) => sync_required(0),
                // A while, and not all at the same time.
                Err(NoStream::MembershipsBehind) => {
                    sync_required(rand::rng().random_range(500..2_000))
                }
            },
        };
        // Before anything that waits in the queue.
        self.write(frame.into()).await?;
        self.write_waiting().await
    }

    async fn take(
        &mut self,
        message: Message,
        posting: &mut Option<Posting<'a>>,
    ) -> Result<(), Ended> {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return Err(None),
            // axum answers pings by itself.
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Binary(_) => {
                return self
                    .complain("a binary frame; this subprotocol has text frames")
                    .await;
            }
        };
        let event = match parse(&text) {
            Ok(ClientFrame::Pong {}) => {
                self.answer_by = None;
                return Ok(());
            }
            Ok(ClientFrame::Resume { since }) if !self.is_streaming => {
                return self.begin(Some(&since)).await;
            }
            Ok(ClientFrame::Hello(_) | ClientFrame::Resume { .. }) => {
                return self
                    .complain("hello comes first and once, resume after sync_required")
                    .await;
            }
            Ok(ClientFrame::Send(send)) => post_of_send(self.device.uid, send),
            Ok(ClientFrame::Read(read)) => post_of_read(self.device.uid, self.class, read),
            Err(error) => return self.complain(&error).await,
        };
        let (gateway, caller) = (self.gateway, &self.device.caller);
        *posting = Some(Box::pin(async move {
            let (reference, body) = event;
            match gateway.poster.post(caller, body.as_bytes()).await {
                Ok(at) => ServerFrame::Accepted {
                    reference: &reference,
                    at: &at.to_string(),
                }
                .to_json(),
                Err(problem) => ServerFrame::Refused {
                    reference: &reference,
                    reason: kind_of(&problem),
                    detail: &problem.detail,
                }
                .to_json(),
            }
        }));
        Ok(())
    }

    async fn complain(&mut self, detail: &str) -> Result<(), Ended> {
        self.errors += 1;
        if self.errors > MOST_ERRORS {
            return Err(Some(CloseCode::Malformed));
        }
        self.write(ServerFrame::Error { detail }.to_json().into())
            .await
    }

    /// A token, and the question whether the device is still there.
    fn ping(&mut self) {
        let now = Instant::now();
        self.next_ping = now + self.gateway.config.ping_interval();
        self.unpinged = 0;
        if !self.is_streaming {
            return;
        }
        self.answer_by
            .get_or_insert(now + self.gateway.config.answer_time());
        if let Some(hub) = self.gateway.hub() {
            hub.ping(&self.connection);
        }
    }

    async fn write_waiting(&mut self) -> Result<(), Ended> {
        for _ in 0..WRITTEN_AT_ONCE {
            let item = match self.connection.next() {
                Next::Write(item) => item,
                Next::Wait => {
                    if self.unpinged >= BURST {
                        self.ping();
                    }
                    return Ok(());
                }
                Next::Close(End::QueueFull) => return Err(Some(CloseCode::QueueFull)),
                Next::Close(End::Replaced) => {
                    self.write(ServerFrame::Replaced.to_json().into()).await?;
                    return Err(Some(CloseCode::Replaced));
                }
            };
            let frame = match item {
                Outgoing::Event(event) => {
                    self.unpinged += 1;
                    event.frame().clone()
                }
                Outgoing::Head(head) => head_frame(&head).into(),
                Outgoing::Ping(token) => ping_frame(&token).into(),
                Outgoing::Frame(frame) => frame,
            };
            self.write(frame).await?;
        }
        // The rest after a look at what the device says.
        self.connection.wake();
        Ok(())
    }

    async fn write(&mut self, frame: Utf8Bytes) -> Result<(), Ended> {
        let written = self.socket.send(Message::Text(frame));
        match timeout(self.gateway.config.answer_time(), written).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(None),
            Err(_) => Err(Some(CloseCode::TimedOut)),
        }
    }

    /// The gateway ends: its devices come to others, not all at once.
    async fn leave(&mut self) -> Ended {
        let after_ms = rand::rng().random_range(0..=self.gateway.config.drain_ms);
        let frame = ServerFrame::Reconnect { after_ms }.to_json();
        match self.write(frame.into()).await {
            Ok(()) => Some(CloseCode::GoingAway),
            Err(ended) => ended,
        }
    }
}

/// Gives a connection its stream. Which groups its user is in comes from the hub, where it knows the user, otherwise from MySQL.
async fn welcome(
    gateway: &Gateway,
    connection: &Arc<Connection>,
    since: &SyncToken,
) -> Result<(), NoStream> {
    let welcome = |stored: &StoredMemberships| {
        let mut hub = gateway.hub().ok_or(NoStream::MembershipsBehind)?;
        hub.welcome(connection, since, stored)
    };
    let known = gateway
        .hub()
        .and_then(|hub| hub.memberships_of(connection.uid()));
    if let Some(known) = known {
        return welcome(&known);
    }
    for _ in 0..MEMBERSHIP_ATTEMPTS {
        match memberships::read(gateway, connection.uid()).await {
            Ok(stored) => match welcome(&stored) {
                Err(NoStream::MembershipsBehind) => {}
                welcomed => return welcomed,
            },
            Err(error) => tracing::debug!(%error, "memberships are not read"),
        }
        sleep(MEMBERSHIP_PAUSE).await;
    }
    Err(NoStream::MembershipsBehind)
}

/// The last part of the URI that names a kind of problem: `invalid-field`.
fn kind_of(problem: &Problem) -> &'static str {
    let uri = problem.kind.uri();
    uri.rsplit(['/', ':']).next().unwrap_or(uri)
}

async fn poll_posting(posting: &mut Option<Posting<'_>>) -> String {
    match posting {
        Some(posting) => posting.await,
        None => std::future::pending().await,
    }
}

fn sync_required(after_ms: u64) -> String {
    ServerFrame::SyncRequired { after_ms }.to_json()
}

async fn read_hello(socket: &mut WebSocket) -> Result<Hello, Ended> {
    loop {
        match socket.recv().await {
            Some(Ok(Message::Text(text))) => {
                let detail = match parse(&text) {
                    Ok(ClientFrame::Hello(hello)) => match hello.device.check() {
                        Ok(()) => return Ok(hello),
                        Err(error) => error,
                    },
                    Ok(_) => "the first frame is hello".to_owned(),
                    Err(error) => error,
                };
                let frame = ServerFrame::Error { detail: &detail }.to_json();
                if socket.send(Message::Text(frame.into())).await.is_err() {
                    return Err(None);
                }
                return Err(Some(CloseCode::Malformed));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Binary(_))) => return Err(Some(CloseCode::Malformed)),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(None),
        }
    }
}

async fn close(mut socket: WebSocket, ended: Ended) {
    if let Some(code) = ended {
        let frame = CloseFrame {
            code: code as u16,
            reason: Utf8Bytes::from_static(code.reason()),
        };
        // Who does not take it is gone anyway.
        let _ = timeout(
            Duration::from_secs(1),
            socket.send(Message::Close(Some(frame))),
        )
        .await;
    }
}

//! How a connection begins: which device it is, and from where its stream goes on, or that it has to sync.

use std::{borrow::Cow, sync::Arc, time::Duration};

use api::{ClientFrame, Hello, Object, ServerFrame, Since};
use axum::extract::ws::{Message, WebSocket};
use rand::Rng as _;
use schemas::{SyncToken, UserId, topics::Topic};
use tokio::{
    task::yield_now,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    Session,
    reading::{Complaints, charge, charge_begin},
    reconnect,
};
use crate::{
    frames,
    hub::{Adoption, Connection, DeviceOf, NoStream, Replay},
    memberships, metrics,
    socket::{
        Peer,
        close_code::{CloseCode, Ended, close, of_error},
        liveness::Liveness,
    },
    state::Gateway,
};

/// Within this time a device has its stream or is told to sync, whatever MySQL and Kafka answer, or do not (W3).
const BEGINS_IN: Duration = Duration::from_secs(2);
/// The pause before memberships that MySQL does not have yet are read again.
const PAUSE: Duration = Duration::from_millis(200);
/// How many resumes of a connection may come before their time; another one ends it.
const MAX_EARLY_RESUMES: usize = 3;

impl<'a> Session<'a> {
    /// Reads the hello; `None` if the connection has ended.
    pub(super) async fn greet(
        gateway: &'a Arc<Gateway>,
        peer: &'a Peer,
        mut socket: WebSocket,
    ) -> Option<(Self, Since)> {
        let (ping, answer_time) = (gateway.config.ping_interval(), gateway.config.answer_time());
        let hello = tokio::select! {
            hello = timeout(answer_time, read(gateway, peer, &mut socket)) => {
                hello.unwrap_or(Err(Some(CloseCode::TimedOut.into())))
            }
            () = gateway.shutdown.soft().cancelled() => {
                let frame = frames::encode(&reconnect(gateway)).into_message();
                let written = timeout(answer_time, socket.send(frame)).await;
                let is_written = matches!(written, Ok(Ok(())));
                Err(is_written.then(|| CloseCode::GoingAway.into()))
            }
        };
        let Hello {
            device: Object(device),
            since,
        } = match hello {
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
        let connection = match gateway.connection(of) {
            connection if peer.is_reader => connection.of_reader(),
            connection => connection,
        };
        let now = Instant::now();
        let session = Session {
            gateway,
            peer,
            socket,
            connection: Arc::new(connection),
            name: device.name.0,
            is_streaming: false,
            beginning: None,
            syncs: 0,
            resume_at: now,
            early_resumes: 0,
            liveness: Liveness::new(ping, answer_time, now),
            handled: None,
            save_at: now,
            complaints: Complaints::default(),
            begun: now,
            typed_at: None,
        };
        Some((session, since))
    }

    /// Takes a resume if the pause that the device was given is over. If not, the device is told the rest of the pause, a few times.
    pub(super) async fn resume(&mut self, since: String) -> Result<(), Ended> {
        let left = self.resume_at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return self.find_beginning(Since::Token(since));
        }
        self.early_resumes += 1;
        if self.early_resumes > MAX_EARLY_RESUMES {
            return Err(Some(CloseCode::TooFast.into()));
        }
        let frame = ServerFrame::SyncRequired {
            after_ms: left.as_millis() as u64 + 1,
            ping_seconds: self.gateway.config.ping_seconds,
            token: None,
        };
        self.write_frame(&frame).await
    }

    /// Looks for where the stream goes on. Until that is known, the device's frames are read, and it is told if the gateway ends.
    pub(super) fn find_beginning(&mut self, since: Since) -> Result<(), Ended> {
        charge_begin(self.gateway, self.peer)?;
        let connection = Arc::clone(&self.connection);
        let beginning = beginning(self.gateway, connection, since);
        self.beginning = Some(Box::pin(beginning));
        Ok(())
    }

    /// Begins the stream if it can go on, or says that the device has to sync.
    pub(super) async fn begin(&mut self, beginning: StreamStart) -> Result<(), Ended> {
        let StreamStart {
            complaint,
            kept,
            welcomed,
        } = beginning;
        if let Some(detail) = complaint {
            self.complain(detail).await?;
        }
        let token = match welcomed {
            Ok(token) => token.to_string(),
            Err(why) => return self.require_sync(kept.as_deref(), why).await,
        };
        metrics::hello("resumed");
        self.is_streaming = true;
        self.liveness.welcomed();
        if !self.peer.is_reader {
            let connection = &self.connection;
            self.gateway.presence.enter(connection, self.begun);
        }
        let frame = ServerFrame::Welcome {
            resumed: true,
            token: token.as_str().into(),
            frames_per_s: self.gateway.config.user_frames_per_s,
            bytes_per_s: self.gateway.config.user_bytes_per_s,
            ping_seconds: self.gateway.config.ping_seconds,
        };
        // The welcome comes before anything that waits in the queue.
        self.write_frame(&frame).await?;
        // A kept token is not saved again: it may be older than one that another gateway is about to save.
        if kept.is_none() {
            self.handled(token.into());
        }
        self.write_waiting().await
    }

    /// Tells the device to sync: with a random pause, so that devices do not come together, if a sync did not help before or cannot help yet.
    async fn require_sync(&mut self, token: Option<&str>, why: NoStream) -> Result<(), Ended> {
        metrics::hello(why.as_str());
        let pauses = why != NoStream::SyncRequired || self.syncs > 0;
        self.syncs += 1;
        self.liveness.sync_required(Instant::now());
        let after_ms = match pauses {
            true => rand::rng().random_range(500..2_000),
            false => 0,
        };
        self.resume_at = Instant::now() + Duration::from_millis(after_ms);
        let frame = ServerFrame::SyncRequired {
            after_ms,
            ping_seconds: self.gateway.config.ping_seconds,
            token: token.map(Cow::from),
        };
        self.write_frame(&frame).await?;
        self.write_waiting().await
    }
}

/// The first frame of the device's own.
async fn read(gateway: &Gateway, peer: &Peer, socket: &mut WebSocket) -> Result<Hello, Ended> {
    let text = loop {
        let message = match socket.recv().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(of_error(error)),
            None => return Err(None),
        };
        charge(gateway, peer, &message)?;
        match message {
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Close(_) => return Err(None),
            Message::Binary(_) => return Err(Some(CloseCode::WrongKind.into())),
            Message::Text(text) => break text,
        }
    };
    let detail = match frames::parse(&text) {
        Ok(ClientFrame::Hello(hello)) => return Ok(hello),
        Ok(_) => "the first frame is hello".to_owned(),
        Err(wrong) => wrong.detail,
    };
    let frame = frames::encode(&ServerFrame::Error {
        detail: detail.as_str().into(),
    });
    let frame = frame.into_message();
    let written = socket.send(frame).await;
    let close = CloseCode::Malformed.because(detail);
    Err(written.is_ok().then_some(close))
}

/// What became of a hello or a resume.
pub(super) struct StreamStart {
    /// What is wrong with the token.
    complaint: Option<String>,
    /// The token that was kept for a device that has lost its own.
    kept: Option<String>,
    /// The token from which the connection now has its stream.
    welcomed: Result<SyncToken, NoStream>,
}

impl From<Result<SyncToken, NoStream>> for StreamStart {
    fn from(welcomed: Result<SyncToken, NoStream>) -> Self {
        Self {
            complaint: None,
            kept: None,
            welcomed,
        }
    }
}

/// Begins from the device's token, from the one that was kept if the device has lost its own, or with a sync. This is decided within [`BEGINS_IN`],
/// even if MySQL or Kafka does not answer. Meanwhile the connection goes on.
pub(super) async fn beginning(
    gateway: &Gateway,
    connection: Arc<Connection>,
    since: Since,
) -> StreamStart {
    let by = Instant::now() + BEGINS_IN;
    match since {
        Since::Token(since) => match SyncToken::parse_any_version(&since) {
            Ok(token) => from_token(gateway, &connection, token, by).await,
            Err(error) => StreamStart {
                complaint: Some(format!("since {error}")),
                ..Err(NoStream::SyncRequired).into()
            },
        },
        // What is kept is the token of the user's own device.
        Since::Lost if !connection.is_reader() => {
            let kept = gateway
                .devices
                .token_of(&gateway.store, connection.device());
            let kept = match timeout_at(by, kept).await {
                Ok(Ok(kept)) => kept,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the token of a device is not read");
                    None
                }
                Err(_elapsed) => None,
            };
            match kept.as_deref().map(SyncToken::parse_any_version) {
                Some(Ok(Some(token))) => StreamStart {
                    kept,
                    ..from_token(gateway, &connection, Some(token), by).await
                },
                Some(Ok(None) | Err(_)) | None => Err(NoStream::SyncRequired).into(),
            }
        }
        Since::Nothing | Since::Lost => Err(NoStream::SyncRequired).into(),
    }
}

/// A token of another version of the program is as good as none, and a token from the middle of a sync does not say yet what the device knows.
async fn from_token(
    gateway: &Gateway,
    connection: &Arc<Connection>,
    token: Option<SyncToken>,
    by: Instant,
) -> StreamStart {
    let welcomed = match token.filter(|token| token.page().is_none()) {
        Some(token) => welcome(gateway, connection, &token, by)
            .await
            .map(|()| token),
        None => Err(NoStream::SyncRequired),
    };
    welcomed.into()
}

/// Gives a connection its stream.
async fn welcome(
    gateway: &Gateway,
    connection: &Arc<Connection>,
    since: &SyncToken,
    by: Instant,
) -> Result<(), NoStream> {
    expect_on_log(gateway, since, by).await?;
    loop {
        match replay(gateway, connection, since, by).await {
            Err(NoStream::MembershipsBehind) if Instant::now() + PAUSE < by => sleep(PAUSE).await,
            welcomed => return welcomed,
        }
    }
}

/// Replays in turns: between two of them the hub is free for others, whatever the user has missed (PROTOCOL W10).
async fn replay(
    gateway: &Gateway,
    connection: &Arc<Connection>,
    since: &SyncToken,
    by: Instant,
) -> Result<(), NoStream> {
    let uid = connection.uid();
    if !gateway.hub().knows(uid) {
        let turn = timeout_at(by, gateway.membership_turns.next(uid)).await;
        let _turn = turn.map_err(|_elapsed| NoStream::MembershipsBehind)?;
        if !gateway.hub().knows(uid) {
            adopt(gateway, uid, by).await?;
        }
    }
    let mut replay = Replay::new(uid, since.clone(), gateway.config.queue_bytes);
    while !gateway.hub().welcome(&mut replay, connection)? {
        if Instant::now() >= by {
            return Err(NoStream::SyncRequired);
        }
        replay.settle()?;
        yield_now().await;
    }
    Ok(())
}

/// Has the hub learn from MySQL in which groups a user is.
async fn adopt(gateway: &Gateway, uid: UserId, by: Instant) -> Result<(), NoStream> {
    let topic = gateway.kafka.topic(Topic::Events);
    let read = timeout_at(by, memberships::read(&gateway.store, &topic, uid)).await;
    let read = read.map_err(|_elapsed| NoStream::MembershipsBehind)?;
    let stored = read.map_err(|error| {
        tracing::debug!(%error, "memberships are not read");
        NoStream::MembershipsBehind
    })?;
    let mut adoption = Adoption::new(uid, stored);
    while !gateway.hub().adopt(&mut adoption, gateway.now_ms())? {
        if Instant::now() >= by {
            return Err(NoStream::MembershipsBehind);
        }
        adoption.settle();
        yield_now().await;
    }
    Ok(())
}

/// A token may be ahead of this gateway's rings (W9), but not of the log: then the token is of another log, and a device that went on from it would
/// miss everything up to there (W1).
async fn expect_on_log(gateway: &Gateway, since: &SyncToken, by: Instant) -> Result<(), NoStream> {
    if !gateway.hub().is_behind(since)? {
        return Ok(());
    }
    match timeout_at(by, gateway.log_ends.reach(since)).await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(NoStream::SyncRequired),
        Ok(Err(error)) => {
            tracing::debug!(%error, "where chat.events ends is not known");
            Err(NoStream::LogEndUnknown)
        }
        Err(_elapsed) => Err(NoStream::LogEndUnknown),
    }
}

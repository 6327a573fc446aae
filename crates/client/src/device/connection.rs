//! The connection of a device to a gateway: sync, stream, and again after whatever ends it.

use std::{collections::VecDeque, time::Duration};

use futures::{SinkExt as _, StreamExt as _};
use schemas::{ClientMsgId, DeviceClass, DeviceId, Mid, UserId};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{ClientRequestBuilder, Message as Frame, protocol::CloseFrame},
};

use super::{ChatKey, DeviceState, Presence, ServerFrame};
use crate::{ChangesQuery, Client, ClientError, MessagesQuery, Order, ReadOptions, SyncAnswer};

/// How long a gateway may be silent: two of its pings do not come.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a gateway may take to answer a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long after a refusal that may be passing.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The most messages or changes that a page has.
const PAGE: u8 = 200;
/// How many sends are under way at a time: a gateway closes a connection that sends too fast.
const WINDOW: usize = 32;
const SUBPROTOCOL: &str = "tidemark.v1.json";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
/// At most one call that is under way. It goes on where a call of [`Device::next`] is dropped, and ends with the device.
type Running<T> = JoinSet<Result<T, ClientError>>;

/// Which device, and where its gateways are.
#[derive(Clone, Debug)]
pub struct DeviceSettings {
    /// `ws://127.0.0.1:7308`, in the order in which they are tried.
    pub gateways: Vec<String>,
    /// The device's own id.
    pub device: DeviceId,
    /// Its class.
    pub class: DeviceClass,
    /// What the user calls it.
    pub name: String,
    /// The token to authenticate with; without one the stack is an open one, and the user is believed.
    pub token: Option<String>,
}

/// Something that a device has learned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// The stream goes on; everything is as it was on the log a moment ago.
    Connected,
    /// The connection is gone, for this reason; it is made again.
    Disconnected(String),
    /// A chat has changed.
    Chat(ChatKey),
    /// A sync has changed several.
    Synced,
    /// A send is a message with this number; `None` for a repeat whose number is not known any more.
    Sent(ClientMsgId, Option<Mid>),
    /// A send will not be done, for this reason.
    Refused(ClientMsgId, String),
    /// A user types in a chat, at this moment.
    Typing(ChatKey, UserId),
    /// Whether the user that the device looks at is connected.
    Presence(Presence),
}

/// A device that is connected, or tries to be.
pub struct Device {
    client: Client,
    settings: DeviceSettings,
    state: DeviceState,
    connecting: Running<Socket>,
    socket: Option<Socket>,
    /// A page of a sync that the gateway requires.
    syncing: Running<SyncAnswer>,
    /// Sends that have not been answered, oldest first. They go out again on each new connection: a repeat is no second message.
    unanswered: VecDeque<(ClientMsgId, ChatKey, String)>,
    /// How many of them, the first ones, were written on this connection; `None` before its stream begins.
    written: Option<usize>,
    /// When the next attempt to connect may begin, and the pause after it.
    attempt: (Instant, Duration),
    gateway: usize,
    silent_until: Instant,
    /// When what was refused for the moment is sent again.
    again_at: Option<Instant>,
    /// What the user looks at.
    focus: Option<ChatKey>,
}

impl Device {
    /// Not connected yet.
    ///
    /// # Errors
    /// There is no gateway, or the token does not fit into a header.
    pub fn new(
        client: Client,
        settings: DeviceSettings,
        state: DeviceState,
    ) -> Result<Self, ClientError> {
        if settings.gateways.is_empty() {
            return Err(ClientError::InvalidSettings("there is no gateway".into()));
        }
        let now = Instant::now();
        let device = Self {
            client,
            settings,
            state,
            connecting: JoinSet::new(),
            socket: None,
            syncing: JoinSet::new(),
            unanswered: VecDeque::new(),
            written: None,
            attempt: (now, FIRST_PAUSE),
            gateway: 0,
            silent_until: now,
            again_at: None,
            focus: None,
        };
        device.request()?;
        Ok(device)
    }

    /// What the device knows: to be stored, if it is to outlive the program.
    #[must_use]
    pub fn state(&self) -> &DeviceState {
        &self.state
    }

    /// What the device knows; the connection ends.
    #[must_use]
    pub fn into_state(self) -> DeviceState {
        self.state
    }

    /// How many sends have not been answered.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Waits for the next update. Connects, syncs and resumes as needed, and goes on where an earlier call was dropped.
    ///
    /// # Errors
    /// A gateway said that the device is not to come back, or a service that it may not read: the next call would end in the same way.
    pub async fn next(&mut self) -> Result<Update, ClientError> {
        loop {
            match self.step().await {
                Ok(None) => {}
                Ok(Some(update)) => return Ok(update),
                Err(error) if error.is_retryable() => {
                    return Ok(self.disconnected(error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What is to be done next. Dropped at any point, the next call does it.
    async fn step(&mut self) -> Result<Option<Update>, ClientError> {
        let Some(socket) = &mut self.socket else {
            self.connect().await?;
            return Ok(None);
        };
        let again_at = self.again_at;
        let frame = tokio::select! {
            frame = socket.next() => frame,
            answer = finish(&mut self.syncing) => return Ok(self.synced(answer?).await),
            () = sleep_until(self.silent_until) => {
                return Ok(Some(self.disconnected("the gateway is silent".into())));
            }
            () = sleep_until(again_at.unwrap_or(self.silent_until)), if again_at.is_some() => {
                self.write_unanswered_again().await;
                return Ok(None);
            }
        };
        self.silent_until = Instant::now() + SILENCE;
        match frame {
            Some(Ok(Frame::Text(text))) => self.take(&text).await,
            Some(Ok(Frame::Close(close))) => self.closed(close).map(Some),
            Some(Ok(_)) => Ok(None),
            Some(Err(error)) => Ok(Some(self.disconnected(error.to_string()))),
            None => Ok(Some(self.disconnected("the gateway is gone".into()))),
        }
    }

    /// Sends a message, now or as soon as there is a connection; [`Update::Sent`] or [`Update::Refused`] tells the outcome.
    pub async fn send(&mut self, to: ChatKey, client_msg_id: ClientMsgId, msg: String) {
        self.unanswered.push_back((client_msg_id, to, msg));
        self.write_unanswered().await;
    }

    /// Says that the user has read a chat up to a message. Lost where there is no connection.
    pub async fn read(&mut self, of: ChatKey, mid: Mid) {
        let frame = json!({"type": "read", "ref": "", "mid": mid.get()});
        self.write(&with_chat(frame, "peer", of)).await;
    }

    /// Says that the user types in a chat. Lost where there is no connection.
    pub async fn typing(&mut self, to: ChatKey) {
        let frame = json!({"type": "typing"});
        self.write(&with_chat(frame, "to", to)).await;
    }

    /// Says which chat the user looks at, or none: [`Update::Presence`] tells whether its user is there, and [`Update::Typing`] who types in it if it
    /// is a group.
    pub async fn focus(&mut self, at: Option<ChatKey>) {
        self.focus = at;
        self.write_focus().await;
    }

    async fn write_focus(&mut self) {
        let nothing = json!({"type": "focus"});
        let frame = match self.focus {
            Some(at) => with_chat(nothing, "peer", at),
            None => nothing,
        };
        self.write(&frame).await;
    }

    /// Fetches what is missing of a chat.
    ///
    /// # Errors
    /// It was refused, or not answered in time.
    pub async fn fetch(&mut self, key: ChatKey) -> Result<(), ClientError> {
        let mut next = self.missing(key).map(|missing| missing.after_mid);
        while let Some(after) = next {
            let page = self.messages(key, after).await?;
            next = self.state.take_messages(key, page);
        }
        let mut next = self.missing(key).map(|missing| missing.after_chg);
        while let Some(after) = next {
            let page = self.changes(key, after).await?;
            next = self.state.take_changes(key, after, page);
        }
        Ok(())
    }

    fn missing(&self, key: ChatKey) -> Option<super::Missing> {
        self.state.chats().get(&key)?.missing()
    }

    fn read_options(&self, of: ChatKey) -> ReadOptions {
        ReadOptions {
            token: self.state.known_of(of),
            ..ReadOptions::default()
        }
    }

    async fn messages(&self, of: ChatKey, after: Mid) -> Result<crate::Messages, ClientError> {
        let which = MessagesQuery {
            order: Order::After(after),
            limit: Some(PAGE),
            profiles: false,
        };
        let (uid, options) = (self.state.uid(), self.read_options(of));
        match of {
            ChatKey::User(peer) => self.client.messages(uid, peer, &which, &options).await,
            ChatKey::Group(gid) => self.client.group_messages(gid, uid, &which, &options).await,
        }
    }

    async fn changes(
        &self,
        of: ChatKey,
        after: schemas::Chg,
    ) -> Result<crate::Changes, ClientError> {
        let which = ChangesQuery {
            after,
            limit: Some(PAGE),
        };
        let (uid, options) = (self.state.uid(), self.read_options(of));
        match of {
            ChatKey::User(peer) => self.client.changes(uid, peer, &which, &options).await,
            ChatKey::Group(gid) => self.client.group_changes(gid, uid, &which, &options).await,
        }
    }

    /// Asks for the next page of a sync, over HTTP.
    fn sync(&mut self, after: Duration) {
        let (client, uid) = (self.client.clone(), self.state.uid());
        let token = self.state.token().cloned();
        self.syncing.spawn(async move {
            sleep(after).await;
            client.sync(uid, token.as_ref(), None).await
        });
    }

    /// Takes a page of a sync. Behind the last one the stream goes on.
    async fn synced(&mut self, answer: SyncAnswer) -> Option<Update> {
        if self.state.take_sync(answer) {
            self.sync(Duration::ZERO);
            return None;
        }
        let since = self.state.token().map(ToString::to_string);
        self.write(&json!({"type": "resume", "since": since})).await;
        Some(Update::Synced)
    }

    async fn take(&mut self, text: &str) -> Result<Option<Update>, ClientError> {
        let frame: ServerFrame = serde_json::from_str(text)
            .map_err(|error| ClientError::invalid_response(self.url(), error))?;
        // A welcome alone is not: a gateway may close for what is sent behind it.
        if matches!(
            frame,
            ServerFrame::Event(_) | ServerFrame::Sent { .. } | ServerFrame::Ping { .. }
        ) {
            self.attempt.1 = FIRST_PAUSE;
        }
        Ok(match frame {
            ServerFrame::Welcome { .. } => {
                self.write_unanswered_again().await;
                if self.focus.is_some() {
                    self.write_focus().await;
                }
                Some(Update::Connected)
            }
            ServerFrame::SyncRequired { after_ms, .. } => {
                self.sync(Duration::from_millis(after_ms));
                None
            }
            ServerFrame::Event(event) => self.state.take_event(*event).map(Update::Chat),
            ServerFrame::Head(head) => self.state.take_head(head).map(Update::Chat),
            ServerFrame::Ping { token } => {
                if let Some(token) = token {
                    let invalid = |error| ClientError::invalid_response(self.url(), error);
                    self.state.take_ping(&token.parse().map_err(invalid)?);
                }
                self.write(&json!({"type": "pong"})).await;
                None
            }
            ServerFrame::Sent { reference, mid } => {
                let mid = mid.and_then(|mid| Mid::try_from(mid).ok());
                let id = self.answered(&reference).await;
                id.map(|id| Update::Sent(id, mid))
            }
            ServerFrame::Refused { retry: true, .. } => {
                self.again_at
                    .get_or_insert_with(|| Instant::now() + AGAIN_AFTER);
                None
            }
            ServerFrame::Refused {
                reference, reason, ..
            } => {
                let id = self.answered(&reference).await;
                id.map(|id| Update::Refused(id, reason))
            }
            ServerFrame::Typing { from, gid } => {
                let chat = gid.map_or(ChatKey::User(from), ChatKey::Group);
                Some(Update::Typing(chat, from))
            }
            ServerFrame::Presence(presence) => Some(Update::Presence(presence)),
            ServerFrame::Reconnect { after_ms } => {
                let update = self.disconnected("the gateway ends".into());
                self.attempt.0 = Instant::now() + Duration::from_millis(after_ms);
                Some(update)
            }
            ServerFrame::Error { detail } => {
                return Err(ClientError::invalid_response(self.url(), detail));
            }
            // The close that follows says the same.
            ServerFrame::Replaced | ServerFrame::Accepted { .. } | ServerFrame::Unknown => None,
        })
    }

    async fn write_unanswered_again(&mut self) {
        self.again_at = None;
        self.written = Some(0);
        self.write_unanswered().await;
    }

    /// Writes the next sends, as many as may be under way.
    async fn write_unanswered(&mut self) {
        while let Some(written) = self.written
            && written < WINDOW.min(self.unanswered.len())
        {
            let (id, to, msg) = &self.unanswered[written];
            let frame = send_frame(*to, id, msg);
            self.written = Some(written + 1);
            self.write(&frame).await;
        }
    }

    async fn answered(&mut self, reference: &str) -> Option<ClientMsgId> {
        let mut unanswered = self.unanswered.iter();
        let at = unanswered.position(|(id, ..)| id.as_str() == reference)?;
        let answered = self.unanswered.remove(at);
        self.written = self.written.map(|all| all - usize::from(at < all));
        self.write_unanswered().await;
        answered.map(|(id, ..)| id)
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        if self.connecting.is_empty() {
            let (at, url) = (self.attempt.0, self.url().to_owned());
            let (request, hello) = (self.request()?, self.hello());
            self.connecting.spawn(async move {
                sleep_until(at).await;
                shake_hands(url, request, hello).await
            });
        }
        self.socket = Some(finish(&mut self.connecting).await?);
        self.silent_until = Instant::now() + SILENCE;
        Ok(())
    }

    fn hello(&self) -> Value {
        let DeviceSettings {
            device,
            class,
            name,
            ..
        } = &self.settings;
        let since = self.state.token().map(ToString::to_string);
        let device = json!({"id": device, "class": class, "name": name});
        json!({"type": "hello", "device": device, "since": since})
    }

    fn request(&self) -> Result<ClientRequestBuilder, ClientError> {
        let invalid = |detail: String| ClientError::InvalidSettings(detail);
        let url = format!("{}/v1/connect", self.url());
        let url = match &self.settings.token {
            Some(_) => url,
            None => format!("{url}?uid={}", self.state.uid()),
        };
        let uri = url.parse();
        let uri = uri.map_err(|error| invalid(format!("{url} is no URL: {error}")))?;
        let request = ClientRequestBuilder::new(uri).with_sub_protocol(SUBPROTOCOL);
        Ok(match &self.settings.token {
            Some(token) => request.with_header("authorization", format!("Bearer {token}")),
            None => request,
        })
    }

    fn url(&self) -> &str {
        &self.settings.gateways[self.gateway % self.settings.gateways.len()]
    }

    /// What cannot be written is lost with the connection, whose end shows where it is read.
    async fn write(&mut self, frame: &Value) {
        if let Some(socket) = &mut self.socket {
            let _ = socket.send(Frame::text(frame.to_string())).await;
        }
    }

    fn closed(&mut self, close: Option<CloseFrame>) -> Result<Update, ClientError> {
        let Some(close) = close else {
            return Ok(self.disconnected("the gateway closes".into()));
        };
        let (code, reason) = (u16::from(close.code), close.reason.to_string());
        if (4100..4200).contains(&code) {
            self.socket = None;
            let url = self.url().to_owned();
            return Err(ClientError::Closed { url, code, reason });
        }
        Ok(self.disconnected(format!("closed with {code}: {reason}")))
    }

    /// The next attempt is at the next gateway, after a pause that grows while none succeeds.
    fn disconnected(&mut self, why: String) -> Update {
        // Not all devices of a gateway that ends come back at once.
        let pause = self.attempt.1.mul_f64(rand::random_range(0.5..1.5));
        self.socket = None;
        self.connecting = JoinSet::new();
        self.syncing = JoinSet::new();
        self.written = None;
        self.gateway += 1;
        self.attempt.0 = Instant::now() + pause;
        self.attempt.1 = (2 * self.attempt.1).min(LONGEST_PAUSE);
        Update::Disconnected(why)
    }
}

fn send_frame(to: ChatKey, client_msg_id: &ClientMsgId, msg: &str) -> Value {
    let id = client_msg_id.as_str();
    let frame = json!({"type": "send", "ref": id, "client_msg_id": id, "msg": msg});
    with_chat(frame, "to", to)
}

/// A frame with its chat: a user in `user_field`, or a group in `gid`.
fn with_chat(mut frame: Value, user_field: &str, chat: ChatKey) -> Value {
    match chat {
        ChatKey::User(uid) => frame[user_field] = json!(uid),
        ChatKey::Group(gid) => frame["gid"] = json!(gid),
    }
    frame
}

/// Connects, and says hello.
async fn shake_hands(
    url: String,
    request: ClientRequestBuilder,
    hello: Value,
) -> Result<Socket, ClientError> {
    let unreachable = |cause: String| ClientError::Unreachable {
        url: url.clone(),
        cause,
    };
    let handshake = timeout(HANDSHAKE, connect_async(request)).await;
    let handshake = handshake.map_err(|_| unreachable("no answer in time".into()))?;
    let (mut socket, _) = handshake.map_err(|error| match error {
        tokio_tungstenite::tungstenite::Error::Http(response) => {
            let body = response.body().as_deref().unwrap_or_default();
            let body = String::from_utf8_lossy(body);
            let problem = crate::Problem::of_response(response.status(), &body);
            ClientError::Problem(Box::new(problem))
        }
        error => unreachable(error.to_string()),
    })?;
    let sent = socket.send(Frame::text(hello.to_string())).await;
    sent.map_err(|error| unreachable(error.to_string()))?;
    Ok(socket)
}

/// Waits for the end of what is under way, if something is.
async fn finish<T: 'static>(running: &mut Running<T>) -> Result<T, ClientError> {
    match running.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_types_and_who_is_there_is_handed_on_and_is_no_state() {
        let client = Client::builder("http://127.0.0.1:1", "http://127.0.0.1:1");
        let settings = DeviceSettings {
            gateways: vec!["ws://127.0.0.1:1".to_owned()],
            device: "a".to_owned().try_into().unwrap(),
            class: DeviceClass::Pc,
            name: String::new(),
            token: None,
        };
        let uid = |uid: i64| UserId::try_from(uid).unwrap();
        let state = DeviceState::new(uid(1));
        let mut device = Device::new(client.build().unwrap(), settings, state).unwrap();
        let gid = 5.try_into().unwrap();
        for (frame, update) in [
            (
                r#"{"type":"typing","from":"2","to":"1"}"#,
                Update::Typing(ChatKey::User(uid(2)), uid(2)),
            ),
            (
                r#"{"type":"typing","from":"2","gid":"5"}"#,
                Update::Typing(ChatKey::Group(gid), uid(2)),
            ),
            (
                r#"{"type":"presence","uid":"2","online":true,"classes":["mobile"]}"#,
                Update::Presence(Presence {
                    uid: uid(2),
                    online: Some(true),
                    classes: vec![DeviceClass::Mobile],
                    last_seen: None,
                }),
            ),
            (
                r#"{"type":"presence","uid":"2","online":null}"#,
                Update::Presence(Presence {
                    uid: uid(2),
                    online: None,
                    classes: Vec::new(),
                    last_seen: None,
                }),
            ),
        ] {
            assert_eq!(device.take(frame).await.unwrap(), Some(update), "{frame}");
        }
        assert!(device.state().chats().is_empty());
    }
}

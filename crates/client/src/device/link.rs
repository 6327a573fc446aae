//! A connection to one of the gateways, again after whatever ends it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use schemas::UserId;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_tungstenite::tungstenite::{ClientRequestBuilder, Message, protocol::CloseFrame};

use super::{DeviceSettings, ServerFrame, socket::Socket};
use crate::{Client, ClientError};

/// How long a gateway may be silent: two of its pings do not come.
const SILENCE: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const SUBPROTOCOL: &str = "tidemark.v1.json";
/// The code of a connection that ended without one (RFC 6455).
const NO_CODE: u16 = 1006;

/// At most one call that is under way. It goes on where a call of [`Device::next`](super::Device::next) is dropped, and ends with the device.
pub(super) type Running<T> = JoinSet<Result<T, ClientError>>;

pub(super) struct Link {
    settings: DeviceSettings,
    uid: UserId,
    tls: Option<Arc<rustls::ClientConfig>>,
    connecting: Running<Socket>,
    socket: Option<Socket>,
    /// Frames that came while nobody took one.
    waiting: VecDeque<ServerFrame>,
    gateway: usize,
    silent_until: Instant,
    /// When the next attempt may begin.
    not_before: Instant,
    pauses: Pauses,
}

impl Link {
    pub(super) fn new(
        client: &Client,
        settings: DeviceSettings,
        uid: UserId,
    ) -> Result<Self, ClientError> {
        settings.check()?;
        let now = Instant::now();
        let link = Self {
            settings,
            uid,
            tls: client.tls.clone(),
            connecting: JoinSet::new(),
            socket: None,
            waiting: VecDeque::new(),
            gateway: 0,
            silent_until: now,
            not_before: now,
            pauses: Pauses::default(),
        };
        link.request()?;
        Ok(link)
    }

    pub(super) fn settings(&self) -> &DeviceSettings {
        &self.settings
    }

    /// Neither connected nor about to be.
    pub(super) fn is_idle(&self) -> bool {
        self.socket.is_none() && self.connecting.is_empty()
    }

    /// Connects as soon as it may.
    pub(super) fn connect(&mut self, since: Option<String>) -> Result<(), ClientError> {
        let DeviceSettings {
            device,
            class,
            name,
            ..
        } = &self.settings;
        let device = json!({"id": device, "class": class, "name": name});
        let hello = json!({"type": "hello", "device": device, "since": since});
        let (url, request, tls) = (self.url().to_owned(), self.request()?, self.tls.clone());
        let at = self.not_before;
        self.connecting.spawn(async move {
            sleep_until(at).await;
            Socket::connect(url, request, tls, hello).await
        });
        Ok(())
    }

    /// The next frame.
    pub(super) async fn next(&mut self) -> Result<ServerFrame, ClientError> {
        match self.waiting.pop_front() {
            Some(frame) => Ok(frame),
            None => self.receive().await,
        }
    }

    /// Reads, and hands nothing out, until a ping comes, which is to be answered soon.
    pub(super) async fn wait_for_ping(&mut self) -> Result<(), ClientError> {
        loop {
            let frame = self.receive().await?;
            let is_ping = matches!(frame, ServerFrame::Ping { .. });
            self.waiting.push_back(frame);
            if is_ping {
                return Ok(());
            }
        }
    }

    /// What has come already.
    pub(super) fn take_waiting(&mut self) -> Option<ServerFrame> {
        self.waiting.pop_front()
    }

    async fn receive(&mut self) -> Result<ServerFrame, ClientError> {
        if self.socket.is_none() {
            self.socket = Some(finish(&mut self.connecting).await?);
            self.silent_until = Instant::now() + SILENCE;
        }
        while let Some(socket) = &mut self.socket {
            let message = tokio::select! {
                biased;
                message = socket.next() => message,
                () = sleep_until(self.silent_until) => {
                    return Err(self.closed(NO_CODE, "the gateway is silent"));
                }
            };
            self.silent_until = Instant::now() + SILENCE;
            match message {
                Some(Ok(Message::Text(text))) => {
                    let frame = ServerFrame::read(&text);
                    return frame.map_err(|error| ClientError::invalid_response(self.url(), error));
                }
                Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) => {
                    return Err(self.closed(code.into(), reason));
                }
                Some(Ok(Message::Close(None))) | None => {
                    return Err(self.closed(NO_CODE, "the gateway is gone"));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(self.closed(NO_CODE, error)),
            }
        }
        // A handshake has put it there.
        std::future::pending().await
    }

    fn closed(&self, code: u16, reason: impl ToString) -> ClientError {
        let (url, reason) = (self.url().to_owned(), reason.to_string());
        ClientError::Closed { url, code, reason }
    }

    /// Lost where there is no connection, or that ends.
    pub(super) fn write(&mut self, frame: &Value) {
        if let Some(socket) = &mut self.socket {
            socket.push(frame);
        }
    }

    /// The device gets on: the next pause is a short one.
    pub(super) fn gets_on(&mut self) {
        self.pauses = Pauses::default();
    }

    /// The connection is over. The next attempt is at the next gateway, after a pause or after as long as the gateway says.
    pub(super) fn disconnect(&mut self, after: Option<Duration>) {
        let pause = self.pauses.next();
        self.socket = None;
        self.connecting = JoinSet::new();
        self.waiting.clear();
        self.gateway += 1;
        self.not_before = Instant::now() + after.unwrap_or(pause);
    }

    fn request(&self) -> Result<ClientRequestBuilder, ClientError> {
        let base = self.url().trim_end_matches('/');
        // A service is nobody's device without a uid.
        let url = format!("{base}/v1/connect?uid={}", self.uid);
        let uri = url
            .parse()
            .map_err(|error| ClientError::InvalidSettings(format!("{url} is no URL: {error}")))?;
        let request = ClientRequestBuilder::new(uri).with_sub_protocol(SUBPROTOCOL);
        Ok(match &self.settings.token {
            Some(token) => request.with_header("authorization", format!("Bearer {token}")),
            None => request,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.settings.gateways[self.gateway % self.settings.gateways.len()]
    }
}

/// They grow while the device does not get on.
struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// Not all devices of a gateway that ends come back at once.
    fn next(&mut self) -> Duration {
        let pause = self.0.mul_f64(rand::random_range(0.5..1.5));
        self.0 = (2 * self.0).min(LONGEST_PAUSE);
        pause
    }
}

/// Waits for the end of what is under way, if something is.
pub(super) async fn finish<T: 'static>(running: &mut Running<T>) -> Result<T, ClientError> {
    match running.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

    use super::*;
    use crate::{Problem, device::tests::connected};

    /// What the device in TypeScript does, too.
    #[derive(Deserialize)]
    struct Table {
        closes: BTreeMap<String, String>,
        statuses: BTreeMap<String, String>,
        pauses_ms: Vec<u64>,
        spread: [f64; 2],
        frames: Vec<Value>,
    }

    fn table() -> Table {
        let table = include_str!("../../../../tests/device-vectors/connection.json");
        serde_json::from_str(table).unwrap()
    }

    #[tokio::test]
    async fn a_close_code_or_a_status_says_whether_the_device_comes_back() {
        let Table {
            closes, statuses, ..
        } = table();
        let closes = closes.into_iter().map(|(code, expected)| {
            let closed = ClientError::Closed {
                url: String::new(),
                code: code.parse().unwrap(),
                reason: String::new(),
            };
            (closed, expected)
        });
        let statuses = statuses.into_iter().map(|(status, expected)| {
            let problem = Problem::of_response(status.parse().unwrap(), "");
            (ClientError::Problem(Box::new(problem)), expected)
        });
        for (error, expected) in closes.chain(statuses) {
            let mut device = connected();
            device.failed(error.clone());
            let outcome = match device.ended {
                Some(_) => "end",
                None => "reconnect",
            };
            assert_eq!(outcome, expected, "{error}");
        }
    }

    /// A gateway that welcomes and closes is not hurried.
    #[tokio::test]
    async fn pauses_are_short_again_once_something_arrives() {
        for case in table().frames {
            let mut device = connected();
            device.link.disconnect(None);
            let frame = serde_json::from_value(case["frame"].clone()).unwrap();
            device.take(frame).unwrap();
            let is_short = device.link.pauses.0 == FIRST_PAUSE;
            assert_eq!(json!(is_short), case["gets_on"], "{case}");
        }
    }

    /// Nothing would be different on the next connection.
    #[tokio::test]
    async fn pauses_grow_where_a_ping_cannot_be_read() {
        let mut device = connected();
        device.link.disconnect(None);
        let token = Some("of a later version".to_owned());
        device.take(ServerFrame::Ping { token }).unwrap_err();
        assert!(device.link.pauses.0 > FIRST_PAUSE);
    }

    #[tokio::test]
    async fn the_key_of_a_service_says_for_whom() {
        let mut device = connected();
        device.link.settings.token = Some("key".to_owned());
        let request = device.link.request().unwrap();
        let request = request.into_client_request().unwrap();
        assert_eq!(request.uri().query(), Some("uid=1"));
    }

    #[test]
    fn pauses_grow_and_differ_from_device_to_device() {
        let Table {
            pauses_ms,
            spread: [least, most],
            ..
        } = table();
        let mut of_many = Vec::new();
        for _ in 0..20 {
            let mut pauses = Pauses::default();
            for expected in pauses_ms.iter().copied().map(Duration::from_millis) {
                let pause = pauses.next();
                assert!(expected.mul_f64(least) <= pause && pause <= expected.mul_f64(most));
            }
            of_many.push(pauses.next());
        }
        of_many.dedup();
        assert!(of_many.len() > 1);
    }
}

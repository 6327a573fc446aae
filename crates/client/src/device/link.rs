//! A connection to one of the gateways, which is made again whenever it has ended.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use api::{ClientFrame, Hello, Object, ServerFrame, ShortText};
use schemas::UserId;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_tungstenite::tungstenite::{ClientRequestBuilder, Message, protocol::CloseFrame};

use super::{
    DeviceSettings,
    pace::{Pace, Rates},
    socket::Socket,
};
use crate::{Client, ClientError};

/// The ping interval of a gateway that does not tell its own, seconds.
const PING_SECONDS: u32 = 25;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const SUBPROTOCOL: &str = "tidemark.v1.json";
/// The code of a connection that ended without one (RFC 6455).
const NO_CODE: u16 = 1006;
/// The close code of a gateway for which the device was too fast.
const TOO_FAST: u16 = 4003;

/// At most one call that is under way. It goes on if a call of [`Device::next`](super::Device::next) is dropped, and ends with the device.
pub(super) type Running<T> = JoinSet<Result<T, ClientError>>;

pub(super) struct Link {
    settings: DeviceSettings,
    uid: UserId,
    tls: Option<Arc<rustls::ClientConfig>>,
    connecting: Running<Socket>,
    socket: Option<Socket>,
    /// Frames that were received and have yet to be handed out.
    waiting: VecDeque<ServerFrame<'static>>,
    gateway: usize,
    silent_until: Instant,
    /// How long this gateway may be silent.
    silence: Duration,
    /// When the next attempt may begin.
    not_before: Instant,
    pauses: Pauses,
    /// Kept over all connections: a new one does not bring a new budget.
    pace: Pace,
    /// When the stream of this connection began.
    stream_since: Option<Instant>,
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
            silence: silence(0),
            not_before: now,
            pauses: Pauses::default(),
            pace: Pace::default(),
            stream_since: None,
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
        let device = api::Device {
            id: device.clone(),
            class: *class,
            name: ShortText(name.clone()),
        };
        let hello = ClientFrame::Hello(Hello {
            device: Object(device),
            since: since.into(),
        });
        let (url, request, tls) = (self.url().to_owned(), self.request()?, self.tls.clone());
        let at = self.not_before;
        self.connecting.spawn(async move {
            sleep_until(at).await;
            Socket::connect(url, request, tls, text_of(&hello)).await
        });
        Ok(())
    }

    /// The next frame.
    pub(super) async fn next(&mut self) -> Result<ServerFrame<'static>, ClientError> {
        match self.waiting.pop_front() {
            Some(frame) => Ok(frame),
            None => self.receive().await,
        }
    }

    /// Reads frames, and hands none out, until a ping comes, which is to be answered soon.
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

    /// The next frame that was received already.
    pub(super) fn take_waiting(&mut self) -> Option<ServerFrame<'static>> {
        self.waiting.pop_front()
    }

    async fn receive(&mut self) -> Result<ServerFrame<'static>, ClientError> {
        if self.socket.is_none() {
            self.socket = Some(finish(&mut self.connecting).await?);
            self.silence = silence(0);
            self.silent_until = Instant::now() + self.silence;
        }
        while let Some(socket) = &mut self.socket {
            let message = tokio::select! {
                biased;
                message = socket.next() => message,
                () = sleep_until(self.silent_until) => {
                    return Err(self.closed(NO_CODE, "the gateway is silent"));
                }
            };
            self.silent_until = Instant::now() + self.silence;
            match message {
                Some(Ok(Message::Text(text))) => return self.read(&text),
                Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) => {
                    if code == TOO_FAST.into() {
                        self.pace.exhaust(Instant::now());
                    }
                    return Err(self.closed(code.into(), reason));
                }
                Some(Ok(Message::Close(None))) | None => {
                    return Err(self.closed(NO_CODE, "the gateway is gone"));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(self.closed(NO_CODE, error)),
            }
        }
        // Never reached: the handshake above has set the socket.
        std::future::pending().await
    }

    /// A frame, which may say how long the gateway may be silent.
    fn read(&mut self, text: &str) -> Result<ServerFrame<'static>, ClientError> {
        let frame = ServerFrame::read(text)
            .map_err(|error| ClientError::invalid_response(self.url(), error))?;
        if let ServerFrame::Welcome { ping_seconds, .. }
        | ServerFrame::SyncRequired { ping_seconds, .. } = frame
        {
            self.silence = silence(ping_seconds);
            self.silent_until = Instant::now() + self.silence;
        }
        Ok(frame)
    }

    fn closed(&self, code: u16, reason: impl ToString) -> ClientError {
        let (url, reason) = (self.url().to_owned(), reason.to_string());
        ClientError::Closed { url, code, reason }
    }

    /// Writes a frame. It is lost if there is no connection, or if the connection ends.
    pub(super) fn write(&mut self, frame: &ClientFrame) {
        if let Some(socket) = &mut self.socket {
            let text = text_of(frame);
            self.pace.spend(text.len(), Instant::now());
            socket.push(text);
        }
    }

    /// Writes a frame unless the gateway would find it too much at present.
    ///
    /// # Errors
    /// When it may be written.
    pub(super) fn try_write(&mut self, frame: &ClientFrame) -> Result<(), Instant> {
        let (bytes, now) = (text_of(frame).len(), Instant::now());
        match self.pace.free_at(bytes, now) {
            at if at > now => Err(at),
            _ => {
                self.write(frame);
                Ok(())
            }
        }
    }

    /// The stream begins, with these rates. The beginning alone does not shorten the next pause: a gateway may welcome every device, and then close.
    pub(super) fn welcomed(&mut self, rates: Rates) {
        self.stream_since = Some(Instant::now());
        self.pace.set(rates);
    }

    /// The device gets on: the next pause is a short one.
    pub(super) fn gets_on(&mut self) {
        self.pauses = Pauses::default();
    }

    /// The connection is over. The next attempt is at the next gateway, after a pause of `at_least`, which the gateway says, or more. The pause is a
    /// short one if the stream lasted as long as the longest pause.
    pub(super) fn disconnect(&mut self, at_least: Duration) {
        let stream_since = self.stream_since.take();
        if stream_since.is_some_and(|since| since.elapsed() >= LONGEST_PAUSE) {
            self.gets_on();
        }
        let pause = self.pauses.next();
        self.socket = None;
        self.connecting = JoinSet::new();
        self.waiting.clear();
        self.gateway += 1;
        self.not_before = Instant::now() + pause.max(at_least);
    }

    fn request(&self) -> Result<ClientRequestBuilder, ClientError> {
        let base = self.url().trim_end_matches('/');
        // The token of a service names no user, so the URL does.
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

fn text_of(frame: &ClientFrame) -> String {
    serde_json::to_string(frame).expect("frames have string keys")
}

/// How long a gateway that pings every `ping_seconds` may be silent: until two of its pings have not come.
/// 0: the gateway does not tell its interval.
fn silence(ping_seconds: u32) -> Duration {
    let ping_seconds = match ping_seconds {
        0 => PING_SECONDS,
        said => said,
    };
    Duration::from_secs(2 * u64::from(ping_seconds) + 10)
}

/// The pauses before attempts. They grow while the device does not get on.
struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// The pause is random, so that not all devices of a gateway that ends come back at once.
    fn next(&mut self) -> Duration {
        let pause = self.0.mul_f64(rand::random_range(0.5..1.5));
        self.0 = (2 * self.0).min(LONGEST_PAUSE);
        pause
    }
}

/// Waits until the call that is under way has ended; without end if there is none.
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

    use schemas::Recipient;
    use serde::Deserialize;
    use serde_json::{Value, json};
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
        stream_ms: u64,
        silence_ms: Vec<(Option<u32>, u64)>,
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

    #[tokio::test]
    async fn the_next_pause_is_a_short_one_once_the_device_gets_on() {
        let mut device = connected();
        let id = crate::new_client_msg_id();
        let peer = Recipient::User(2.try_into().unwrap());
        device.send(peer, id, "one".to_owned()).unwrap();
        for case in table().frames {
            device.link.pauses.0 = LONGEST_PAUSE;
            let frame = serde_json::from_value(case["frame"].clone()).unwrap();
            device.take(frame).unwrap();
            let is_short = device.link.pauses.0 == FIRST_PAUSE;
            assert_eq!(json!(is_short), case["gets_on"], "{case}");
        }
    }

    #[tokio::test]
    async fn a_pause_is_a_short_one_after_a_stream_that_lasted() {
        let lasts = Duration::from_millis(table().stream_ms);
        for (stream, is_short) in [(Some(lasts), true), (Some(lasts / 2), false), (None, false)] {
            let mut device = connected();
            device.link.disconnect(Duration::ZERO);
            if let Some(stream) = stream {
                let welcome = json!({"type": "welcome", "resumed": true});
                device
                    .take(serde_json::from_value(welcome).unwrap())
                    .unwrap();
                device.link.stream_since = Some(Instant::now() - stream);
            }
            device.link.disconnect(Duration::ZERO);
            let next = device.link.pauses.0;
            assert_eq!(next == 2 * FIRST_PAUSE, is_short, "{stream:?}: {next:?}");
        }
    }

    #[tokio::test]
    async fn a_gateway_may_be_silent_for_as_long_as_two_of_its_pings_take() {
        for (ping_seconds, expected) in table().silence_ms {
            let expected = Duration::from_millis(expected);
            for frame in [
                json!({"type": "welcome", "resumed": true, "ping_seconds": ping_seconds}),
                json!({"type": "sync_required", "after_ms": 0, "ping_seconds": ping_seconds}),
            ] {
                let mut link = connected().link;
                link.read(&frame.to_string()).unwrap();
                assert_eq!(link.silence, expected, "{frame}");
                assert!(link.silent_until.elapsed().is_zero());
            }
        }
    }

    /// Nothing would be different on the next connection.
    #[tokio::test]
    async fn pauses_grow_where_a_ping_cannot_be_read() {
        let mut device = connected();
        device.link.disconnect(Duration::ZERO);
        let token = Some("of a later version".into());
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

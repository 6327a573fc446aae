//! A producer and a reader over HTTP: the client crate with the retries of a test, and calls that are made only once, with any result.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use client::{ClientError, ConversationsQuery, ProfileItem, ReadOptions, Retry};
use schemas::{
    Change, ChangeContact, ChangeMessage, DeviceClass, InboundPosition, Mid, Profile, Recipient,
    command::{Command, ReadAck, SendMessage},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    Sent,
    deadline::{Deadline, POLL_INTERVAL, TIMEOUT},
};

/// Longer than the deadlines of all services.
const CALL_TIMEOUT: Duration = Duration::from_secs(40);

/// Calls ingest and query-api of a test environment.
#[derive(Clone, Debug)]
pub struct Client {
    api: client::Client,
    scheme: &'static str,
    unknown: Arc<AtomicU64>,
}

/// A response with any status.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// Null if the body is not JSON.
    pub body: Value,
}

/// A response as received.
#[derive(Clone, Debug)]
pub struct RawAnswer {
    pub status: u16,
    /// Empty if there is none.
    pub content_type: String,
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
}

impl Client {
    pub(crate) fn new(ingest: u16, query: u16) -> Result<Self> {
        Self::build("http", ingest, query, |builder| builder)
    }

    /// Calls services that speak TLS with a certificate of that authority (PEM).
    ///
    /// # Errors
    /// If the PEM has no certificate.
    pub fn over_tls(ingest: u16, query: u16, authority: &[u8]) -> Result<Self> {
        Self::build("https", ingest, query, |builder| {
            builder.authorities(authority)
        })
    }

    fn build(
        scheme: &'static str,
        ingest: u16,
        query: u16,
        change: impl FnOnce(client::Builder) -> client::Builder,
    ) -> Result<Self> {
        let builder = client::Client::builder(&base(scheme, ingest), &base(scheme, query))
            .timeout(CALL_TIMEOUT)
            .retry(Retry {
                within: TIMEOUT,
                first_pause: POLL_INTERVAL,
                longest_pause: POLL_INTERVAL,
            });
        Ok(Self {
            api: change(builder).build()?,
            scheme,
            unknown: Arc::default(),
        })
    }

    /// The client crate's client, as other programs use it.
    pub fn api(&self) -> &client::Client {
        &self.api
    }

    pub fn ingest_url(&self) -> String {
        self.api.ingest_url("")
    }

    pub fn query_url(&self) -> String {
        self.api.query_url("")
    }

    /// From now on also calls another instance of a service.
    pub(crate) fn add_instance(&self, service: &str, port: u16) {
        let base = base(self.scheme, port);
        match service {
            "ingest" => self.api.add_ingest(&base),
            "query-api" => self.api.add_query(&base),
            _ => {}
        }
    }

    /// How many posts and lines of batches got the answer that their outcome is unknown.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed) + self.api.unknown_outcomes()
    }

    fn count_unknown(&self, answer: &Value) {
        let is_unknown = answer["type"] == client::Problem::UNKNOWN_OUTCOME;
        self.unknown.fetch_add(is_unknown.into(), Ordering::Relaxed);
    }

    /// Posts JSON to ingest, once.
    ///
    /// # Errors
    /// If there was no response.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let url = self.api.ingest_url(path);
        let answer = self.call(self.api.http().post(url).json(body)).await?;
        self.count_unknown(&answer.body);
        Ok(answer)
    }

    /// Posts bytes to ingest, once.
    ///
    /// # Errors
    /// If there was no response.
    pub async fn post_raw(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> Result<Answer> {
        let body = Some((content_type.to_owned(), body.into()));
        let url = self.api.ingest_url(path);
        let answer = self.send_to("POST", &url, body).await?;
        Ok(Answer {
            status: answer.status,
            body: serde_json::from_str(&answer.text).unwrap_or_default(),
        })
    }

    /// Sends a request with any method, body and media type, once.
    ///
    /// # Errors
    /// If there was no response.
    pub async fn send_to(
        &self,
        method: &str,
        url: &str,
        body: Option<(String, Vec<u8>)>,
    ) -> Result<RawAnswer> {
        let http = self.api.http();
        let mut request = http.request(method.parse()?, url).timeout(CALL_TIMEOUT);
        if let Some((content_type, body)) = body {
            request = request.header("content-type", content_type).body(body);
        }
        let response = request.send().await?;
        let header = response.headers().get("content-type");
        Ok(RawAnswer {
            status: response.status().as_u16(),
            content_type: header
                .map_or("", |value| value.to_str().unwrap_or(""))
                .to_owned(),
            text: String::from_utf8_lossy(&response.bytes().await?).into_owned(),
        })
    }

    /// Sends a message until it is accepted, always with the same id.
    ///
    /// # Errors
    /// If the message is refused, or not accepted in time.
    pub async fn send(
        &self,
        srcid: i64,
        destid: i64,
        client_msg_id: &str,
        msg: &str,
    ) -> Result<InboundPosition> {
        let message = message(srcid, destid, client_msg_id, msg)?;
        Ok(self.api.post_command(message).await?.position())
    }

    /// Sends messages to one user in a batch until all are accepted.
    ///
    /// # Errors
    /// If a message is refused, or they are not accepted in time.
    pub(crate) async fn send_batch(
        &self,
        destid: i64,
        messages: &[Sent],
    ) -> Result<Vec<InboundPosition>> {
        let event = |sent: &Sent| {
            let message = message(sent.srcid, destid, &sent.client_msg_id, &sent.msg)?;
            Ok(Command::Send(message))
        };
        let events: Vec<Command> = messages.iter().map(event).collect::<Result<_>>()?;
        self.post_events(&events).await
    }

    /// Posts events in a batch until all are accepted.
    ///
    /// # Errors
    /// If an event is refused, or they are not accepted in time.
    pub async fn post_events(&self, events: &[Command]) -> Result<Vec<InboundPosition>> {
        let lines: Vec<String> = events.iter().map(client::line).collect();
        let deadline = Deadline::start("a batch");
        let batch = loop {
            let posted = self.api.post_batch(&lines, lines.len(), |_| ());
            // A response that broke off does not cover the later lines, so all are posted again.
            match timeout(TIMEOUT, posted).await? {
                Ok(batch) => break batch,
                Err(error) => deadline.pause(error).await?,
            }
        };
        ensure!(batch.rejected.is_empty(), "{:?}", batch.rejected);
        ensure!(batch.accepted.len() == lines.len(), "{batch:?}");
        Ok(batch.accepted.iter().map(|one| one.position).collect())
    }

    /// Posts a read-ack until it is accepted.
    ///
    /// # Errors
    /// If the read-ack is refused, or not accepted in time.
    pub async fn ack(
        &self,
        uid: i64,
        peer: i64,
        device: DeviceClass,
        mid: i64,
    ) -> Result<InboundPosition> {
        let ack = ReadAck {
            uid: uid.try_into()?,
            to: Recipient::User(peer.try_into()?),
            device,
            mid: Some(Mid::try_from(mid)?),
        };
        Ok(self.api.post_command(ack).await?.position())
    }

    /// Posts a change to a message until it is accepted.
    ///
    /// # Errors
    /// If the change is refused, or not accepted in time.
    pub async fn change_message(
        &self,
        by: i64,
        peer: i64,
        mid: i64,
        change: Change,
    ) -> Result<InboundPosition> {
        let change = ChangeMessage {
            by: by.try_into()?,
            to: Recipient::User(peer.try_into()?),
            mid: mid.try_into()?,
            change,
        };
        Ok(self.api.post_command(change).await?.position())
    }

    /// Posts a flag of a contact until it is accepted.
    ///
    /// # Errors
    /// If the flag is refused, or not accepted in time.
    pub async fn flag_contact(&self, uid: i64, peer: i64, flag: &str) -> Result<InboundPosition> {
        let set = |name: &str| (name == flag).then_some(true);
        let change = ChangeContact {
            uid: uid.try_into()?,
            peer: peer.try_into()?,
            favourite: set("favourite"),
            pinned: set("pinned"),
            muted: set("muted"),
            blocked: set("blocked"),
            deleted: false,
            by_user: false,
        };
        Ok(self.api.post_command(change).await?.position())
    }

    /// Posts a profile until it is accepted.
    ///
    /// # Errors
    /// If the profile is refused, or not accepted in time.
    pub async fn set_profile(&self, profile: &Profile) -> Result<InboundPosition> {
        Ok(self.api.post_command(profile.clone()).await?.position())
    }

    /// A user's profile, once it reflects the events at `after`.
    ///
    /// # Errors
    /// If the profile is not returned in time.
    pub async fn profile(
        &self,
        uid: i64,
        after: &[InboundPosition],
    ) -> Result<Option<ProfileItem>> {
        let options = ReadOptions::after(after.iter().copied());
        Ok(self.api.profile(uid.try_into()?, &options).await?)
    }

    /// The profiles that come with the user's list of conversations.
    ///
    /// # Errors
    /// If they are not returned in time.
    pub async fn profiles_of_list(
        &self,
        uid: i64,
        after: &[InboundPosition],
    ) -> Result<Option<ProfileItem>> {
        let options = ReadOptions::after(after.iter().copied());
        let which = ConversationsQuery {
            profiles: true,
            ..ConversationsQuery::default()
        };
        let uid = uid.try_into()?;
        let list = self.api.conversations(uid, &which, &options).await?;
        Ok(list.profiles.unwrap_or_default().remove(&uid))
    }

    /// Posts an NDJSON batch once. Returns one result a line, and the summary.
    ///
    /// # Errors
    /// If there was no complete response.
    pub async fn post_batch(&self, body: impl Into<reqwest::Body>) -> Result<Vec<Value>> {
        let request = self
            .api
            .http()
            .post(self.api.ingest_url("/v1/events"))
            .timeout(CALL_TIMEOUT)
            .header("content-type", "application/x-ndjson")
            .body(body);
        let response = request.send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status == 200, "a batch is answered {status}: {text}");
        let results = text.lines().map(|line| {
            let result = serde_json::from_str(line);
            result.with_context(|| format!("no JSON: {line}"))
        });
        let results: Vec<Value> = results.collect::<Result<_>>()?;
        results.iter().for_each(|result| self.count_unknown(result));
        Ok(results)
    }

    /// Asks query-api once.
    ///
    /// # Errors
    /// If there was no response.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.call(self.api.http().get(self.api.query_url(path)))
            .await
    }

    /// Asks the service on a port once.
    ///
    /// # Errors
    /// If there was no response.
    pub async fn get_at(&self, port: u16, path: &str) -> Result<Answer> {
        let url = base(self.scheme, port) + path;
        self.call(self.api.http().get(url)).await
    }

    pub(crate) async fn get_text(&self, port: u16, path: &str) -> Result<String> {
        let url = base(self.scheme, port) + path;
        Ok(self.send_to("GET", &url, None).await?.text)
    }

    async fn call(&self, request: reqwest::RequestBuilder) -> Result<Answer> {
        let response = request.timeout(CALL_TIMEOUT).send().await?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        Ok(Answer {
            status,
            body: serde_json::from_str(&text).unwrap_or_default(),
        })
    }

    /// Asks query-api until it answers 200.
    ///
    /// # Errors
    /// If the query is refused, or not answered in time.
    pub async fn ask(&self, path: &str) -> Result<Value> {
        let answer: Result<Value, ClientError> = self.api.get(path).await;
        answer.with_context(|| path.to_owned())
    }

    /// A user's unread messages by sender, no earlier than `after`.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn unread(
        &self,
        uid: i64,
        device: DeviceClass,
        after: &[InboundPosition],
    ) -> Result<BTreeMap<i64, i64>> {
        let path = format!("/v1/users/{uid}/unread?device={device}{}", suffix(after));
        let answer = self.ask(&path).await?;
        ensure!(answer.get("unknown").is_none(), "{path}: {answer}");
        let counts = answer["unread"].as_object().context("no counts")?;
        let counts = counts.iter().map(|(peer, count)| {
            let count = count.as_i64().context("a count is no number")?;
            Ok((peer.parse()?, count))
        });
        let counts: BTreeMap<i64, i64> = counts.collect::<Result<_>>()?;
        ensure!(answer["total"] == counts.values().sum::<i64>(), "{answer}");
        Ok(counts)
    }

    /// The whole history of a conversation, oldest first, page by page, no earlier than `after`.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn history(
        &self,
        uid: i64,
        peer: i64,
        after: &[InboundPosition],
    ) -> Result<Vec<Value>> {
        let path = format!("/v1/users/{uid}/conversations/{peer}/messages?limit=200");
        self.all_after(&path, after).await
    }

    /// The whole history of a group as a member sees it, oldest first, no earlier than `after`.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn group_history(
        &self,
        gid: i64,
        uid: i64,
        after: &[InboundPosition],
    ) -> Result<Vec<Value>> {
        let path = format!("/v1/groups/{gid}/messages?uid={uid}&limit=200");
        self.all_after(&path, after).await
    }

    async fn all_after(&self, path: &str, after: &[InboundPosition]) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        let mut next = Some("after_mid=0".to_owned());
        while let Some(start) = next {
            let page = self
                .ask(&format!("{path}&{start}{}", suffix(after)))
                .await?;
            let found = page["items"].as_array().context("no items")?;
            items.extend(found.iter().cloned());
            next = page["next"].as_str().map(str::to_owned);
        }
        Ok(items)
    }

    /// Posts an event in a call of its own, until it is accepted.
    ///
    /// # Errors
    /// If the event is refused, or not accepted in time.
    pub async fn post_event(&self, event: &Command) -> Result<InboundPosition> {
        Ok(self.api.post_command(event.clone()).await?.position())
    }

    /// The groups of a user, page by page, no earlier than `after`.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn groups(&self, uid: i64, after: &[InboundPosition]) -> Result<Vec<Value>> {
        let path = format!("/v1/users/{uid}/groups?limit=500{}", suffix(after));
        self.all_by_cursor(&path).await
    }

    /// The conversation list of a user, page by page, no earlier than `after`.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn conversations(&self, uid: i64, after: &[InboundPosition]) -> Result<Vec<Value>> {
        let path = format!("/v1/users/{uid}/conversations?limit=200{}", suffix(after));
        self.all_by_cursor(&path).await
    }

    async fn all_by_cursor(&self, path: &str) -> Result<Vec<Value>> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.ask(&format!("{path}{cursor}")).await?;
            let found = page["items"].as_array().context("no items")?;
            items.extend(found.iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(items),
            }
        }
    }

    /// The outcome of a post, once the sequencer has handled it.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn outcome(&self, position: InboundPosition) -> Result<Value> {
        let path = format!("/v1/inbound/{}/{}", position.partition, position.offset);
        let deadline = Deadline::start(&path);
        loop {
            let outcome = self.ask(&path).await?;
            if outcome["state"] != "pending" {
                return Ok(outcome);
            }
            deadline.pause(outcome).await?;
        }
    }
}

fn message(srcid: i64, destid: i64, client_msg_id: &str, msg: &str) -> Result<SendMessage> {
    Ok(SendMessage {
        by_user: false,
        srcid: srcid.try_into()?,
        to: Recipient::User(destid.try_into()?),
        client_msg_id: client_msg_id.to_owned().try_into()?,
        msg: msg.to_owned(),
    })
}

fn base(scheme: &str, port: u16) -> String {
    format!("{scheme}://127.0.0.1:{port}")
}

fn suffix(after: &[InboundPosition]) -> String {
    let mut suffix: String = after.iter().map(|at| format!("&after={at}")).collect();
    if !suffix.is_empty() {
        suffix.push_str("&timeout_ms=30000");
    }
    suffix
}

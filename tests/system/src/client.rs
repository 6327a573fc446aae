//! A producer and a reader over HTTP.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use schemas::InboundPosition;
use serde_json::{Value, json};

use crate::{Device, patience::Wait};

/// Longer than any deadline of the services.
const LONGEST: Duration = Duration::from_secs(40);

/// Calls ingest and query-api of a environment.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    scheme: &'static str,
    ingest: Arc<Instances>,
    query: Arc<Instances>,
    unknown: Arc<AtomicU64>,
}

/// The instances of a service, called in turn.
#[derive(Debug)]
struct Instances {
    scheme: &'static str,
    ports: RwLock<Vec<u16>>,
    calls: AtomicUsize,
}

impl Instances {
    fn new(scheme: &'static str, port: u16) -> Self {
        Self {
            scheme,
            ports: RwLock::new(vec![port]),
            calls: AtomicUsize::default(),
        }
    }

    fn add(&self, port: u16) {
        let mut ports = self.ports.write().unwrap_or_else(PoisonError::into_inner);
        ports.push(port);
    }

    fn next(&self) -> String {
        let ports = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{}://127.0.0.1:{}", self.scheme, ports[call % ports.len()])
    }
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; null where it is no JSON.
    pub body: Value,
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct RawAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The header; empty where there is none.
    pub content_type: String,
    /// The body; what is no UTF-8 in it is replaced.
    pub text: String,
}

impl Client {
    pub(crate) fn new(ingest: u16, query: u16) -> Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(LONGEST)
            .build()?;
        Ok(Self::with(http, "http", ingest, query))
    }

    /// Calls services that speak TLS and show a certificate of that authority (PEM).
    ///
    /// # Errors
    /// It is no authority.
    pub fn over_tls(ingest: u16, query: u16, authority: &[u8]) -> Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(LONGEST)
            .tls_certs_only([reqwest::Certificate::from_pem(authority)?])
            .build()?;
        Ok(Self::with(http, "https", ingest, query))
    }

    fn with(http: reqwest::Client, scheme: &'static str, ingest: u16, query: u16) -> Self {
        Self {
            http,
            scheme,
            ingest: Arc::new(Instances::new(scheme, ingest)),
            query: Arc::new(Instances::new(scheme, query)),
            unknown: Arc::default(),
        }
    }

    /// Where ingest is.
    pub fn ingest_url(&self) -> String {
        self.ingest.next()
    }

    /// Where query-api is.
    pub fn query_url(&self) -> String {
        self.query.next()
    }

    /// Calls another instance of a service from now on, too.
    pub(crate) fn has_another(&self, service: &str, port: u16) {
        match service {
            "ingest" => self.ingest.add(port),
            "query-api" => self.query.add(port),
            _ => {}
        }
    }

    /// How many posts and lines of batches were answered that their outcome is unknown.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    fn note(&self, answer: &Value) {
        let is_unknown = answer["type"] == "/problems/unknown-outcome";
        self.unknown.fetch_add(is_unknown.into(), Ordering::Relaxed);
    }

    /// Posts JSON to ingest, once.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let request = self
            .http
            .post(format!("{}{path}", self.ingest.next()))
            .json(body);
        let answer = answer(request).await?;
        self.note(&answer.body);
        Ok(answer)
    }

    /// Posts bytes to ingest, once.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn post_raw(
        &self,
        path: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> Result<Answer> {
        let body = Some((content_type.to_owned(), body.into()));
        let answer = self
            .send_to("POST", &format!("{}{path}", self.ingest.next()), body)
            .await?;
        Ok(Answer {
            status: answer.status,
            body: serde_json::from_str(&answer.text).unwrap_or_default(),
        })
    }

    /// Sends whatever it is, with the media type of its body, once.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn send_to(
        &self,
        method: &str,
        url: &str,
        body: Option<(String, Vec<u8>)>,
    ) -> Result<RawAnswer> {
        let mut request = self.http.request(method.parse()?, url);
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

    /// Posts a message until it is accepted, always with the same id, as producers are told to.
    ///
    /// # Errors
    /// It is refused, or not accepted in time.
    pub async fn send(
        &self,
        srcid: i64,
        destid: i64,
        client_msg_id: &str,
        msg: &str,
    ) -> Result<InboundPosition> {
        let body = json!({
            "srcid": srcid.to_string(),
            "destid": destid.to_string(),
            "client_msg_id": client_msg_id,
            "msg": msg,
        });
        self.post_until_accepted("/v1/messages", &body).await
    }

    /// Posts a read-ack until it is accepted.
    ///
    /// # Errors
    /// It is refused, or not accepted in time.
    pub async fn ack(
        &self,
        uid: i64,
        peer: i64,
        device: Device,
        mid: i64,
    ) -> Result<InboundPosition> {
        let body = json!({
            "uid": uid.to_string(),
            "peer": peer.to_string(),
            "device": device.to_string(),
            "mid": mid,
        });
        self.post_until_accepted("/v1/read-acks", &body).await
    }

    async fn post_until_accepted(&self, path: &str, body: &Value) -> Result<InboundPosition> {
        let wait = Wait::begin(path);
        loop {
            match final_or_missing(self.post(path, body).await)? {
                Ok(accepted) => return position_of(&accepted.body),
                Err(missing) => wait.again(missing).await?,
            }
        }
    }

    /// Posts an NDJSON batch once; one result a line, and the summary.
    ///
    /// # Errors
    /// There was no whole answer.
    pub async fn post_batch(&self, body: impl Into<reqwest::Body>) -> Result<Vec<Value>> {
        let request = self
            .http
            .post(format!("{}/v1/events", self.ingest.next()))
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
        results.iter().for_each(|result| self.note(result));
        Ok(results)
    }

    /// Asks query-api once.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        answer(self.http.get(format!("{}{path}", self.query.next()))).await
    }

    /// Asks the service on a port once.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn get_at(&self, port: u16, path: &str) -> Result<Answer> {
        let url = format!("{}://127.0.0.1:{port}{path}", self.scheme);
        answer(self.http.get(url)).await
    }

    pub(crate) async fn get_json(&self, port: u16, path: &str) -> Result<Value> {
        Ok(self.get_at(port, path).await?.body)
    }

    pub(crate) async fn get_text(&self, port: u16, path: &str) -> Result<String> {
        let url = format!("{}://127.0.0.1:{port}{path}", self.scheme);
        Ok(self.http.get(url).send().await?.text().await?)
    }

    /// Asks query-api until it answers 200.
    ///
    /// # Errors
    /// The question is refused, or not answered in time.
    pub async fn ask(&self, path: &str) -> Result<Value> {
        let wait = Wait::begin(path);
        loop {
            match final_or_missing(self.get(path).await)? {
                Ok(answer) => return Ok(answer.body),
                Err(missing) => wait.again(missing).await?,
            }
        }
    }

    /// A user's unread messages by sender, no earlier than `after`.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn unread(
        &self,
        uid: i64,
        device: Device,
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
        let mut items = Vec::new();
        let mut place = Some("after_mid=0".to_owned());
        while let Some(at) = place {
            let page = self.ask(&format!("{path}&{at}{}", suffix(after))).await?;
            let found = page["items"].as_array().context("no items")?;
            items.extend(found.iter().cloned());
            place = page["next"].as_str().map(str::to_owned);
        }
        Ok(items)
    }

    /// What became of a post, once the sequencer has come to it.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn fate(&self, position: InboundPosition) -> Result<Value> {
        let path = format!("/v1/inbound/{}/{}", position.partition, position.offset);
        let wait = Wait::begin(&path);
        loop {
            let fate = self.ask(&path).await?;
            if fate["state"] != "pending" {
                return Ok(fate);
            }
            wait.again(fate).await?;
        }
    }
}

/// Success is final and so is a refusal, which is the error; what the services ask to repeat is missing still.
fn final_or_missing(answer: Result<Answer>) -> Result<Result<Answer, String>> {
    match answer {
        Ok(answer) => match answer.status {
            200..300 => Ok(Ok(answer)),
            429 | 503 | 504 => Ok(Err(answer.body.to_string())),
            status => bail!("{status}: {}", answer.body),
        },
        Err(unreachable) => Ok(Err(format!("{unreachable:#}"))),
    }
}

/// `partition` and `offset` of an answer or of a batch's line.
pub(crate) fn position_of(accepted: &Value) -> Result<InboundPosition> {
    let (Some(partition), Some(offset)) =
        (accepted["partition"].as_i64(), accepted["offset"].as_i64())
    else {
        bail!("no position: {accepted}");
    };
    Ok(InboundPosition {
        partition: partition.try_into()?,
        offset,
    })
}

fn suffix(after: &[InboundPosition]) -> String {
    let mut suffix: String = after.iter().map(|at| format!("&after={at}")).collect();
    if !suffix.is_empty() {
        suffix.push_str("&timeout_ms=30000");
    }
    suffix
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Answer> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let text = response.text().await?;
    Ok(Answer {
        status,
        body: serde_json::from_str(&text).unwrap_or_default(),
    })
}

//! A producer and a reader over HTTP.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use schemas::InboundPosition;
use serde_json::{Value, json};

use crate::{Device, patience::Wait};

/// Longer than any deadline of the services.
const LONGEST: Duration = Duration::from_secs(40);

/// Calls ingest and query-api of a world.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    ingest: String,
    query: String,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; null where it is no JSON.
    pub body: Value,
}

/// An accepted post.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// Where it lies.
    pub position: InboundPosition,
    /// How many answers before it said that the outcome is unknown.
    pub unknown: u64,
}

impl Client {
    pub(crate) fn new(ingest: u16, query: u16) -> Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(LONGEST)
            .build()?;
        Ok(Self {
            http,
            ingest: format!("http://127.0.0.1:{ingest}"),
            query: format!("http://127.0.0.1:{query}"),
        })
    }

    /// Posts JSON to ingest, once.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let request = self.http.post(format!("{}{path}", self.ingest)).json(body);
        answer(request).await
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
    ) -> Result<Posted> {
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
    pub async fn ack(&self, uid: i64, peer: i64, device: Device, mid: i64) -> Result<Posted> {
        let body = json!({
            "uid": uid.to_string(),
            "peer": peer.to_string(),
            "device": device.to_string(),
            "mid": mid,
        });
        self.post_until_accepted("/v1/read-acks", &body).await
    }

    async fn post_until_accepted(&self, path: &str, body: &Value) -> Result<Posted> {
        let wait = Wait::begin(path);
        let mut unknown = 0;
        loop {
            let answer = self.post(path, body).await;
            unknown += u64::from(answer.as_ref().is_ok_and(Answer::is_unknown));
            match final_or_missing(answer)? {
                Ok(accepted) => {
                    let position = accepted.position()?;
                    return Ok(Posted { position, unknown });
                }
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
            .post(format!("{}/v1/events", self.ingest))
            .header("content-type", "application/x-ndjson")
            .body(body);
        let response = request.send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status == 200, "a batch is answered {status}: {text}");
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).with_context(|| format!("no JSON: {line}")))
            .collect()
    }

    /// Asks query-api once.
    ///
    /// # Errors
    /// There was no answer.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        answer(self.http.get(format!("{}{path}", self.query))).await
    }

    pub(crate) async fn get_json(&self, port: u16, path: &str) -> Result<Value> {
        let url = format!("http://127.0.0.1:{port}{path}");
        Ok(answer(self.http.get(url)).await?.body)
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

impl Answer {
    /// Whether the outcome of the post is unknown.
    pub fn is_unknown(&self) -> bool {
        self.body["type"] == "/problems/unknown-outcome"
    }

    /// Where an accepted post lies.
    ///
    /// # Errors
    /// It was not accepted.
    pub fn position(&self) -> Result<InboundPosition> {
        ensure!(self.status == 202, "{}: {}", self.status, self.body);
        position_of(&self.body)
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

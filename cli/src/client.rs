//! The HTTP side of commands: what any producer or reader could do.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::failure::Failure;

/// Longer than any deadline of the services.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls ingest and query-api.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    pub(crate) ingest: String,
    pub(crate) query: String,
}

impl Client {
    /// With the bases of paths, without a slash at the end.
    pub(crate) fn new(ingest: String, query: String) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(Duration::from_secs(3))
            .build()?;
        Ok(Self {
            http,
            ingest,
            query,
        })
    }

    /// Posts to ingest; the answer's JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.ingest);
        let request = self.http.post(&url).timeout(PATIENCE).json(body);
        json_of(sent(request.send().await, &url)?).await
    }

    /// Posts an NDJSON batch; the response streams.
    pub(crate) async fn post_events(&self, body: reqwest::Body) -> anyhow::Result<Response> {
        let url = format!("{}/v1/events", self.ingest);
        let request = self
            .http
            .post(&url)
            .header("content-type", "application/x-ndjson")
            .body(body);
        let response = sent(request.send().await, &url)?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        Err(refused(
            response.status(),
            &response.text().await.unwrap_or_default(),
        )
        .into())
    }

    /// Asks query-api.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, String)]) -> anyhow::Result<Value> {
        self.get_from(&self.query, path, query).await
    }

    /// Asks a service at `base`.
    pub(crate) async fn get_from(
        &self,
        base: &str,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<Value> {
        let query: Vec<String> = query
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let joint = if query.is_empty() { "" } else { "?" };
        let url = format!("{base}{path}{joint}{}", query.join("&"));
        json_of(sent(
            self.http.get(&url).timeout(PATIENCE).send().await,
            &url,
        )?)
        .await
    }
}

fn sent(outcome: reqwest::Result<Response>, url: &str) -> Result<Response, Failure> {
    outcome.map_err(|error| {
        if error.is_timeout() {
            Failure::Timeout(format!("{url} did not answer in time"))
        } else {
            Failure::Unreachable(format!(
                "{url} cannot be reached ({}); `make up` starts the local stack",
                root_cause(&error)
            ))
        }
    })
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

async fn json_of(response: Response) -> anyhow::Result<Value> {
    let status = response.status();
    let body = response.text().await.context("reading the answer")?;
    if !status.is_success() {
        return Err(refused(status, &body).into());
    }
    serde_json::from_str(&body).context("the answer is not JSON")
}

/// A problem in one line; its detail repeats all that is wrong with single fields.
fn refused(status: StatusCode, body: &str) -> Failure {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| {
        problem
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let mut line = format!("{status}: {}", text("title"));
    if !text("detail").is_empty() {
        line = format!("{line}: {}", text("detail"));
    }
    match status {
        StatusCode::GATEWAY_TIMEOUT => Failure::Timeout(line),
        StatusCode::SERVICE_UNAVAILABLE => Failure::Unreachable(line),
        _ => Failure::Refused(line),
    }
}

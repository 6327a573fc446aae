//! The HTTP side of commands: what any producer or reader could do.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use reqwest::{
    Certificate, Response, StatusCode,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use serde_json::Value;
use service_runtime::Secret;

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

fn credentials(token: Option<&Secret>) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

fn authorities(file: &Path) -> anyhow::Result<Vec<Certificate>> {
    let pem = std::fs::read(file).context("client.tls_ca cannot be read")?;
    Certificate::from_pem_bundle(&pem).with_context(|| {
        format!(
            "client.tls_ca: {} has no certificates in PEM",
            file.display()
        )
    })
}

impl Client {
    /// With the bases of paths, without a slash at the end, what is needed to be let in there, and whose certificates are
    /// believed where that is not what the system believes.
    pub(crate) fn new(
        ingest: String,
        query: String,
        token: Option<&Secret>,
        tls_ca: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut http = reqwest::Client::builder()
            .no_proxy()
            .default_headers(credentials(token)?)
            .connect_timeout(Duration::from_secs(3));
        if let Some(file) = tls_ca {
            http = http.tls_certs_only(authorities(file)?);
        }
        let http = http.build()?;
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
            let cause = root_cause(&error);
            let hint = if cause.contains("certificate") {
                "client.tls_ca names who may sign its certificate"
            } else {
                "`make up` starts the local stack"
            };
            Failure::Unreachable(format!("{url} cannot be reached ({cause}); {hint}"))
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
    if status == StatusCode::UNAUTHORIZED {
        line.push_str(" (commands take it from --token-file or TIDEMARK_TOKEN)");
    }
    match status {
        StatusCode::GATEWAY_TIMEOUT => Failure::Timeout(line),
        StatusCode::SERVICE_UNAVAILABLE => Failure::Unreachable(line),
        _ => Failure::Refused(line),
    }
}

//! A JWKS with a URL: cached, fetched again periodically and when a token names an unknown key.

use std::{error::Error, sync::Arc, time::Duration};

use futures::StreamExt as _;
use jsonwebtoken::DecodingKey;
use parking_lot::Mutex;
use reqwest::{Client, StatusCode, redirect::Policy};
use service_runtime::Shutdown;
use tokio::time::{Instant, sleep};

use crate::{
    config::{Algorithm, AuthConfig},
    key_set::KeySet,
    refusal::Refusal,
    source_status::SourceStatus,
};

/// How long a fetch may take. A request with an unknown key waits for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest key set.
const MAX_BYTES: usize = 1024 * 1024;

/// The keys of one issuer.
#[derive(Debug)]
pub(crate) struct RemoteKeys {
    url: String,
    http: Client,
    refresh: Duration,
    retry: Duration,
    current: Mutex<Current>,
    /// When the last fetch began. Locked during a fetch, so there is one at a time.
    fetched: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Current {
    /// `None` before the first fetch that succeeded.
    keys: Option<KeySet>,
    status: SourceStatus,
}

impl RemoteKeys {
    /// Nothing is fetched yet; `iss` is the source's name in log and metrics.
    pub(crate) fn new(iss: &str, url: &str, config: &AuthConfig) -> Result<Self, reqwest::Error> {
        // All authentication depends on these keys: they come from the configured URL, without proxies and redirects.
        let http = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .timeout(FETCH_TIMEOUT)
            .build()?;
        Ok(Self {
            url: url.to_owned(),
            http,
            refresh: config.jwks_refresh(),
            retry: config.jwks_retry(),
            current: Mutex::new(Current {
                keys: None,
                status: SourceStatus::new(iss),
            }),
            fetched: tokio::sync::Mutex::new(None),
        })
    }

    /// The key with this id. An unknown id causes a fetch, unless the last one was less than `retry` ago.
    pub(crate) async fn get(
        self: &Arc<Self>,
        kid: &str,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, Refusal> {
        if let Some(key) = self.known(kid, algorithm) {
            return Ok(key);
        }
        let (keys, kid_there) = (Arc::clone(self), kid.to_owned());
        // In a task of its own: a client that disconnects must not cancel the fetch for the others.
        let fetching = tokio::spawn(async move {
            let mut fetched = keys.fetched.lock().await;
            let is_due = fetched.is_none_or(|at| at.elapsed() >= keys.retry);
            if is_due && keys.known(&kid_there, algorithm).is_none() {
                *fetched = Some(Instant::now());
                keys.fetch().await;
            }
        });
        fetching.await.map_err(|_panicked| Refusal::KeysAway)?;
        self.known(kid, algorithm)
            .ok_or_else(|| self.reason_of_absence())
    }

    /// Fetches the set now and then periodically.
    pub(crate) async fn keep_fresh(&self, shutdown: Shutdown) {
        loop {
            tokio::select! {
                () = self.fetch_now() => {}
                () = shutdown.soft().cancelled() => return,
            }
            let pause = if self.current.lock().status.last_read_succeeded() {
                self.refresh
            } else {
                self.retry
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = shutdown.soft().cancelled() => return,
            }
        }
    }

    async fn fetch_now(&self) {
        let mut fetched = self.fetched.lock().await;
        *fetched = Some(Instant::now());
        self.fetch().await;
    }

    fn known(&self, kid: &str, algorithm: Algorithm) -> Option<DecodingKey> {
        self.current.lock().keys.as_ref()?.get(kid, algorithm)
    }

    /// Why a key is not known: it does not exist if the cached set is current, and otherwise that cannot be decided.
    fn reason_of_absence(&self) -> Refusal {
        let current = self.current.lock();
        if current.keys.is_some() && current.status.last_read_succeeded() {
            Refusal::UnknownKey
        } else {
            Refusal::KeysAway
        }
    }

    /// Replaces the cached set; a set that cannot be fetched or parsed leaves the last one in place.
    async fn fetch(&self) {
        let fetched = self.download().await;
        let parsed = fetched.and_then(|text| KeySet::parse(&text));
        let mut current = self.current.lock();
        match parsed {
            Ok(keys) => {
                current.keys = Some(keys);
                current.status.succeeded();
            }
            Err(problem) => current.status.failed(&problem),
        }
    }

    async fn download(&self) -> Result<String, String> {
        let failed =
            |error: reqwest::Error| format!("cannot be fetched: {}", cause(&error.without_url()));
        let response = self.http.get(&self.url).send().await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(format!("was answered {}; must be 200", response.status()));
        }
        let mut text = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            text.extend_from_slice(&chunk.map_err(failed)?);
            if text.len() > MAX_BYTES {
                return Err(format!(
                    "has more than {MAX_BYTES} bytes; must be a key set"
                ));
            }
        }
        String::from_utf8(text).map_err(|_| "is not UTF-8; must be a JWKS".to_owned())
    }
}

fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

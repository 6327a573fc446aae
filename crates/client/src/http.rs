use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use api::Call;
use reqwest::{
    Certificate, RequestBuilder, Response,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde::de::DeserializeOwned;

use crate::{ClientError, Problem, Query, ReadOptions, Retry, endpoints::Endpoints};

/// Calls ingest and query-api. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    /// For gateways, if the authorities are not those of the system.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    pub(crate) ingest: Arc<Endpoints>,
    query: Arc<Endpoints>,
    timeout: Duration,
    pub(crate) retry: Retry,
    unknown_outcomes: Arc<AtomicU64>,
}

/// The settings of a [`Client`].
#[derive(Debug)]
pub struct Builder {
    ingest: Endpoints,
    query: Endpoints,
    token: Option<String>,
    authorities: Option<Vec<u8>>,
    timeout: Duration,
    retry: Retry,
}

impl Builder {
    /// Another instance of ingest.
    #[must_use]
    pub fn ingest(self, base: &str) -> Self {
        self.ingest.add(base);
        self
    }

    /// Another instance of query-api.
    #[must_use]
    pub fn query(self, base: &str) -> Self {
        self.query.add(base);
        self
    }

    /// The token or service key to authenticate with.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The authorities (PEM) that may sign the certificates of services and gateways, in place of those of the system.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// How long one call may take; 15 s otherwise. A query that waits until it is fresh enough may take that much longer. A call is
    /// repeated only if this is below [`Retry::within`]. Batches have no timeout.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// For how long a call is repeated; [`Retry::default`] otherwise.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// # Errors
    /// The token does not fit into a header, or there are no certificates in the PEM.
    pub fn build(self) -> Result<Client, ClientError> {
        let invalid = |error: reqwest::Error| ClientError::InvalidSettings(error.to_string());
        let mut http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(Duration::from_secs(3))
            // Services close what is idle for 75 s: a call on a connection that closes at that moment would fail.
            .pool_idle_timeout(Duration::from_secs(60));
        if let Some(token) = self.token {
            http = http.default_headers(authorization(&token)?);
        }
        if let Some(pem) = &self.authorities {
            http = http.tls_certs_only(Certificate::from_pem_bundle(pem).map_err(invalid)?);
        }
        let tls = self.authorities.as_deref().map(tls_of).transpose()?;
        Ok(Client {
            http: http.build().map_err(invalid)?,
            tls: tls.map(Arc::new),
            ingest: Arc::new(self.ingest),
            query: Arc::new(self.query),
            timeout: self.timeout,
            retry: self.retry,
            unknown_outcomes: Arc::default(),
        })
    }
}

fn tls_of(authorities: &[u8]) -> Result<rustls::ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        let certificate = certificate.map_err(|error| error.to_string());
        let added = certificate.and_then(|one| roots.add(one).map_err(|error| error.to_string()));
        added.map_err(ClientError::InvalidSettings)?;
    }
    let tls = rustls::ClientConfig::builder().with_root_certificates(roots);
    Ok(tls.with_no_client_auth())
}

fn authorization(token: &str) -> Result<HeaderMap, ClientError> {
    let invalid = |_| ClientError::InvalidSettings("the token does not fit into a header".into());
    let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(invalid)?;
    bearer.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
}

impl Client {
    /// For the services at these URLs: `http://127.0.0.1:7301` and `http://127.0.0.1:7302` on a machine where the stack runs.
    #[must_use]
    pub fn builder(ingest: &str, query: &str) -> Builder {
        Builder {
            ingest: ingest.into(),
            query: query.into(),
            token: None,
            authorities: None,
            timeout: Duration::from_secs(15),
            retry: Retry::default(),
        }
    }

    /// Uses another instance of ingest from now on, too.
    pub fn add_ingest(&self, base: &str) {
        self.ingest.add(base);
    }

    /// Uses another instance of query-api from now on, too.
    pub fn add_query(&self, base: &str) {
        self.query.add(base);
    }

    /// The URL of a path at the instance of ingest whose turn it is.
    #[must_use]
    pub fn ingest_url(&self, path: &str) -> String {
        self.ingest.url(path)
    }

    /// The URL of a path at the instance of query-api whose turn it is.
    #[must_use]
    pub fn query_url(&self, path: &str) -> String {
        self.query.url(path)
    }

    /// The HTTP client below, with the token and the authorities: for calls that have no function here.
    #[must_use]
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// How many responses and lines of batches said that the outcome is unknown.
    #[must_use]
    pub fn unknown_outcomes(&self) -> u64 {
        self.unknown_outcomes.load(Ordering::Relaxed)
    }

    /// `key` is the id of the command, which each repeat of it has.
    pub(crate) async fn call_once<T: DeserializeOwned>(
        &self,
        call: &Call,
        key: Option<&str>,
    ) -> Result<T, ClientError> {
        let url = self.ingest.url(&call.path);
        let request = match call.is_put {
            true => self.http.put(&url),
            false => self.http.post(&url),
        };
        let request = with_key(request.json(&call.body), key);
        self.call(request, &url, self.timeout).await
    }

    /// Asks query-api; `path` includes the query string.
    ///
    /// # Errors
    /// The call was refused, or there was no usable response in time.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.get_waiting(path, Duration::ZERO).await
    }

    /// Asks query-api, which may wait until it is as fresh as `options` say.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        query: Query,
        options: &ReadOptions,
    ) -> Result<T, ClientError> {
        let query = options.add_to(query);
        self.get_waiting(query.path(), options.wait()).await
    }

    async fn get_waiting<T: DeserializeOwned>(
        &self,
        path: &str,
        wait: Duration,
    ) -> Result<T, ClientError> {
        let get = async || {
            let url = self.query.url(path);
            self.call(self.http.get(&url), &url, self.timeout + wait)
                .await
        };
        self.retry.run(ClientError::is_retryable, get).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        url: &str,
        timeout: Duration,
    ) -> Result<T, ClientError> {
        let response = self.send_request(request.timeout(timeout), url).await?;
        let body = response.bytes().await;
        let body = body.map_err(|error| ClientError::of_response(&error, url))?;
        serde_json::from_slice(&body).map_err(|error| ClientError::invalid_response(url, error))
    }

    /// Sends it; a status other than 2xx is an error.
    pub(crate) async fn send_request(
        &self,
        request: RequestBuilder,
        url: &str,
    ) -> Result<Response, ClientError> {
        let response = request.send().await;
        let response = response.map_err(|error| ClientError::of_request(&error, url))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.text().await;
        let body = body.map_err(|error| ClientError::of_response(&error, url))?;
        let problem = Problem::of_response(status, &body);
        self.count(&problem);
        Err(ClientError::Problem(Box::new(problem)))
    }

    pub(crate) fn count(&self, problem: &Problem) {
        let is_unknown = u64::from(problem.is_unknown_outcome());
        self.unknown_outcomes
            .fetch_add(is_unknown, Ordering::Relaxed);
    }
}

fn with_key(request: RequestBuilder, key: Option<&str>) -> RequestBuilder {
    match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_times_out_leaves_time_to_repeat_it() {
        let client = Client::builder("http://a", "http://b").build().unwrap();
        let Retry {
            within,
            longest_pause,
            ..
        } = client.retry;
        assert!(client.timeout + longest_pause < within);
    }
}

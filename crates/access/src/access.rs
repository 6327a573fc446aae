//! Authentication and rate limits of a process.

use std::{sync::Arc, time::Duration};

use axum::http::{HeaderMap, header};
use problem::Problem;
use service_runtime::{ConfigError, Shutdown, Supervisor};
use time::OffsetDateTime;
use tokio::time::{Instant, interval};

use crate::{
    caller::{Caller, ValidUntil},
    config::AuthConfig,
    limits::{Limits, Unit},
    metrics,
    refusal::Refusal,
    verifier::Verifier,
};

const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// A call that asks about more users than these counts as several requests.
const USERS_OF_REQUEST: usize = 10;

/// Authenticates callers and enforces their rate limits. All services of a process share one.
#[derive(Clone, Debug)]
pub struct Access(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` if there is no authentication.
    verifier: Option<Arc<Verifier>>,
    allow_anyone: bool,
    limits: Limits,
}

impl Access {
    /// Reads the keys that `config` names, and starts the workers that keep them up to date.
    ///
    /// # Errors
    /// As [`Verifier::open`].
    pub fn start(config: &AuthConfig, supervisor: &Supervisor) -> Result<Self, ConfigError> {
        metrics::describe();
        let verifier = if config.is_configured() {
            let verifier = Arc::new(Verifier::open(config)?);
            let shutdown = supervisor.shutdown();
            for (iss, fetcher) in verifier.fetchers(&shutdown) {
                supervisor.spawn(format!("keys of {iss}"), async move {
                    fetcher.await;
                    Ok(())
                });
            }
            supervisor.spawn(
                "files of keys",
                reload_files(Arc::clone(&verifier), shutdown),
            );
            Some(verifier)
        } else {
            None
        };
        Ok(Self(Arc::new(Inner {
            verifier,
            allow_anyone: config.allow_anyone,
            limits: Limits::new(config.user_limits, config.max_callers),
        })))
    }

    /// Whether callers are authenticated.
    pub(crate) fn authenticates(&self) -> bool {
        self.0.verifier.is_some()
    }

    /// Whether anyone who reaches the address may call, if callers are not authenticated.
    pub(crate) fn allows_anyone(&self) -> bool {
        self.0.allow_anyone
    }

    /// Authenticates a request by its headers.
    pub(crate) async fn caller_of(
        &self,
        headers: &HeaderMap,
        now: OffsetDateTime,
    ) -> Result<(Caller, ValidUntil), Refusal> {
        let Some(verifier) = &self.0.verifier else {
            return Ok((Caller::Anyone, ValidUntil(None)));
        };
        verifier.verify_until(bearer(headers)?, now).await
    }

    /// Counts one request.
    ///
    /// # Errors
    /// 429, which says when to try again.
    pub(crate) fn charge_request(&self, caller: &Caller) -> Result<(), Problem> {
        self.charge(caller, Unit::Requests, 1, "requests")
    }

    /// Counts the users whom a call asks about: ten are as much as a request, and the first ten are counted already.
    ///
    /// # Errors
    /// 429, which says when to try again.
    pub fn charge_users(&self, caller: &Caller, users: usize) -> Result<(), Problem> {
        let more = users.saturating_sub(1) / USERS_OF_REQUEST;
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.charge(caller, Unit::Requests, more, "requests")
    }

    /// Counts one event that the caller sends.
    ///
    /// # Errors
    /// 429, which says when to try again.
    pub fn charge_event(&self, caller: &Caller) -> Result<(), Problem> {
        self.charge_events(caller, 1)
    }

    /// Counts `count` events at once, of which one has to be within the caller's limit now: the caller waits for the others afterwards.
    ///
    /// # Errors
    /// 429, which says when to try again.
    pub fn charge_events(&self, caller: &Caller, count: u32) -> Result<(), Problem> {
        self.charge(caller, Unit::Events, count, "events")
    }

    fn charge(
        &self,
        caller: &Caller,
        unit: Unit,
        count: u32,
        of: &'static str,
    ) -> Result<(), Problem> {
        if count == 0 {
            return Ok(());
        }
        let charged = self.0.limits.charge(caller, unit, count, Instant::now());
        charged.map_err(|wait| {
            metrics::limited(of);
            // A whole second at least, and never too early.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            Problem::rate_limited(of, seconds.max(1))
        })
    }
}

async fn reload_files(verifier: Arc<Verifier>, shutdown: Shutdown) -> anyhow::Result<()> {
    let mut ticks = interval(RELOAD_INTERVAL);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.soft().cancelled() => return Ok(()),
        }
        let verifier = Arc::clone(&verifier);
        tokio::task::spawn_blocking(move || verifier.reload_files()).await?;
    }
}

/// The bearer token of a request, which must have exactly one.
fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Err(Refusal::Missing),
        (Some(value), None) => value.to_str().map_err(|_| Refusal::Scheme)?,
        (Some(_), Some(_)) => return Err(Refusal::Scheme),
    };
    let (scheme, token) = value.split_once(' ').ok_or(Refusal::Scheme)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::Scheme);
    }
    match token.trim() {
        "" => Err(Refusal::Scheme),
        token => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn bearer_of(values: &[&'static str]) -> Result<String, Refusal> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn one_bearer_token_is_taken_and_nothing_else() {
        assert_eq!(bearer_of(&["Bearer abc"]), Ok("abc".to_owned()));
        assert_eq!(bearer_of(&["bearer  abc "]), Ok("abc".to_owned()));
        assert_eq!(bearer_of(&[]), Err(Refusal::Missing));
        for values in [
            &["Basic abc"][..],
            &["abc"],
            &["Bearer"],
            &["Bearer "],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(bearer_of(values), Err(Refusal::Scheme), "{values:?}");
        }
    }
}

//! Section `auth`: who may call.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use garde::Validate;
use reqwest::Url;
use serde::{Deserialize, Serialize, Serializer};

/// Section `auth`. Without issuers and keys there is no authentication, and only this machine may reach the services.
#[derive(Clone, Debug, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// The issuers of tokens (JWTs) for users.
    #[garde(custom(are_distinct), inner(custom(is_sound)))]
    pub issuers: Vec<IssuerConfig>,
    /// The TOML file with the hashes of service keys; read again when it changes.
    #[garde(skip)]
    pub keys_file: Option<PathBuf>,
    /// Without issuers and keys: listen where other machines can reach, and let anyone call. Only for containers whose ports are published on
    /// loopback.
    #[garde(custom(is_alone(self)))]
    pub allow_anyone: bool,
    /// How far the clock of an issuer may be off, seconds.
    #[garde(range(max = 600))]
    pub leeway_s: u32,
    /// How often a key set is fetched from its URL, seconds.
    #[garde(range(min = 1, max = 86_400))]
    pub jwks_refresh_s: u32,
    /// How soon it may be fetched again, if a token names an unknown key or the last time failed, seconds.
    #[garde(range(min = 1, max = 3_600))]
    pub jwks_retry_s: u32,
    /// How much each user may do. Service keys may do what their entries in `keys_file` say.
    #[garde(dive)]
    pub user_limits: LimitConfig,
    /// How many callers' recent use is kept at a time; while there are more, others are answered 429.
    #[garde(range(min = 100, max = 10_000_000))]
    pub max_callers: usize,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            keys_file: None,
            allow_anyone: false,
            leeway_s: 30,
            jwks_refresh_s: 300,
            jwks_retry_s: 10,
            user_limits: LimitConfig::default(),
            max_callers: 100_000,
        }
    }
}

impl AuthConfig {
    /// Whether anything says who may call.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        !self.issuers.is_empty() || self.keys_file.is_some()
    }

    pub(crate) fn jwks_refresh(&self) -> Duration {
        Duration::from_secs(self.jwks_refresh_s.into())
    }

    pub(crate) fn jwks_retry(&self) -> Duration {
        Duration::from_secs(self.jwks_retry_s.into())
    }
}

/// One issuer. Exactly one of `jwks_url`, `jwks_file`, `secret_file` and `secret_env` says what its tokens are verified with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// What the claim `iss` must be.
    pub iss: String,
    /// What the claim `aud` must be or contain.
    pub aud: String,
    /// What its tokens may be signed with, whatever they say themselves.
    pub algorithms: BTreeSet<Algorithm>,
    /// Where its public keys (JWKS) are fetched, https, or http on this machine.
    #[serde(default, serialize_with = "without_query")]
    pub jwks_url: Option<String>,
    /// The file with its public keys (JWKS); read again when it changes.
    #[serde(default)]
    pub jwks_file: Option<PathBuf>,
    /// The file with the secret of HS256, 32 bytes or more, less one line ending (LF or CRLF) at its end.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// The variable of the environment with that secret.
    #[serde(default)]
    pub secret_env: Option<String>,
}

/// What a token may be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
    /// RSA, PKCS#1 1.5, with SHA-256; keys from 2048 bits.
    #[serde(rename = "RS256")]
    Rs256,
    /// HMAC with SHA-256: a party that can verify can also issue.
    #[serde(rename = "HS256")]
    Hs256,
}

/// How much one caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct LimitConfig {
    /// Requests a second, in the long run.
    #[garde(range(min = 1, max = 1_000_000))]
    pub requests_per_s: u32,
    /// Requests at once, after a pause.
    #[garde(range(min = 1, max = 1_000_000))]
    pub requests_burst: u32,
    /// Messages and read-acks a second, in the long run; each line of a batch is one.
    #[garde(range(min = 1, max = 10_000_000))]
    pub events_per_s: u32,
    /// The same at once, after a pause.
    #[garde(range(min = 1, max = 10_000_000))]
    pub events_burst: u32,
}

impl Default for LimitConfig {
    /// A person with a few devices stays far below these limits.
    fn default() -> Self {
        Self {
            requests_per_s: 50,
            requests_burst: 100,
            events_per_s: 50,
            events_burst: 500,
        }
    }
}

/// What an issuer's tokens are verified with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source<'a> {
    Url(&'a str),
    File(&'a Path),
    SecretFile(&'a Path),
    SecretVariable(&'a str),
}

impl Algorithm {
    /// By the name that a token's header gives it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "EdDSA" => Some(Self::EdDsa),
            "RS256" => Some(Self::Rs256),
            "HS256" => Some(Self::Hs256),
            _ => None,
        }
    }
}

impl IssuerConfig {
    /// Where its keys come from, if exactly one setting says so.
    pub(crate) fn source(&self) -> Option<Source<'_>> {
        match (
            &self.jwks_url,
            &self.jwks_file,
            &self.secret_file,
            &self.secret_env,
        ) {
            (Some(url), None, None, None) => Some(Source::Url(url)),
            (None, Some(file), None, None) => Some(Source::File(file)),
            (None, None, Some(file), None) => Some(Source::SecretFile(file)),
            (None, None, None, Some(name)) => Some(Source::SecretVariable(name)),
            _ => None,
        }
    }
}

fn refuse(problem: impl Into<String>) -> garde::Result {
    Err(garde::Error::new(problem.into()))
}

fn is_sound(issuer: &IssuerConfig, _context: &()) -> garde::Result {
    for (key, value) in [("iss", &issuer.iss), ("aud", &issuer.aud)] {
        if value.is_empty() {
            return refuse(format!("{key} is empty; must be what its tokens carry"));
        }
    }
    let Some(source) = issuer.source() else {
        return refuse("must have exactly one of jwks_url, jwks_file, secret_file and secret_env");
    };
    let is_secret = matches!(source, Source::SecretFile(_) | Source::SecretVariable(_));
    let hs256_only = issuer.algorithms.iter().all(|one| *one == Algorithm::Hs256);
    let hs256 = issuer.algorithms.contains(&Algorithm::Hs256);
    match (issuer.algorithms.is_empty(), is_secret) {
        (true, _) => return refuse("algorithms is empty; must name EdDSA, RS256 or HS256"),
        // If one key could serve both ways, a public key would pass for a secret.
        (_, true) if !hs256_only => {
            return refuse("a secret serves HS256 only; algorithms must be [\"HS256\"]");
        }
        (_, false) if hs256 => {
            return refuse(
                "HS256 takes secret_file or secret_env; public keys serve EdDSA and RS256",
            );
        }
        _ => {}
    }
    match source {
        Source::Url(url) => is_plain_url(url),
        Source::SecretVariable(name) if name.starts_with("TIDEMARK_") => {
            refuse("secret_env begins with TIDEMARK_, as settings do; must be another name")
        }
        _ => Ok(()),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The URL is shown in the configuration, so no password may be in it.
fn is_plain_url(url: &str) -> garde::Result {
    match Url::parse(url) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            refuse("jwks_url has a user or password; must be without")
        }
        Ok(url) if url.scheme() == "https" && url.has_host() => Ok(()),
        Ok(url) if url.scheme() == "http" && is_loopback(&url) => Ok(()),
        Ok(url) if url.scheme() == "http" => refuse(
            "jwks_url is without TLS: whoever is between could put in keys of their own; must begin with https://, or be on this machine",
        ),
        _ => refuse("jwks_url must be like https://id.example.org/jwks.json"),
    }
}

/// A query may hold what lets the bearer in, so it is not shown.
fn without_query<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let shown = url.as_deref().map(|url| match url.split_once('?') {
        Some((place, _)) => format!("{place}?[redacted]"),
        None => url.to_owned(),
    });
    shown.serialize(serializer)
}

fn are_distinct(issuers: &[IssuerConfig], _context: &()) -> garde::Result {
    let distinct: BTreeSet<&str> = issuers.iter().map(|one| one.iss.as_str()).collect();
    if distinct.len() == issuers.len() {
        return Ok(());
    }
    refuse("two have the same iss; each must have its own")
}

fn is_alone(config: &AuthConfig) -> impl FnOnce(&bool, &()) -> garde::Result + '_ {
    move |allow_anyone, _context| {
        if *allow_anyone && config.is_configured() {
            return refuse("is true beside issuers or keys_file; must be false, or they must go");
        }
        Ok(())
    }
}

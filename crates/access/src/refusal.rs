//! Why a request is not let in.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use problem::Problem;

/// Seconds after which keys that cannot be fetched may be there.
const KEYS_RETRY_AFTER_S: u64 = 5;

/// What is wrong with a token or a service key. Nothing here repeats any of it, and what its claims say is told only once its signature has
/// been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no token or key.
    #[error(
        "nothing says who calls; must have the header Authorization: Bearer <token or service key>"
    )]
    Missing,
    /// The header is there more than once, or of another scheme.
    #[error(
        "the Authorization header is not one bearer token; must be Bearer <token or service key>"
    )]
    Scheme,
    /// It is not three parts of base64url, of which the first two are JSON objects, nor a service key.
    #[error("what follows Bearer is neither a JWT nor a service key")]
    Malformed,
    /// Its `iss` is not configured.
    #[error("the token's iss is none that is accepted here")]
    Issuer,
    /// Its `alg` is `none`, or another one that its issuer is not pinned to.
    #[error("the token's alg is none that is accepted from its issuer")]
    Algorithm,
    /// Its header names an extension that has to be understood (`crit`), and none is.
    #[error("the token's header has crit, of which nothing is understood here; must be without")]
    Critical,
    /// Its header names no key.
    #[error("the token's header has no kid; must name the key of its signature")]
    NoKeyId,
    /// The set of its issuer does not have the key.
    #[error("the token's kid is no key of that alg which its issuer publishes")]
    UnknownKey,
    /// It is not what was signed.
    #[error("the token's signature is not valid")]
    Signature,
    /// A claim that must be there is not, or is of the wrong type.
    #[error("the token's {0} is missing or malformed; must be there")]
    Claim(&'static str),
    /// It is meant for another service.
    #[error("the token's aud is another one; must name this service")]
    Audience,
    /// Its `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// Its `exp` is out of all reason.
    #[error(
        "the token's exp is more than ten years away; must be in seconds since 1970, not in milliseconds"
    )]
    TooLong,
    /// Its `nbf` is yet to come.
    #[error("the token is not valid yet")]
    NotYet,
    /// Its `sub` is not a uid.
    #[error("the token's sub is no uid; must be a decimal integer from 1 to 9223372036854775807")]
    Subject,
    /// It is in no file, its secret is another, or it has expired.
    #[error("the service key is unknown or no longer valid")]
    ServiceKey,
    /// The keys of its issuer are not known yet.
    #[error("the keys of the token's issuer cannot be fetched at present; nothing was done")]
    KeysAway,
}

impl Refusal {
    /// For metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Scheme => "scheme",
            Self::Malformed => "malformed",
            Self::Issuer => "issuer",
            Self::Algorithm => "algorithm",
            Self::Critical => "critical",
            Self::NoKeyId => "no_key_id",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Claim(_) => "claim",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::TooLong => "too_long",
            Self::NotYet => "not_yet",
            Self::Subject => "subject",
            Self::ServiceKey => "service_key",
            Self::KeysAway => "keys_away",
        }
    }

    /// What RFC 6750 wants in `WWW-Authenticate`: no error if nothing was tried.
    fn challenge(self) -> HeaderValue {
        let challenge = match self {
            Self::Missing => "Bearer realm=\"tidemark\"".to_owned(),
            _ => format!(
                "Bearer realm=\"tidemark\", error=\"invalid_token\", error_description=\"{self}\""
            ),
        };
        HeaderValue::from_str(&challenge).expect("the words are plain ASCII without quotes")
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::KeysAway => Self::unavailable(refusal.to_string(), KEYS_RETRY_AFTER_S),
            _ => Self::unauthenticated(refusal.to_string()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Problem::from(self).into_response();
        if self != Self::KeysAway {
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, self.challenge());
        }
        response
    }
}

//! A JWT: what it says of itself, and what is left of that once it is verified.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, Validation, decode, errors::ErrorKind};
use schemas::UserId;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use time::{Duration, OffsetDateTime};

use crate::{
    config::{Algorithm, IssuerConfig},
    refusal::Refusal,
};

/// A token of which nothing is proven yet. What it says decides only which keys and rules it is held against.
pub(crate) struct Unverified<'a> {
    text: &'a str,
    header: Header,
    iss: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct ClaimedIssuer {
    iss: Option<Value>,
}

/// How long a token may still be valid, seconds: ten years. What is beyond that was most likely meant to be milliseconds, and would be valid
/// for 50,000 years.
const MAX_LIFE_S: f64 = 10.0 * 365.25 * 86_400.0;

/// The claims of a token whose signature is right; [`decode`] has checked `iss` and `aud`.
#[derive(Deserialize)]
struct Claims {
    exp: Option<Value>,
    nbf: Option<Value>,
    sub: Option<Value>,
}

impl<'a> Unverified<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Refusal> {
        let mut parts = text.split('.');
        let (Some(header), Some(claims), Some(_signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Refusal::Malformed);
        };
        let header: Header = part(header)?;
        let claimed: ClaimedIssuer = part(claims)?;
        let Some(Value::String(iss)) = claimed.iss else {
            return Err(Refusal::Claim("iss"));
        };
        Ok(Self { text, header, iss })
    }

    pub(crate) fn iss(&self) -> &str {
        &self.iss
    }

    /// The key that it names.
    pub(crate) fn kid(&self) -> Result<&str, Refusal> {
        self.header.kid.as_deref().ok_or(Refusal::NoKeyId)
    }

    /// The algorithm that it names, if its issuer is pinned to that.
    pub(crate) fn algorithm(&self, issuer: &IssuerConfig) -> Result<Algorithm, Refusal> {
        if self.header.crit.is_some() {
            return Err(Refusal::Critical);
        }
        Algorithm::named(&self.header.alg)
            .filter(|one| issuer.algorithms.contains(one))
            .ok_or(Refusal::Algorithm)
    }

    /// Its subject, and when it ends, if all of it is right at `now`. `key` is of `algorithm`'s kind.
    pub(crate) fn verify(
        &self,
        issuer: &IssuerConfig,
        algorithm: Algorithm,
        key: &DecodingKey,
        leeway_s: u32,
        now: OffsetDateTime,
    ) -> Result<(UserId, Option<OffsetDateTime>), Refusal> {
        let verified = decode::<Claims>(self.text, key, &rules(issuer, algorithm));
        let claims = verified.map_err(|error| refusal(error.kind()))?.claims;
        let left = claims.check_time(leeway_s, now)?;
        let Some(Value::String(sub)) = claims.sub else {
            return Err(Refusal::Claim("sub"));
        };
        let uid = sub.parse().map_err(|_| Refusal::Subject)?;
        let until = now.checked_add(Duration::saturating_seconds_f64(left));
        Ok((uid, until))
    }
}

impl Claims {
    /// How long it is still valid, seconds.
    fn check_time(&self, leeway_s: u32, now: OffsetDateTime) -> Result<f64, Refusal> {
        let (now, leeway) = (now.unix_timestamp() as f64, f64::from(leeway_s));
        let exp = seconds(self.exp.as_ref(), "exp")?.ok_or(Refusal::Claim("exp"))?;
        if now >= exp + leeway {
            return Err(Refusal::Expired);
        }
        if exp > now + MAX_LIFE_S {
            return Err(Refusal::TooLong);
        }
        match seconds(self.nbf.as_ref(), "nbf")? {
            Some(nbf) if now + leeway < nbf => Err(Refusal::NotYet),
            _ => Ok(exp + leeway - now),
        }
    }
}

/// A NumericDate (RFC 7519): seconds since 1970, which may have decimals.
fn seconds(claim: Option<&Value>, name: &'static str) -> Result<Option<f64>, Refusal> {
    match claim {
        None => Ok(None),
        Some(claim) => claim.as_f64().map(Some).ok_or(Refusal::Claim(name)),
    }
}

/// What the library checks: all but the times, for which it has a clock of its own.
fn rules(issuer: &IssuerConfig, algorithm: Algorithm) -> Validation {
    let mut rules = Validation::new(match algorithm {
        Algorithm::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        Algorithm::Rs256 => jsonwebtoken::Algorithm::RS256,
        Algorithm::Hs256 => jsonwebtoken::Algorithm::HS256,
    });
    rules.set_required_spec_claims(&["iss", "aud", "exp", "sub"]);
    rules.set_issuer(&[&issuer.iss]);
    rules.set_audience(&[&issuer.aud]);
    rules.validate_exp = false;
    rules.validate_nbf = false;
    rules
}

fn refusal(error: &ErrorKind) -> Refusal {
    match error {
        ErrorKind::InvalidAudience => Refusal::Audience,
        ErrorKind::InvalidIssuer => Refusal::Issuer,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidKeyFormat => Refusal::Algorithm,
        ErrorKind::MissingRequiredClaim(name) => Refusal::Claim(claim_named(name)),
        ErrorKind::InvalidToken | ErrorKind::Json(_) => Refusal::Malformed,
        _ => Refusal::Signature,
    }
}

fn claim_named(name: &str) -> &'static str {
    match name {
        "iss" => "iss",
        "aud" => "aud",
        "exp" => "exp",
        _ => "sub",
    }
}

fn part<T: DeserializeOwned>(encoded: &str) -> Result<T, Refusal> {
    let decoded = URL_SAFE_NO_PAD.decode(encoded);
    let decoded = decoded.map_err(|_| Refusal::Malformed)?;
    serde_json::from_slice(&decoded).map_err(|_| Refusal::Malformed)
}

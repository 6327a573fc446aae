//! An issuer's public keys, as a JWKS (RFC 7517) has them.

use std::collections::BTreeMap;

use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde_json::Value;
use service_runtime::without_mark;

use crate::config::Algorithm;

/// An Ed25519 key's 32 bytes in base64url.
const ED25519_CHARS: usize = 43;
/// An RSA modulus of 2048 bits in base64url; shorter ones are not verified with.
const RSA_MIN_CHARS: usize = 342;

/// The keys that can be used, by name and by what they sign with.
#[derive(Debug, Default)]
pub(crate) struct KeySet(BTreeMap<(String, Algorithm), DecodingKey>);

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Value>,
}

/// As much of a key as is needed. A set may hold keys for other purposes.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

impl KeySet {
    /// Takes what can be used of a JWKS.
    ///
    /// # Errors
    /// The text is not a JWKS, or has nothing that can be used: with it in force nobody would be let in. The words repeat nothing of it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let jwks: Jwks = serde_json::from_str(without_mark(text))
            .map_err(|_| "is no JWKS; must be a JSON object with a list `keys`".to_owned())?;
        let keys = jwks.keys.into_iter().filter_map(|key| {
            let jwk: Jwk = serde_json::from_value(key).ok()?;
            let (algorithm, key) = jwk.usable()?;
            Some(((jwk.kid, algorithm), key))
        });
        let keys: BTreeMap<_, _> = keys.collect();
        if keys.is_empty() {
            return Err(
                "has no key that can be used; must have one with a kid, Ed25519 or RSA of 2048 bits or more"
                    .to_owned(),
            );
        }
        Ok(Self(keys))
    }

    pub(crate) fn get(&self, kid: &str, algorithm: Algorithm) -> Option<DecodingKey> {
        self.0.get(&(kid.to_owned(), algorithm)).cloned()
    }
}

impl Jwk {
    /// The key's own type decides what it verifies; a symmetric key has no place in a set of public ones.
    fn usable(&self) -> Option<(Algorithm, DecodingKey)> {
        let (algorithm, name, key) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("OKP", Some("Ed25519")) => {
                let x = self.x.as_deref().filter(|x| x.len() == ED25519_CHARS)?;
                let key = DecodingKey::from_ed_components(x);
                (Algorithm::EdDsa, "EdDSA", key.ok()?)
            }
            ("RSA", _) => {
                let n = self.n.as_deref().filter(|n| n.len() >= RSA_MIN_CHARS)?;
                let e = self.e.as_deref()?;
                let key = DecodingKey::from_rsa_components(n, e);
                (Algorithm::Rs256, "RS256", key.ok()?)
            }
            _ => return None,
        };
        let is_for_signatures = self.purpose.as_deref().is_none_or(|one| one == "sig");
        let is_for_algorithm = self.alg.as_deref().is_none_or(|one| one == name);
        (is_for_signatures && is_for_algorithm).then_some((algorithm, key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    #[test]
    fn keys_that_cannot_be_used_are_skipped() {
        let ed = |kid: &str| json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": X });
        let mut of_encryption = ed("enc");
        of_encryption["use"] = "enc".into();
        let mut of_another = ed("other");
        of_another["alg"] = "RS256".into();
        let set = json!({ "keys": [
            ed("good"),
            of_encryption,
            of_another,
            { "kty": "OKP", "crv": "X25519", "kid": "x", "x": X },
            { "kty": "oct", "kid": "secret", "k": "c2VjcmV0" },
            { "kty": "EC", "crv": "P-256", "kid": "ec", "x": X, "y": X },
            { "kty": "OKP", "crv": "Ed25519", "x": X },
            { "kty": "OKP", "crv": "Ed25519", "kid": "short", "x": "AAAA" },
            { "kty": "RSA", "kid": "weak", "n": X, "e": "AQAB" },
            "nonsense",
            5,
        ]});
        let set = KeySet::parse(&set.to_string()).unwrap();
        assert_eq!(set.0.len(), 1);
        assert!(set.get("good", Algorithm::EdDsa).is_some());
        assert!(set.get("good", Algorithm::Rs256).is_none());
        assert!(set.get("secret", Algorithm::Hs256).is_none());
    }

    #[test]
    fn a_text_that_is_no_key_set_is_refused() {
        for text in ["", "{}", "[]", "<html>", r#"{"keys":5}"#, r#"{"keys":[]}"#] {
            assert!(KeySet::parse(text).is_err(), "{text}");
        }
    }
}

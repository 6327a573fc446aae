//! An issuer for tests: real keys, tokens of any make, and a server for its key set.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::KeySize,
    signature::{Ed25519KeyPair, KeyPair as _, RsaKeyPair},
};
use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{EncodingKey, crypto::sign};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::net::TcpListener;

use crate::{Algorithm, AuthConfig, IssuerConfig, KeyEntry, Scope, ServiceKey};

/// The `iss` of tokens that [`claims`] describes.
pub const ISS: &str = "https://id.test";
/// Their `aud`.
pub const AUD: &str = "tidemark";
/// A secret of HS256 that is long enough.
pub const SECRET: &str = "a test's secret of 32 bytes or more";

/// A key that signs.
pub struct SigningKey {
    kid: Option<String>,
    algorithm: jsonwebtoken::Algorithm,
    private: EncodingKey,
    /// As the key set has it.
    jwk: Value,
    /// The public key's bytes as a careless verifier would take them for a secret.
    pub public_bytes: Vec<u8>,
}

impl SigningKey {
    /// A new key of EdDSA.
    #[must_use]
    pub fn ed25519(kid: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let public_bytes = pair.public_key().as_ref().to_vec();
        let x = URL_SAFE_NO_PAD.encode(&public_bytes);
        Self {
            kid: Some(kid.to_owned()),
            algorithm: jsonwebtoken::Algorithm::EdDSA,
            private: EncodingKey::from_ed_der(document.as_ref()),
            jwk: json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "x": x }),
            public_bytes,
        }
    }

    /// A new key of RS256.
    #[must_use]
    pub fn rsa(kid: &str) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let pkcs8: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let public = pair.public_key();
        let n = URL_SAFE_NO_PAD.encode(public.modulus().big_endian_without_leading_zero());
        let e = URL_SAFE_NO_PAD.encode(public.exponent().big_endian_without_leading_zero());
        Self {
            kid: Some(kid.to_owned()),
            algorithm: jsonwebtoken::Algorithm::RS256,
            private: EncodingKey::from_rsa_der(pkcs8_content(pkcs8.as_ref())),
            jwk: json!({ "kty": "RSA", "kid": kid, "alg": "RS256", "n": n, "e": e }),
            public_bytes: public.as_ref().to_vec(),
        }
    }

    /// A secret of HS256, without a name.
    #[must_use]
    pub fn hs256(secret: &[u8]) -> Self {
        Self {
            kid: None,
            algorithm: jsonwebtoken::Algorithm::HS256,
            private: EncodingKey::from_secret(secret),
            jwk: json!({ "kty": "oct" }),
            public_bytes: Vec::new(),
        }
    }

    /// A token with these claims, as it should be.
    #[must_use]
    pub fn token(&self, claims: &Value) -> String {
        let mut header = json!({ "typ": "JWT", "alg": format!("{:?}", self.algorithm) });
        if let Some(kid) = &self.kid {
            header["kid"] = kid.as_str().into();
        }
        self.token_with(&header, claims)
    }

    /// A token with this header, whatever it says; signed by this key in its own way.
    #[must_use]
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let signature = sign(message.as_bytes(), &self.private, self.algorithm).unwrap();
        format!("{message}.{signature}")
    }
}

/// Header and claims, without a signature.
#[must_use]
pub fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// What a good token says: this subject, and an hour left from now.
#[must_use]
pub fn claims(sub: impl ToString) -> Value {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    json!({ "iss": ISS, "aud": AUD, "sub": sub.to_string(), "iat": now, "exp": now + 3600 })
}

/// The key set of these keys.
#[must_use]
pub fn jwks(keys: &[&SigningKey]) -> Value {
    let keys: Vec<&Value> = keys.iter().map(|key| &key.jwk).collect();
    json!({ "keys": keys })
}

/// Serves a key set on a free port of this machine, until the runtime ends.
#[derive(Clone)]
pub struct KeyServer {
    addr: SocketAddr,
    answer: Arc<Mutex<Answer>>,
}

struct Answer {
    status: StatusCode,
    body: String,
    asked: usize,
}

impl KeyServer {
    /// Begins with this key set.
    pub async fn start(keys: &[&SigningKey]) -> Self {
        let answer = Arc::new(Mutex::new(Answer {
            status: StatusCode::OK,
            body: jwks(keys).to_string(),
            asked: 0,
        }));
        let router = Router::new()
            .route("/jwks.json", get(answer_with))
            .with_state(Arc::clone(&answer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { addr, answer }
    }

    /// Where the set is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/jwks.json", self.addr)
    }

    /// Answers this from now on.
    pub fn publish(&self, keys: &[&SigningKey]) {
        self.answer_as(StatusCode::OK, &jwks(keys).to_string());
    }

    /// Answers anything from now on.
    pub fn answer_as(&self, status: StatusCode, body: &str) {
        let mut answer = self.answer.lock().unwrap();
        answer.status = status;
        answer.body = body.to_owned();
    }

    /// How often it was asked.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.answer.lock().unwrap().asked
    }
}

async fn answer_with(State(answer): State<Arc<Mutex<Answer>>>) -> impl IntoResponse {
    let mut answer = answer.lock().unwrap();
    answer.asked += 1;
    (answer.status, answer.body.clone())
}

/// The PKCS#1 key inside a PKCS#8 one of 2048 bits: after version, algorithm and the head of the octet string.
fn pkcs8_content(der: &[u8]) -> &[u8] {
    &der[26..]
}

/// An issuer with a key of RS256 and a file of service keys, both in a directory of the test's.
pub struct Parties {
    key: SigningKey,
    jwks_file: PathBuf,
    keys_file: PathBuf,
}

impl Parties {
    /// Writes the files.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        let key = SigningKey::rsa("r1");
        let (jwks_file, keys_file) = (dir.join("jwks.json"), dir.join("keys.toml"));
        fs::write(&jwks_file, jwks(&[&key]).to_string()).unwrap();
        fs::write(&keys_file, "").unwrap();
        Self {
            key,
            jwks_file,
            keys_file,
        }
    }

    /// Section `auth` that knows them.
    #[must_use]
    pub fn config(&self) -> AuthConfig {
        AuthConfig {
            issuers: vec![IssuerConfig {
                iss: ISS.to_owned(),
                aud: AUD.to_owned(),
                algorithms: [Algorithm::Rs256].into(),
                jwks_url: None,
                jwks_file: Some(self.jwks_file.clone()),
                secret_file: None,
                secret_env: None,
            }],
            keys_file: Some(self.keys_file.clone()),
            ..AuthConfig::default()
        }
    }

    /// The same as settings of the command line.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, String); 2] {
        let issuer = format!(
            "[{{ iss = '{ISS}', aud = '{AUD}', algorithms = ['RS256'], jwks_file = '{}' }}]",
            self.jwks_file.display()
        );
        let keys_file = self.keys_file.display().to_string();
        [("auth.issuers", issuer), ("auth.keys_file", keys_file)]
    }

    /// A good token of a user.
    #[must_use]
    pub fn token(&self, uid: impl ToString) -> String {
        self.key.token(&claims(uid))
    }

    /// A new service key, in the file from now on.
    #[must_use]
    pub fn service(&self, scopes: &[Scope]) -> String {
        let key = ServiceKey::generate().unwrap();
        let scopes = scopes.iter().copied().collect();
        let entry = KeyEntry::of(&key, "a test's".to_owned(), scopes, None);
        let file = fs::read_to_string(&self.keys_file).unwrap();
        fs::write(&self.keys_file, file + &entry.to_toml()).unwrap();
        key.text().expose().to_owned()
    }

    /// Takes every service key out of the file.
    pub fn revoke_services(&self) {
        fs::write(&self.keys_file, "").unwrap();
    }

    /// What somebody who wants to be this user might try, each with a part of the reason for which it is refused.
    #[must_use]
    pub fn forgeries(&self, uid: impl ToString) -> Vec<(&'static str, String)> {
        let good = claims(uid);
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            self.key.token(&claims)
        };
        let mut endless = good.clone();
        endless.as_object_mut().unwrap().remove("exp");
        let none = unsigned(&json!({ "alg": "none", "kid": "r1" }), &good);
        let confusion = SigningKey::hs256(&self.key.public_bytes);
        let hs256 = json!({ "alg": "HS256", "kid": "r1" });
        let strangers = SigningKey::rsa("r1");
        vec![
            ("expired", with("exp", 1.into())),
            ("not valid yet", with("nbf", 99_999_999_999_i64.into())),
            ("aud", with("aud", "another".into())),
            ("iss", with("iss", "https://another.test".into())),
            ("exp", self.key.token(&endless)),
            ("alg", format!("{none}.")),
            ("alg", confusion.token_with(&hs256, &good)),
            ("signature", strangers.token(&good)),
            ("neither a JWT nor a service key", "abc".to_owned()),
            (
                "service key is unknown",
                format!("tmk_00112233aabb_{}", "0f".repeat(32)),
            ),
        ]
    }
}

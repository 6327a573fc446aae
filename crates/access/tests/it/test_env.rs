//! What the tests begin with.

use std::{fs, path::PathBuf, time::Duration};

use access::{
    Algorithm, AuthConfig, Caller, IssuerConfig, Refusal, Verifier,
    test_issuer::{AUD, ISS, SECRET, SigningKey, jwks},
};
use schemas::UserId;
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::time::Instant;

/// Longer than anything here takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn user(uid: i64) -> Caller {
    Caller::User(UserId::try_from(uid).unwrap())
}

/// An issuer without a source of keys yet.
pub fn issuer(algorithms: &[Algorithm]) -> IssuerConfig {
    IssuerConfig {
        iss: ISS.to_owned(),
        aud: AUD.to_owned(),
        algorithms: algorithms.iter().copied().collect(),
        jwks_url: None,
        jwks_file: None,
        secret_file: None,
        secret_env: None,
    }
}

pub fn auth(issuers: impl IntoIterator<Item = IssuerConfig>) -> AuthConfig {
    AuthConfig {
        issuers: issuers.into_iter().collect(),
        ..AuthConfig::default()
    }
}

/// Files that go with the test.
pub struct Files(pub TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A verifier of one issuer with these public keys.
    pub fn verifier(&self, algorithms: &[Algorithm], keys: &[&SigningKey]) -> Verifier {
        let mut issuer = issuer(algorithms);
        issuer.jwks_file = Some(self.write("jwks.json", &jwks(keys).to_string()));
        Verifier::open(&auth([issuer])).unwrap()
    }

    /// A verifier of one issuer with a secret.
    pub fn hs256_verifier(&self) -> Verifier {
        let mut issuer = issuer(&[Algorithm::Hs256]);
        issuer.secret_file = Some(self.write("secret", SECRET));
        Verifier::open(&auth([issuer])).unwrap()
    }
}

/// What becomes of a token now.
pub async fn verified(verifier: &Verifier, token: &str) -> Result<Caller, Refusal> {
    verifier.verify(token, OffsetDateTime::now_utc()).await
}

/// Waits for something that is about to be so.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
